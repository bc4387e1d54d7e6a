/** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
export function chanceOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** An urn of `size` lots: each index in proportion to its weight, and at least once. */
export function urnOf(weights: readonly number[], size: number): number[] {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  let drawn = 0;
  return weights.flatMap((weight, index) => {
    const before = Math.round(drawn);
    drawn += (weight / sum) * size;
    return Array.from({ length: Math.max(1, Math.round(drawn) - before) }, () => index);
  });
}
