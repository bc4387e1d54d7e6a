import type { UsageLimit } from '../ports/budgets.ts';

/** A period of a budget, in milliseconds since the epoch: `end` is the start of the next one. */
interface BudgetPeriod {
  readonly start: number;
  readonly end: number | undefined;
}

const dayMs = 86_400_000;
/** 1970-01-05 was a Monday. */
const firstMonday = 4 * dayMs;
const forEver: BudgetPeriod = { start: 0, end: undefined };

type PeriodAt = (at: number) => BudgetPeriod;

/** Shared by most budgets, together with the cached period. */
const always: PeriodAt = () => forEver;
const calendarWeeks = remembered(equalPeriods(firstMonday, 7 * dayMs));
const calendarMonths = remembered(months(0));

/**
 * Periods of a usage limit. `weekly` begins on Mondays and `monthly` on the first, at 00:00 UTC; periods of N days
 * count from `createdAt`. When the limit states its first reset, that moment replaces these starts, and later resets
 * are whole weeks, months or days after it; without a period it resets that once.
 */
export function budgetPeriod(
  limit: Pick<UsageLimit, 'periodicReset' | 'periodicResetDays' | 'nextResetAt'>,
  createdAt: number,
): PeriodAt {
  const { periodicReset, periodicResetDays: days, nextResetAt: anchor } = limit;
  if (anchor === undefined) {
    if (periodicReset === 'monthly') return calendarMonths;
    if (periodicReset === 'weekly') return calendarWeeks;
    return days === undefined ? always : remembered(equalPeriods(createdAt, days * dayMs));
  }
  const after = periodsBehind(anchor, limit);
  return remembered((at) => (at < anchor ? { start: 0, end: anchor } : after(at)));
}

function periodsBehind(
  anchor: number,
  { periodicReset, periodicResetDays: days }: Pick<UsageLimit, 'periodicReset' | 'periodicResetDays'>,
): PeriodAt {
  if (periodicReset === 'monthly') return months(anchor);
  if (periodicReset === 'weekly') return equalPeriods(anchor, 7 * dayMs);
  return days === undefined ? () => ({ start: anchor, end: undefined }) : equalPeriods(anchor, days * dayMs);
}

function equalPeriods(anchor: number, lengthMs: number): PeriodAt {
  return (at) => {
    const start = anchor + Math.floor((at - anchor) / lengthMs) * lengthMs;
    return { start, end: start + lengthMs };
  };
}

/** Months from a moment: on its day of the month, or on the last day of a shorter month. */
function months(anchor: number): PeriodAt {
  const first = new Date(anchor);
  const after = (count: number): number => {
    const month = first.getUTCMonth() + count;
    const lastDay = new Date(Date.UTC(first.getUTCFullYear(), month + 1, 0)).getUTCDate();
    const day = Math.min(first.getUTCDate(), lastDay);
    return Date.UTC(first.getUTCFullYear(), month, day) + (anchor % dayMs);
  };
  return (at) => {
    const when = new Date(at);
    let count =
      (when.getUTCFullYear() - first.getUTCFullYear()) * 12 + when.getUTCMonth() - first.getUTCMonth();
    if (after(count) > at) count -= 1;
    return { start: after(count), end: after(count + 1) };
  };
}

/** Caches the period: every request asks for it, and it changes a few times a year. */
function remembered(periodAt: PeriodAt): PeriodAt {
  let known: BudgetPeriod | undefined;
  return (at) => {
    if (known !== undefined && at >= known.start && (known.end === undefined || at < known.end)) return known;
    known = periodAt(at);
    return known;
  };
}
