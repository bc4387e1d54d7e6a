/** A price as a whole number of 10⁻¹⁸ dollars per token, that is 10⁻¹² dollars per million tokens. */
export type ExactPrice = bigint;

const zeros = '000000000000';

/** Dollars per million tokens, exact to 12 digits after the point (which takes float noise out of the data). */
export function exactPrice(dollarsPerMillion: number): ExactPrice {
  if (!Number.isFinite(dollarsPerMillion) || dollarsPerMillion < 0) {
    throw new Error(`the price data holds a price that is none: ${dollarsPerMillion}`);
  }
  return BigInt(dollarsPerMillion.toFixed(12).replace('.', ''));
}

/** The same in 10⁻¹² dollars per token, where that is a whole safe number, else NaN. */
export function picosPerUnit(price: ExactPrice): number {
  const picos = price % 1_000_000n === 0n ? Number(price / 1_000_000n) : NaN;
  return Number.isSafeInteger(picos) ? picos : NaN;
}

/**
 * An amount as a decimal with exactly 12 digits after the point: a number of 10⁻¹² dollars, or a bigint of 10⁻¹⁸
 * dollars, rounded half up.
 */
export function formatAmount(amount: number | bigint): string {
  const digits = String(typeof amount === 'number' ? amount : (amount + 500_000n) / 1_000_000n);
  if (digits.length <= 12) return `0.${zeros.slice(digits.length)}${digits}`;
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`;
}
