import { pointerSegments } from '../../base/pointer.ts';
import { validateValue } from '../../config/validate-value.ts';
import { maxNesting } from '../../config/parse-yaml.ts';
import { parseJson } from '../../base/json.ts';
import { RouteConfigSchema, type RouteConfigInput } from '../../organisation/route-config.ts';
import { placeText } from './config-issue.ts';

/** A config out of a header, or what is wrong with the text or with its keys and values. */
export type InlineConfig =
  | { readonly ok: true; readonly config: RouteConfigInput }
  | { readonly ok: false; readonly issues: readonly { readonly path: string; readonly message: string }[] };

/** Longest config that a request may bring along, in bytes of UTF-8: 64 KiB. */
const maxBytes = 65_536;
/** Errors of the schema that are looked at, of keys and of values each. */
const mostIssues = 100;
/** In a config of more values only the first error is looked for. */
const maxExplained = 2000;

/** Reads a config that a request brings along as JSON. Its meaning is checked when it is compiled. Never throws. */
export function parseInlineConfig(text: string): InlineConfig {
  if (text.length > maxBytes || Buffer.byteLength(text) > maxBytes)
    return refused(`it is longer than ${maxBytes} bytes; define it under "configs" and send its name`);
  return readConfigObject(parseJson(text));
}

/** The same for what has been parsed. Its size is not looked at. */
export function readConfigObject(value: unknown): InlineConfig {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return refused('it is no JSON object; send one object with its quotes, commas and brackets in place');
  const values = countValues(value, maxNesting);
  if (values === undefined) return refused(`its lists and objects are nested more than ${maxNesting} deep`);
  const validated = validateValue(RouteConfigSchema, value, { most: values > maxExplained ? 1 : mostIssues });
  if (validated.issues.length === 0) return { ok: true, config: validated.value as RouteConfigInput };
  const issues = validated.issues.map(({ path, message }) => ({ path: placeText(placeOf(path)), message }));
  return { ok: false, issues };
}

function refused(message: string): InlineConfig {
  return { ok: false, issues: [{ path: 'config', message }] };
}

/** The place of a JSON pointer: what looks like an index is one, names of settings are not made of digits. */
function placeOf(pointer: string): (string | number)[] {
  return pointerSegments(pointer).map((segment) => (/^\d+$/.test(segment) ? Number(segment) : segment));
}

/** How many values there are; undefined when one is too deep. Level by level, so that no depth exhausts the stack. */
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
