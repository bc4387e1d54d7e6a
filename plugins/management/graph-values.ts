import { Type } from '../../core/pipeline/plugin.ts';
import type { Measure, Measures } from '../../core/ports/analytics.ts';

/** A whole number that is there also where nothing happened. */
export const Count = (description: string) => Type.Integer({ description });
/** A number, or null where there is nothing to make it of. */
export const Figure = (description: string) => Type.Union([Type.Number(), Type.Null()], { description });
/** An instant in UTC. */
export const Timestamp = Type.String({
  description: 'Beginning of the point, ISO 8601; it may lie before the window.',
});

/** One number of the measures; counts that are not there are 0. */
export function counted(values: Measures, measure: Measure): number {
  return measured(values, measure) ?? 0;
}

/** One number of the measures; null where there is none. Sums come as text from the store. */
export function measured(values: Measures, measure: Measure): number | null {
  const value = values[measure] ?? null;
  return value === null ? null : Number(value);
}

/** The one over the other, without the digits that binary fractions make up; null over nothing. */
export function per(value: number | null, count: number): number | null {
  return value === null || count === 0 ? null : plain(value / count);
}

/** Percent of a number: from 0 to 100, null of nothing. */
export function percent(part: number, whole: number): number | null {
  return whole === 0 ? null : plain((100 * part) / whole);
}

/** US dollars as a number; the store sums them as decimals and says them as text. */
export function dollars(sum: number | string | null | undefined): number {
  return Number(sum ?? 0);
}

function plain(value: number): number {
  return Number(value.toPrecision(15));
}
