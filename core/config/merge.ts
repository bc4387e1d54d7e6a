import type { ConfigNode, MapEntry } from './config-node.ts';
import { childPointer } from '../base/pointer.ts';
import type { Problem } from './problem.ts';
import { placeText, problemAtNode } from './problem-list.ts';

const kinds = { map: 'an object', list: 'a list', scalar: 'a single value' } as const;

function isNothing(node: ConfigNode): boolean {
  return node.kind === 'scalar' && node.value === null;
}

/**
 * One configuration out of two files: keys are merged, lists appended, a value left empty gives way. Two
 * different values for one key are a problem that names both places; the first then stays.
 */
export function mergeNodes(
  first: ConfigNode,
  second: ConfigNode,
  { pointer, problems }: { pointer: string; problems: Problem[] },
): ConfigNode {
  if (isNothing(second)) return first;
  if (isNothing(first)) return second;
  if (first.kind === 'list' && second.kind === 'list')
    return { ...first, items: [...first.items, ...second.items] };
  if (first.kind === 'map' && second.kind === 'map') {
    const entries = new Map<string, MapEntry>(first.entries);
    for (const [key, entry] of second.entries) {
      const present = entries.get(key);
      const merged =
        present === undefined
          ? entry
          : {
              key: present.key,
              node: mergeNodes(present.node, entry.node, { pointer: childPointer(pointer, key), problems }),
            };
      entries.set(key, merged);
    }
    return { ...first, entries };
  }
  if (first.kind === 'scalar' && second.kind === 'scalar' && first.value === second.value) return first;
  const difference =
    first.kind === second.kind
      ? `has another value at ${placeText(first.place)}`
      : `is ${kinds[second.kind]} here and ${kinds[first.kind]} at ${placeText(first.place)}`;
  problems.push(problemAtNode(second.place, pointer, `this key ${difference}; keep one of them`));
  return first;
}
