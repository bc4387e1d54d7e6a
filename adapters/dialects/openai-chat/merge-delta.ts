import { asObject, type JsonObject } from '../json-reading.ts';

/** Members whose text comes in pieces. Other members are said whole; the last one said counts. */
const inPieces: ReadonlySet<string> = new Set([
  'content',
  'refusal',
  'reasoning_content',
  'reasoning',
  'text',
  'arguments',
  'input',
  'transcript',
  'data',
]);

/**
 * Adds what one delta says to what was said before: texts are joined, tool calls matched by index, other arrays
 * appended, objects merged, and anything else replaced. Null says nothing.
 */
export function mergeDelta(target: JsonObject, delta: JsonObject): void {
  for (const [member, value] of Object.entries(delta)) {
    if (member === '__proto__') continue;
    target[member] = merged(member, target[member], value);
  }
}

function merged(member: string, before: unknown, value: unknown): unknown {
  if (value === null || value === undefined) return before ?? null;
  if (Array.isArray(value)) return mergedArray(member, before, value);
  if (typeof value === 'string') {
    if (Array.isArray(before)) return value === '' ? before : [...(before as unknown[]), textPart(value)];
    if (typeof before !== 'string') return value;
    return inPieces.has(member) ? before + value : value || before;
  }
  const members = asObject(value);
  if (members === undefined) return value;
  const target = asObject(before) ?? {};
  mergeDelta(target, members);
  return target;
}

function mergedArray(member: string, before: unknown, value: readonly unknown[]): unknown {
  const list: unknown[] = Array.isArray(before) ? before : [];
  // A host may send plain text first and parts later.
  if (typeof before === 'string' && before !== '') list.push(textPart(before));
  if (member !== 'tool_calls') {
    list.push(...value);
    return list;
  }
  value.forEach((item, position) => {
    const call = asObject(item);
    if (call === undefined) return;
    const known = list.map(asObject);
    // A host that leaves the index out sends each call whole, under its id.
    const byId = typeof call.index !== 'number' && typeof call.id === 'string';
    const index = typeof call.index === 'number' ? call.index : byId ? list.length : position;
    const match = known.find((candidate) => (byId ? candidate?.id === call.id : candidate?.index === index));
    if (match === undefined) list.push({ index });
    mergeDelta(match ?? (list.at(-1) as JsonObject), call);
  });
  return list;
}

function textPart(text: string): JsonObject {
  return { type: 'text', text };
}
