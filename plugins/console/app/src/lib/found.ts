/**
 * What has all the words of a text in its own: those whose text begins with it first, then those with it in their text.
 * The list is filtered here, so that what arrives late is chosen as what was there.
 */
export function foundBy<T extends { readonly text: string; readonly words?: string }>(
  typed: string,
  all: readonly T[],
): readonly T[] {
  const whole = typed.trim().toLowerCase();
  const parts = whole.split(/\s+/);
  const rank = ({ text }: T): number => {
    const at = text.toLowerCase().indexOf(whole);
    return at < 0 ? 2 : Math.min(at, 1);
  };
  return all
    .filter(({ text, words = '' }) => parts.every((part) => `${text} ${words}`.toLowerCase().includes(part)))
    .sort((one, other) => rank(one) - rank(other));
}
