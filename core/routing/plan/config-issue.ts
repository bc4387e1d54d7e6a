import { parseJson, pointerSegments } from '../../base/json.ts';
import { isSecretName } from '../../config/ajv.ts';
import { providerFields } from '../../providers/provider-fields.ts';
import { guardrailKeys, type RouteConfigInput, RouteConfigSchema } from '../../organisation/route-config.ts';
import { providerFieldsOf } from './inherit.ts';
import { validateValue } from '../../config/validate-value.ts';
import { maxNesting } from '../../config/parse-yaml.ts';

const secretFields = providerFields.filter(({ secret }) => secret).map(({ name }) => name);

/** Places of credentials in a config, each with the remedy: many users can read a saved config. */
export function secretsInConfig(
  config: RouteConfigInput,
  place: ConfigPlace = [],
): readonly { readonly path: string; readonly message: string }[] {
  const fields = providerFieldsOf(config);
  const held: string[] = secretFields.filter((name) => fields[name] !== undefined);
  if (config.api_key !== undefined) held.unshift('api_key');
  return [
    ...secretsInGuardrails(config, place),
    ...held.map((name) => ({
      path: placeText([...place, name]),
      message: 'a saved config holds no credentials; save them as a provider, and name it in "virtual_key"',
    })),
    ...(config.targets ?? []).flatMap((target, index) =>
      secretsInConfig(target, [...place, 'targets', index]),
    ),
  ];
}

/** Places of credentials in inline guardrails. */
function secretsInGuardrails(
  config: RouteConfigInput,
  place: ConfigPlace,
): readonly { readonly path: string; readonly message: string }[] {
  return guardrailKeys.flatMap(([key]) =>
    (config[key] ?? []).flatMap((guardrail, index) => {
      if (typeof guardrail === 'string') return [];
      const { checks } = guardrail;
      const written = Array.isArray(checks)
        ? checks.map((check: unknown, at) => [['checks', at, 'parameters'], parametersOf(check)] as const)
        : Object.entries(guardrail).map(([name, parameters]) => [[name], parameters] as const);
      return written
        .flatMap(([at, parameters]) => secretsIn(parameters).map((name) => [...at, name]))
        .map((at) => ({
          path: placeText([...place, key, index, ...at]),
          message: 'a saved config holds no credentials; store the guardrail, and name it here',
        }));
    }),
  );
}

/** Names of the parameters that hold credentials: of headers, those that are known to. */
function secretsIn(parameters: unknown): readonly string[] {
  const { credentials, headers } = Object(parameters) as Readonly<Record<string, unknown>>;
  const given: unknown = typeof headers === 'string' ? parseJson(headers) : headers;
  const isSecret = Object.keys(Object(given) as object).some(isSecretName);
  return [...(credentials === undefined ? [] : ['credentials']), ...(isSecret ? ['headers'] : [])];
}

function parametersOf(check: unknown): unknown {
  return typeof check === 'object' && check !== null && 'parameters' in check ? check.parameters : undefined;
}

/** A place in a config: `['targets', 1, 'provider']`. */
export type ConfigPlace = readonly (string | number)[];

/** A semantic issue of a config. */
export interface ConfigIssue {
  /** Readable place: `config.targets[1].provider`. */
  readonly path: string;
  /** Without a full stop. */
  readonly message: string;
  /** The same place for programs, without the leading `config`. */
  readonly place: ConfigPlace;
  /** Name of the referenced config that contains the issue; `place` is then the reference. */
  readonly within: string | undefined;
}

/** Upper bound of reported issues; a hostile config may have thousands. */
const maxIssues = 100;

/** Collects the issues of one config, at most 100. */
export class ConfigIssues {
  readonly found: ConfigIssue[] = [];

  add(place: ConfigPlace, message: string, within?: string): void {
    if (this.found.length < maxIssues)
      this.found.push({ path: placeText(place), message: message.replace(/\.$/, ''), place, within });
  }
}

const plainName = /^[A-Za-z_$][\w$-]*$/;

/** A place in readable form: `config.targets[1].metadata["a.b"]`. */
export function placeText(place: ConfigPlace): string {
  let text = 'config';
  for (const part of place) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += plainName.test(part) ? `.${part}` : `[${JSON.stringify(part)}]`;
  }
  return text;
}

/** An inline config, or the issues of its text, keys and values. */
export type InlineConfig =
  | { readonly ok: true; readonly config: RouteConfigInput }
  | { readonly ok: false; readonly issues: readonly { readonly path: string; readonly message: string }[] };

/** Upper bound of an inline config, in bytes of UTF-8: 64 KiB. */
const maxBytes = 65_536;
/** Upper bound of evaluated schema errors, of keys and of values each. */
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
