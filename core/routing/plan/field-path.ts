/** Upper bound of the names and indices of one path, its root included. */
const maxDepth = 32;
/** Upper bound of digits of an index; no list of a request is longer. */
const maxIndexDigits = 9;

/** A bare name, a quoted one in brackets, or an index in brackets. */
const part = /\.?([^.[\]"]+)|\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]/y;

/**
 * Parses a path of a config: `metadata.user`, `params.tools[0].function.name`, `url.pathname`, `trace_id`,
 * `api_key.id`. A name with dots or brackets is quoted: `metadata["a.b"]`. Undefined for any other text: another root,
 * a wildcard, a root without a member, or more than 32 parts.
 */
export function parseFieldPath(text: string): FieldPath | undefined {
  const path: (string | number)[] = [];
  part.lastIndex = 0;
  while (part.lastIndex < text.length) {
    const dotted = text.charAt(part.lastIndex) === '.';
    const found = part.exec(text);
    // Every name but the first needs a dot before it.
    const bare = found?.[1];
    if (found === null || bare === '*' || (bare !== undefined && dotted !== path.length > 0))
      return undefined;
    const next = bare ?? (found[2] === undefined ? listIndex(found[3] ?? '') : unquoted(found[2]));
    if (next === undefined || path.push(next) > maxDepth) return undefined;
  }
  return isKnown(path) ? path : undefined;
}

/** Inverse of `parseFieldPath`. */
export function describeFieldPath(path: FieldPath): string {
  let text = '';
  for (const next of path) {
    if (typeof next === 'number') text += `[${next}]`;
    else if (!isBare(next)) text += `[${JSON.stringify(next)}]`;
    else text += text === '' ? next : `.${next}`;
  }
  return text;
}

function isBare(name: string): boolean {
  return name !== '' && name !== '*' && !/[.[\]"]/.test(name);
}

function listIndex(digits: string): number | undefined {
  return digits.length <= maxIndexDigits ? Number(digits) : undefined;
}

function unquoted(json: string): string | undefined {
  try {
    return String(JSON.parse(json));
  } catch {
    return undefined;
  }
}

/** Whether the path can ever have a value. A misspelt path is an error, because it would silently never match. */
function isKnown(path: FieldPath): boolean {
  const [root, member] = path;
  switch (root) {
    case 'metadata':
      return path.length === 2 && typeof member === 'string';
    case 'params':
      return path.length >= 2;
    case 'url':
      return path.length === 2 && member === 'pathname';
    case 'trace_id':
      return path.length === 1;
    case 'api_key':
      return path.length === 1 || (path.length === 2 && member === 'id');
    default:
      return false;
  }
}

/** Path to a field of a request: `metadata.user`, `params.tools[0].type`, `url.pathname`. */
export type FieldPath = readonly (string | number)[];

/** Fields of a request that its plan can read. */
export interface RequestFields {
  readonly metadata: Readonly<Record<string, string>>;
  /** The parsed body; undefined for a body that is empty, not JSON or not read. */
  readonly params: unknown;
  readonly url: { readonly pathname: string };
  readonly traceId: string;
  /** Empty for a request without one. */
  readonly apiKeyId: string;
}

/**
 * The value at a path of `parseFieldPath`, undefined when there is none. Reads only own members (`params.constructor` is
 * undefined), and lists only by index. Never throws.
 */
export function readField(sources: RequestFields, path: FieldPath): unknown {
  switch (path[0]) {
    case 'metadata':
      return memberAt(sources.metadata, path[1]);
    case 'params': {
      let value = sources.params;
      for (let depth = 1; depth < path.length && value !== undefined; depth++)
        value = memberAt(value, path[depth]);
      return value;
    }
    case 'url':
      return memberAt(sources.url, path[1]);
    case 'trace_id':
      return sources.traceId === '' ? undefined : sources.traceId;
    case 'api_key':
      return sources.apiKeyId === '' ? undefined : sources.apiKeyId;
    default:
      return undefined;
  }
}

function memberAt(value: unknown, key: string | number | undefined): unknown {
  if (typeof value !== 'object' || value === null || key === undefined) return undefined;
  if (Array.isArray(value)) return typeof key === 'number' ? (value[key] as unknown) : undefined;
  if (typeof key === 'number' || !Object.hasOwn(value, key)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[key];
}
