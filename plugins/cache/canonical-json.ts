import type { JsonValue } from '../../core/pipeline/context.ts';

/** A body that is nested more deeply than this is not cached; no model is asked with one. */
const maxDepth = 256;

/**
 * The same text for JSON documents that say the same, whatever their whitespace and the order of their members, and
 * another one for every other difference: members of `without` (of the document itself) are left out, integers beyond
 * 2^53 keep their digits. Undefined for a document that is nested too deeply.
 */
export function canonicalJson(value: JsonValue, without: ReadonlySet<string>): string | undefined {
  return write(value, without, 0);
}

const nothing: ReadonlySet<string> = new Set();

function write(value: JsonValue, without: ReadonlySet<string>, depth: number): string | undefined {
  if (typeof value === 'string') return JSON.stringify(value);
  // Not JSON.stringify: it knows no BigInt, and writes numbers that are too large as null.
  if (typeof value !== 'object' || value === null) return String(value);
  if (depth === maxDepth) return undefined;
  const isList = Array.isArray(value);
  let text = isList ? '[' : '{';
  for (const name of isList ? value.keys() : Object.keys(value).sort()) {
    if (without.has(name as string)) continue;
    const member = write(
      (value as Record<string | number, JsonValue>)[name] as JsonValue,
      nothing,
      depth + 1,
    );
    if (member === undefined) return undefined;
    if (text.length > 1) text += ',';
    text += isList ? member : `${JSON.stringify(name)}:${member}`;
  }
  return text + (isList ? ']' : '}');
}
