import { pointerSegments } from '../../base/pointer.ts';
import { validateValue } from '../../config/validate-value.ts';
import { maxNesting } from '../../config/parse-yaml.ts';
import { parseJson } from '../../base/json.ts';
import { RouteConfigSchema, type RouteConfigInput } from '../../organisation/route-config.ts';
import { placeText } from './config-issue.ts';

/** An inline config, or the issues of its text, keys and values. */
export type InlineConfig =
  | { readonly ok: true; readonly config: RouteConfigInput }
  | { readonly ok: false; readonly issues: readonly { readonly path: string; readonly message: string }[] };

/** Upper bound of an inline config, in bytes of UTF-8: 64 KiB. */
const maxBytes = 65_536;
/** Upper bound of evaluated schema errors, of keys and of values each. */
const maxIssues = 100;
/** Number of values above which only the first error of a config is reported. */
const maxExplained = 2000;

/** Parses the inline config of a request. Its meaning is checked when it is compiled. Never throws. */
export function parseInlineConfig(text: string): InlineConfig {
  if (text.length > maxBytes || Buffer.byteLength(text) > maxBytes)
    return refused(`it is longer than ${maxBytes} bytes; define it under "configs" and send its name`);
  return readConfigObject(parseJson(text));
}

/** As `parseInlineConfig`, for a parsed value and without a bound of its size. */
export function readConfigObject(value: unknown): InlineConfig {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return refused('it is no JSON object; send one object with its quotes, commas and brackets in place');
  const values = countValues(value, maxNesting);
  if (values === undefined) return refused(`its lists and objects are nested more than ${maxNesting} deep`);
  const validated = validateValue(RouteConfigSchema, value, { most: values > maxExplained ? 1 : maxIssues });
  if (validated.issues.length === 0) return { ok: true, config: validated.value as RouteConfigInput };
  const issues = validated.issues.map(({ path, message }) => ({ path: placeText(placeOf(path)), message }));
  return { ok: false, issues };
}

function refused(message: string): InlineConfig {
  return { ok: false, issues: [{ path: 'config', message }] };
}

/** The place of a JSON pointer. Digits are an index, because no setting has a numeric name. */
function placeOf(pointer: string): (string | number)[] {
  return pointerSegments(pointer).map((segment) => (/^\d+$/.test(segment) ? Number(segment) : segment));
}

/** Number of values; undefined when one is too deep. Works level by level, so that no depth exhausts the stack. */
function countValues(value: unknown, maxDepth: number): number | undefined {
  let count = 1;
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return undefined;
    level = level.flatMap((each) => {
      const members: unknown[] = typeof each === 'object' && each !== null ? Object.values(each) : [];
      count += members.length;
      return members.filter((member) => typeof member === 'object' && member !== null);
    });
  }
  return count;
}
