import type { UsageLimit } from '../../core/ports/limits.ts';

const dayMs = 86_400_000;
const weekMs = 7 * dayMs;
/** The first Monday of the calendar that counts from 1970. */
const firstMonday = 4 * dayMs;

/**
 * When the present period of a usage limit began. Without a first moment of its own (`nextResetAt`), months begin on
 * their first day, weeks on Monday, both at midnight UTC, and periods of days at `createdAt`; with one, they begin at it
 * and at its repetitions, and until then at `createdAt`. Never before `createdAt`.
 */
export function periodStart(
  { periodicReset, periodicResetDays, nextResetAt }: UsageLimit,
  createdAt: number,
  now: number,
): number {
  if (nextResetAt !== undefined && now < nextResetAt) return createdAt;
  if (periodicReset === 'monthly') return Math.max(createdAt, monthStart(nextResetAt ?? 0, now));
  const length = periodicReset === 'weekly' ? weekMs : (periodicResetDays ?? 0) * dayMs;
  const first = nextResetAt ?? (periodicReset === 'weekly' ? firstMonday : createdAt);
  const begun = length === 0 ? first : first + Math.floor((now - first) / length) * length;
  return Math.max(createdAt, begun);
}

/** The last moment until `now` that lies whole months after `first`: on its day, or the last one of a shorter month. */
function monthStart(first: number, now: number): number {
  const [from, to] = [new Date(first), new Date(now)];
  const months = (to.getUTCFullYear() - from.getUTCFullYear()) * 12 + to.getUTCMonth() - from.getUTCMonth();
  const start = monthsAfter(from, months);
  return start <= now ? start : monthsAfter(from, months - 1);
}

function monthsAfter(first: Date, months: number): number {
  const [year, month] = [first.getUTCFullYear(), first.getUTCMonth() + months];
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  const timeOfDay = first.getTime() % dayMs;
  return Date.UTC(year, month, Math.min(first.getUTCDate(), lastDay)) + timeOfDay;
}
