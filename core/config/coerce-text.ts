/**
 * The number or boolean that a text spells, for values that come from variables; undefined when it spells
 * none. Integers must be exact, booleans are `true` and `false`.
 */
export function coerceText(text: string, type: string): number | boolean | undefined {
  const trimmed = text.trim();
  if (type === 'boolean') return trimmed === 'true' ? true : trimmed === 'false' ? false : undefined;
  const pattern = type === 'integer' ? /^[+-]?\d{1,16}$/ : /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  if ((type !== 'integer' && type !== 'number') || !pattern.test(trimmed)) return undefined;
  const number = Number(trimmed);
  const usable = type === 'integer' ? Number.isSafeInteger(number) : Number.isFinite(number);
  return usable ? number : undefined;
}
