import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { sha256 } from '../base/bytes.ts';

/** Deeper than any schema, and far below the limit of the stack. */
const maxDepth = 128;

/** The members of `annotations` that the protocol knows; a handshake keeps no others. */
const hints = ['title', 'readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'];

/**
 * Digest of all that a model or its client decides by when it calls a tool: title, description, schemas and hints. A
 * change of them can change what the model does, so it has to be approved. The order of members does not count.
 * Undefined for a tool that is nested too deeply to read: it is never as approved.
 */
export function toolDigest(tool: Readonly<Record<string, unknown>>): string | undefined {
  const {
    description = '',
    title = '',
    inputSchema = {},
    outputSchema = null,
    annotations,
  } = tool as JsonObject;
  const known = isJsonObject(annotations) ? annotations : {};
  const said = hints.map((hint) => (Object.hasOwn(known, hint) ? (known[hint] ?? null) : null));
  const text = canonicalJson([description, title, inputSchema, outputSchema, said], 0);
  return text === undefined ? undefined : `sha256:${sha256(text, 'hex')}`;
}

/** JSON with the members of objects in the order of their names. */
function canonicalJson(value: JsonValue, depth: number): string | undefined {
  // Handshakes read numbers with `JSON.parse`, which rounds long ones.
  if (typeof value === 'bigint') return JSON.stringify(Number(value));
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (depth === maxDepth) return undefined;
  const parts: string[] = [];
  const isList = Array.isArray(value);
  for (const [name, member] of isList ? value.entries() : membersOf(value)) {
    const text = canonicalJson(member, depth + 1);
    if (text === undefined) return undefined;
    parts.push(isList ? text : `${JSON.stringify(name)}:${text}`);
  }
  return isList ? `[${parts.join(',')}]` : `{${parts.join(',')}}`;
}

function membersOf(object: JsonObject): readonly (readonly [string, JsonValue])[] {
  const names = Object.keys(object).sort();
  return names.map((name) => [name, object[name] ?? null]);
}
