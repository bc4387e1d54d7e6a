/**
 * Remembers the child of each combination of label values. Over `most` combinations the rest share one child
 * whose labels are all `other`: label values that callers choose must not fill the memory.
 */
export function boundedChildren<L extends string, C>(
  names: readonly L[],
  create: (labels: Record<L, string>) => C,
  most: number,
): (labels: Record<L, string>) => C {
  const children = new Map<string, C>();
  let other: C | undefined;
  return (labels) => {
    const key = childKey(names, labels);
    const known = children.get(key);
    if (known !== undefined) return known;
    if (children.size >= most) {
      other ??= create(relabelled(names, () => 'other'));
      return other;
    }
    const child = create(relabelled(names, (name) => labels[name]));
    children.set(key, child);
    return child;
  };
}

function childKey<L extends string>(names: readonly L[], labels: Record<L, string>): string {
  if (names.length === 1) return labels[names[0] as L];
  let key = '';
  // The length keeps `a` + `bc` and `ab` + `c` apart.
  for (const name of names) key += `${labels[name].length}:${labels[name]}`;
  return key;
}

function relabelled<L extends string>(names: readonly L[], value: (name: L) => string): Record<L, string> {
  return Object.fromEntries(names.map((name) => [name, value(name)])) as Record<L, string>;
}
