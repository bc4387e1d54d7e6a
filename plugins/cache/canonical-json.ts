import type { JsonValue } from '../../core/pipeline/context.ts';
import { quote } from '../../core/base/json.ts';

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
  if (typeof value === 'string') return quote(value);
  // Not JSON.stringify: it knows no BigInt, and writes numbers that are too large as null.
  if (typeof value !== 'object' || value === null) return String(value);
  if (depth === maxDepth) return undefined;
  return Array.isArray(value) ? list(value, depth) : members(value, without, depth);
}

function list(items: readonly JsonValue[], depth: number): string | undefined {
  let text = '';
  for (let i = 0; i < items.length; i++) {
    const item = write(items[i] as JsonValue, nothing, depth + 1);
    if (item === undefined) return undefined;
    text += i === 0 ? item : `,${item}`;
  }
  return `[${text}]`;
}

function members(
  object: Readonly<Record<string, JsonValue>>,
  without: ReadonlySet<string>,
  depth: number,
): string | undefined {
  let text = '';
  for (const name of sorted(Object.keys(object))) {
    if (without.has(name)) continue;
    const value = write(object[name] as JsonValue, nothing, depth + 1);
    if (value === undefined) return undefined;
    text += text === '' ? `${quote(name)}:${value}` : `,${quote(name)}:${value}`;
  }
  return `{${text}}`;
}

/** More names than these are left to the engine's own sort, which takes memory for each call. */
const maxInserted = 16;

/** The same list, in the order of UTF-16 code units. */
function sorted(names: string[]): string[] {
  if (names.length > maxInserted) return names.sort();
  for (let i = 1; i < names.length; i++) {
    const name = names[i] as string;
    let place = i;
    for (; place > 0 && (names[place - 1] as string) > name; place--)
      names[place] = names[place - 1] as string;
    names[place] = name;
  }
  return names;
}
