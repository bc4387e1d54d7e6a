/** US dollars as a whole number of 10⁻³⁰ dollars: billed and recorded costs add up without rounding. */
export type ExactAmount = bigint;

const digits = 30;
const scale = 10n ** BigInt(digits);
/** A price has no more digits than this, and an exponent no more than two. */
const longestText = 64;
const decimal = /^([+-]?)(\d*)(?:\.(\d*))?(?:e([+-]?\d{1,2}))?$/i;

/**
 * A decimal number, also with an exponent; `shift` moves its point to the left (2: cents become dollars). Undefined for
 * anything else, and for a number with more than 30 digits after the point.
 */
export function readAmount(text: string, shift = 0): ExactAmount | undefined {
  if (text.length > longestText) return undefined;
  const [, sign, whole = '', fraction = '', exponent = '0'] = decimal.exec(text.trim()) ?? [];
  if (sign === undefined || whole + fraction === '') return undefined;
  const power = digits + Number(exponent) - shift - fraction.length;
  const all = BigInt(whole + fraction);
  const divisor = 10n ** BigInt(Math.max(-power, 0));
  if (all % divisor !== 0n) return undefined;
  const amount = power >= 0 ? all * 10n ** BigInt(power) : all / divisor;
  return sign === '-' ? -amount : amount;
}

/** All of its digits, without zeros at the end: `0.000123`. */
export function exactText(amount: ExactAmount): string {
  return fixedText(amount, digits).replace(/\.?0+$/, '');
}

/** With so many digits after the point (1 to 30), rounded half away from zero: `-0.50`. */
export function fixedText(amount: ExactAmount, places: number): string {
  const unit = 10n ** BigInt(digits - places);
  const size = amount < 0n ? -amount : amount;
  const rounded = (size + unit / 2n) / unit;
  const text = String(rounded).padStart(places + 1, '0');
  const sign = amount < 0n && rounded > 0n ? '-' : '';
  return `${sign}${text.slice(0, -places)}.${text.slice(-places)}`;
}

/** One amount in percent of another, with one digit after the point; undefined where the other is 0. */
export function percentText(part: ExactAmount, whole: ExactAmount): string | undefined {
  return whole === 0n ? undefined : fixedText((part * 100n * scale) / whole, 1);
}
