const maxQuoted = 200;

/** `a`, `a or b`, `a, b or c`; with more than `limit` words the rest is counted. */
export function listWords(words: readonly string[], conjunction: 'and' | 'or', limit = 20): string {
  const shown =
    words.length > limit ? [...words.slice(0, limit), `${words.length - limit} more`] : [...words];
  const last = shown.pop();
  if (last === undefined) return '';
  return shown.length === 0 ? last : `${shown.join(', ')} ${conjunction} ${last}`;
}

/** A name in quotes, for messages; of a long one its beginning. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > maxQuoted ? `${name.slice(0, maxQuoted - 1)}…` : name);
}
