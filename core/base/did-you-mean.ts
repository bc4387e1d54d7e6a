const maxQuoted = 200;

/** `a`, `a or b`, `a, b or c`; beyond `limit` words only their number follows. */
export function listWords(words: readonly string[], conjunction: 'and' | 'or', limit = 20): string {
  const shown =
    words.length > limit ? [...words.slice(0, limit), `${words.length - limit} more`] : [...words];
  const last = shown.pop();
  if (last === undefined) return '';
  return shown.length === 0 ? last : `${shown.join(', ')} ${conjunction} ${last}`;
}

/** A quoted name for messages, shortened when long. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > maxQuoted ? `${name.slice(0, maxQuoted - 1)}…` : name);
}

/** Longer words get no suggestion: the cost grows with the square of the length, and such words are rarely mistyped. */
const maxLength = 64;
const maxCandidates = 1000;

/**
 * Number of insertions, deletions, replacements and swaps of neighbours between two words (optimal string alignment);
 * `limit` + 1 as soon as it exceeds `limit`.
 */
export function editDistance(from: string, to: string, limit: number): number {
  if (Math.abs(from.length - to.length) > limit) return limit + 1;
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1];
      let best = Math.min(
        (previous[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (previous[column - 1] ?? 0) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1])
        best = Math.min(best, (beforePrevious[column - 2] ?? 0) + 1);
      current.push(best);
    }
    if (Math.min(...current) > limit) return limit + 1;
    beforePrevious = previous;
    previous = current;
  }
  return Math.min(previous[to.length] ?? 0, limit + 1);
}

/** Ignores letter case, `-` and `_`, the most frequent mistakes. */
function folded(word: string): string {
  return word.toLowerCase().replace(/[-_\s]/g, '');
}

/** The most probable candidate, or undefined: at most a third of its letters may differ, and at most 3. */
export function didYouMean(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > maxLength) return undefined;
  const target = folded(word);
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  let examined = 0;
  for (const candidate of candidates) {
    if (++examined > maxCandidates) break;
    if (candidate.length > maxLength) continue;
    const limit = Math.min(3, Math.max(1, Math.floor(Math.max(target.length, candidate.length) / 3)));
    const distance = editDistance(target, folded(candidate), limit);
    // A word of one or two letters is close to every other one.
    const near = distance <= limit && distance < Math.max(target.length, 1);
    if (near && distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}
