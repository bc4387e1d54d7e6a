import type { JsonObject, JsonValue } from '../../pipeline/context.ts';
import type { ParamEdits } from './apply-param-edits.ts';
import { isJsonObject, writeJson } from '../../base/json.ts';

/** Upper bound of digits of an index; no list of a request is longer. */
const maxIndexDigits = 9;

/** A bare name, a quoted one in brackets, an index in brackets, or `[*]`. */
const part = /\.?([^.[\]"]+)|\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]|\[(\*)\]/y;

/**
 * A path into a request's body: `a`, `a.b`, `tools[0].x`, `tools[*].x` (every item); a name with dots or brackets is
 * quoted: `a["b.c"]`. Undefined for anything else. The name `*` cannot be written.
 */
export function parseParamPath(text: string): (string | number)[] | undefined {
  const path: (string | number)[] = [];
  part.lastIndex = 0;
  while (part.lastIndex < text.length) {
    const isDotted = text.charAt(part.lastIndex) === '.';
    const found = part.exec(text);
    if (found === null) return undefined;
    const [, bare, quoted, index, every] = found;
    // Every name but the first needs a dot before it.
    if (bare !== undefined && isDotted !== path.length > 0) return undefined;
    const next = every ?? name(bare, quoted) ?? listIndex(index);
    if (next === undefined) return undefined;
    path.push(next);
  }
  return path.length > 0 && typeof path[0] === 'string' && path[0] !== '*' ? path : undefined;
}

function name(bare: string | undefined, quoted: string | undefined): string | undefined {
  const read = bare?.trim() ?? unquoted(quoted);
  return read === '*' ? undefined : read;
}

function unquoted(quoted: string | undefined): string | undefined {
  if (quoted === undefined) return undefined;
  try {
    return String(JSON.parse(quoted));
  } catch {
    return undefined;
  }
}

function listIndex(digits: string | undefined): number | undefined {
  return digits !== undefined && digits.length <= maxIndexDigits ? Number(digits) : undefined;
}

/** `default_params`, `override_params`, `drop_params` and `model_prefix` of a config; undefined where it has none. */
interface ParamSources {
  readonly defaults?: unknown;
  readonly overrides?: unknown;
  readonly drops?: unknown;
  readonly modelPrefix?: { readonly remove?: string; readonly add?: string } | undefined;
}

/** A problem with its place below the target: `drop_params[2]`. */
interface ParamIssue {
  readonly path: string;
  readonly message: string;
}

const maxDrops = 64;
const maxSteps = 16;
const maxValueBytes = 256 * 1024;
const maxDepth = 64;

/**
 * Checks and compiles a config's edits of request bodies. `edits` is undefined when there are none; it leaves out edits
 * with issues.
 */
export function compileParamEdits(sources: ParamSources): {
  readonly edits: ParamEdits | undefined;
  readonly issues: ParamIssue[];
} {
  const issues: ParamIssue[] = [];
  const defaults = readMembers('default_params', sources.defaults, issues);
  const overrides = readMembers('override_params', sources.overrides, issues);
  const drops = readDrops(sources.drops, issues);
  const bytes = sizeOf(defaults) + sizeOf(overrides);
  if (bytes > maxValueBytes) {
    const message = `default_params and override_params are ${bytes} bytes of JSON; together they may be ${maxValueBytes}.`;
    issues.push({ path: 'override_params', message });
  }
  // A model that is set in any case keeps nothing of its beginning.
  const isSet = overrides.some(([name]) => name === 'model');
  const { remove = '', add = '' } = (isSet ? undefined : sources.modelPrefix) ?? {};
  const prefix = remove === add ? {} : { modelPrefix: { remove, add } };
  const isEmpty = defaults.length + overrides.length + drops.length === 0 && remove === add;
  return { edits: isEmpty ? undefined : { defaults, overrides, drops, ...prefix }, issues };
}

type Member = readonly [name: string, value: JsonValue];

function readMembers(path: string, source: unknown, issues: ParamIssue[]): Member[] {
  if (source === undefined || source === null) return [];
  if (!isJsonObject(source)) {
    issues.push({ path, message: `${path} must be an object of parameters and their values.` });
    return [];
  }
  const members: Member[] = [];
  for (const [name, value] of Object.entries(source)) {
    if (value === undefined) continue;
    if (name === '__proto__') {
      issues.push({ path: `${path}.${name}`, message: `${name} cannot be a parameter. Remove it.` });
    } else if (!isJson(value, maxDepth)) {
      const message = `The value of ${name} is no JSON value, or is nested deeper than ${maxDepth} levels.`;
      issues.push({ path: `${path}.${name}`, message });
    } else {
      members.push([name, value]);
    }
  }
  return members;
}

function readDrops(source: unknown, issues: ParamIssue[]): (string | number)[][] {
  if (source === undefined || source === null) return [];
  if (!Array.isArray(source)) {
    issues.push({ path: 'drop_params', message: 'drop_params must be a list of paths.' });
    return [];
  }
  if (source.length > maxDrops) {
    const message = `drop_params has ${source.length} paths; it may have ${maxDrops}.`;
    issues.push({ path: 'drop_params', message });
    return [];
  }
  const drops: (string | number)[][] = [];
  for (const [index, text] of (source as unknown[]).entries()) {
    const path = typeof text === 'string' ? parseParamPath(text) : undefined;
    const message = path === undefined ? malformed(text) : path.length > maxSteps ? tooLong(path) : undefined;
    if (message !== undefined) issues.push({ path: `drop_params[${index}]`, message });
    else if (path !== undefined) drops.push(path);
  }
  return drops;
}

function malformed(text: unknown): string {
  const given = typeof text === 'string' ? JSON.stringify(text.slice(0, 100)) : 'This';
  return `${given} is no path to a parameter. Write it like a, a.b, tools[0].x, tools[*].x or a["b.c"].`;
}

function tooLong(path: readonly unknown[]): string {
  return `This path has ${path.length} steps; it may have ${maxSteps}.`;
}

function isJson(value: unknown, depth: number): value is JsonValue {
  if (value === null || typeof value === 'string' || typeof value === 'boolean' || typeof value === 'bigint')
    return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depth === 0) return false;
  if (!Array.isArray(value) && Object.prototype.toString.call(value) !== '[object Object]') return false;
  return Object.values(value).every((inner) => isJson(inner, depth - 1));
}

function sizeOf(members: readonly Member[]): number {
  const object: JsonObject = Object.fromEntries(members);
  return members.length === 0 ? 0 : Buffer.byteLength(writeJson(object));
}
