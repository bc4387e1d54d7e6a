/** Deeper than any description, and far from what breaks a stack or a store. */
const maxDepth = 64;

/** Members of an object that were kept, and how many were not. */
export interface FittingMembers {
  readonly kept: Readonly<Record<string, unknown>>;
  readonly leftOut: number;
}

/**
 * The members of an object that somebody else wrote, as every store takes them: text without NUL and without half a
 * surrogate pair (U+FFFD stands instead). In their order, as many as fit into `maxBytes` of JSON; one that does not, or
 * is nested deeper than 64, is left out whole.
 */
export function fittingMembers(members: Readonly<Record<string, unknown>>, maxBytes: number): FittingMembers {
  const kept: [string, unknown][] = [];
  let leftOut = 0;
  let bytes = 2;
  for (const [rawName, value] of Object.entries(members)) {
    if (value === undefined) continue;
    const name = storableText(rawName);
    const copy = plainCopy(value, 1);
    // With the quotes, the colon and the comma around them.
    const size = copy === tooDeep ? Infinity : jsonBytes(name) + jsonBytes(copy) + 2;
    if (bytes + size > maxBytes) {
      leftOut += 1;
      continue;
    }
    bytes += size;
    kept.push([name, copy]);
  }
  return { kept: Object.fromEntries(kept), leftOut };
}

/** The text without what stores refuse. */
export function storableText(text: string): string {
  return text.replace(/\0|\p{Surrogate}/gu, '\ufffd');
}

const tooDeep = Symbol('nested too deep');

function plainCopy(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return storableText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === maxDepth) return tooDeep;
  const entries: [string, unknown][] = [];
  for (const [name, member] of Object.entries(value)) {
    const copy = plainCopy(member, depth + 1);
    if (copy === tooDeep) return tooDeep;
    entries.push([storableText(name), copy]);
  }
  return Array.isArray(value) ? entries.map(([, member]) => member) : Object.fromEntries(entries);
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
