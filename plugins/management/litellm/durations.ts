// Durations as LiteLLM writes them: `30s`, `24h`, `7d`, `1mo`, `monthly`.
import type { JsonObject } from '../../../core/base/json.ts';

const dayMs = 86_400_000;
const words: Readonly<Record<string, string>> = { hourly: '1h', daily: '24h', weekly: '7d', monthly: '30d' };
const millisecondsOf: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: dayMs,
  w: 7 * dayMs,
};

/** Every duration of LiteLLM. */
export const liteLLMDuration = '^(?:\\d{1,6}(?:s|m|h|d|w|mo)|hourly|daily|weekly|monthly)$';

/** Members of a usage limit that say when it begins anew. */
export interface LiteLLMReset {
  readonly periodic_reset?: 'monthly' | 'weekly';
  readonly periodic_reset_days?: number;
}

/**
 * When a budget with this `budget_duration` begins anew. LiteLLM goes by the calendar, and so do these periods: `30d`, `1mo` and
 * `monthly` on the first of the month, `7d`, `1w` and `weekly` on Mondays. Undefined for a duration of other than whole days from
 * 1 to 365; months other than `1mo` have no period in LiteLLM either.
 */
export function liteLLMReset(duration: string): LiteLLMReset | undefined {
  const read = readDuration(duration);
  if (read === undefined) return undefined;
  const days = (read.count * (millisecondsOf[read.unit] ?? NaN)) / dayMs;
  if ((read.unit === 'mo' && read.count === 1) || (read.unit === 'd' && days === 30))
    return { periodic_reset: 'monthly' };
  if (days === 7 && read.unit !== 'h') return { periodic_reset: 'weekly' };
  return Number.isInteger(days) && days >= 1 && days <= 365 ? { periodic_reset_days: days } : undefined;
}

/** The `budget_duration` of a usage limit, as its clients mostly write it; null without a period. */
export function liteLLMPeriod(limit: JsonObject): string | null {
  const { periodic_reset: reset, periodic_reset_days: days } = limit;
  if (typeof days === 'number') return `${days}d`;
  return reset === 'monthly' ? '30d' : reset === 'weekly' ? '7d' : null;
}

/**
 * The time in milliseconds at which a `duration` that begins at `start` ends: months are those of the calendar, the last day of a
 * shorter month stands for one that it lacks. Undefined for what is no duration, or ends beyond the year 9999.
 */
export function liteLLMEnd(duration: string, start: number): number | undefined {
  const read = readDuration(duration);
  if (read === undefined) return undefined;
  const end =
    read.unit === 'mo'
      ? monthsAfter(start, read.count)
      : start + read.count * (millisecondsOf[read.unit] ?? NaN);
  return end < Date.UTC(10_000, 0) ? end : undefined;
}

function readDuration(written: string): { readonly count: number; readonly unit: string } | undefined {
  const [, count, unit] = /^(\d{1,6})(s|m|h|d|w|mo)$/.exec(words[written] ?? written) ?? [];
  return count === undefined || unit === undefined ? undefined : { count: Number(count), unit };
}

function monthsAfter(start: number, count: number): number {
  const from = new Date(start);
  const [year, month] = [from.getUTCFullYear(), from.getUTCMonth() + count];
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(from.getUTCDate(), lastDay)) + (start % dayMs);
}
