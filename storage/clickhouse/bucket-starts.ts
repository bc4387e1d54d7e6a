import { GatewayError } from '../../core/errors/gateway-error.ts';
import { type Buckets, mostBuckets, type TimeWindow } from '../../core/ports/analytics.ts';
import { TimeZone } from './time-zone.ts';

const dayMs = 86_400_000;
const longest = { minute: 60_000, hour: 3_600_000, day: dayMs, week: 7 * dayMs, month: 31 * dayMs };
/** The first Monday of the epoch is its fifth day. */
const mondayMs = 4 * dayMs;

/**
 * When the buckets begin that a window touches, in order, milliseconds since the epoch: whole seconds. None for an
 * empty window. Throws `invalid_request` for more than `mostBuckets`.
 */
export function bucketStarts({ from, to }: TimeWindow, { unit, size, timeZone }: Buckets): number[] {
  if (from >= to) return [];
  const step = longest[unit] * size;
  if ((to - from) / step > mostBuckets) throw tooMany();
  const zone = new TimeZone(timeZone, from, to);
  const starts: number[] = [];
  const isCalendar = unit === 'day' || unit === 'week' || unit === 'month';
  let start = isCalendar ? calendarStart(zone, from, unit) : clockStart(zone, from, step);
  while (start < to) {
    if (starts.length === mostBuckets) throw tooMany();
    starts.push(start);
    start = isCalendar ? nextInCalendar(zone, start, unit) : nextOnClock(zone, start, step);
  }
  return starts;
}

function tooMany(): GatewayError {
  const message = `The time window has more than ${mostBuckets} points at this granularity. Choose a coarser one or a shorter window.`;
  return new GatewayError('invalid_request', message, { param: 'granularity' });
}

/** A change of the clocks by less than a step cuts the bucket in which it falls. */
function clockStart(zone: TimeZone, at: number, step: number): number {
  const start = at - modulo(at + zone.offset(at), step);
  const change = zone.changeAfter(start);
  return change <= at && !isAligned(zone, change, step) ? change : start;
}

function nextOnClock(zone: TimeZone, start: number, step: number): number {
  const next = start + step - modulo(start + zone.offset(start), step);
  const change = zone.changeAfter(start);
  return change < next && !isAligned(zone, change, step) ? change : next;
}

/** Whether the clocks change by whole steps at this moment. */
function isAligned(zone: TimeZone, change: number, step: number): boolean {
  return modulo(zone.offset(change) - zone.offset(change - 1), step) === 0;
}

function calendarStart(zone: TimeZone, at: number, unit: 'day' | 'week' | 'month'): number {
  const local = at + zone.offset(at);
  const start = zone.firstAt(localStart(local, unit));
  // Clocks that go back over midnight show the day before once more.
  return start <= at ? start : zone.firstAt(localStart(local - dayMs, unit));
}

function nextInCalendar(zone: TimeZone, start: number, unit: 'day' | 'week' | 'month'): number {
  const begun = localStart(start + zone.offset(start), unit);
  if (unit !== 'month') return zone.firstAt(begun + (unit === 'week' ? 7 * dayMs : dayMs));
  const month = new Date(begun);
  return zone.firstAt(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1));
}

function localStart(local: number, unit: 'day' | 'week' | 'month'): number {
  if (unit === 'day') return local - modulo(local, dayMs);
  if (unit === 'week') return local - modulo(local - mondayMs, 7 * dayMs);
  const day = new Date(local);
  return Date.UTC(day.getUTCFullYear(), day.getUTCMonth());
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by;
}
