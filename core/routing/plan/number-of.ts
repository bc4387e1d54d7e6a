const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,4})?$/i;
const integer = /^[+-]?\d+$/;
/** More characters than any number that is meant as one. */
const longestNumber = 400;

/** A number, or the number that a text is, whole ones with all their digits; undefined for anything else. */
export function numberOf(value: unknown): number | bigint | undefined {
  if (typeof value === 'bigint') return value;
  if (typeof value === 'number') return Number.isNaN(value) ? undefined : value;
  if (typeof value !== 'string' || value.length > longestNumber) return undefined;
  const text = value.trim();
  if (!decimal.test(text)) return undefined;
  const number = Number(text);
  return Number.isSafeInteger(number) || !integer.test(text) ? number : bigInteger(text);
}

function bigInteger(text: string): bigint {
  // `BigInt` knows no plus sign.
  return text.startsWith('+') ? BigInt(text.slice(1)) : BigInt(text);
}
