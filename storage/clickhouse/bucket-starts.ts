import { GatewayError } from '../../core/errors/gateway-error.ts';
import { type Buckets, maxBuckets, type TimeWindow } from '../../core/ports/analytics.ts';

/** Slices and buckets of a time window. */
export const timeBuckets = { slices: timeSlices, starts: bucketStarts, sql: bucketSql };

/** Difference of a time zone's clocks from UTC from `at` on. Milliseconds. */
interface Offset {
  readonly at: number;
  readonly offset: number;
}

/** Assumption: no zone changes its clocks twice within this time. */
const probeMs = 7 * 86_400_000;
const msOfDay = 86_400_000;

/** Clocks of a time zone between two moments, including the day before the first one. */
class TimeZone {
  readonly #offsets: readonly Offset[];

  /** `name` as in `Buckets`. Throws `invalid_request` for a zone that does not exist. */
  constructor(name: string, from: number, to: number) {
    if (name === 'UTC') {
      this.#offsets = [{ at: -Infinity, offset: 0 }];
      return;
    }
    const format = formatOf(name);
    const start = Math.floor((from - 2 * msOfDay) / 1000) * 1000;
    const offsets = [{ at: -Infinity, offset: offsetAt(format, start) }];
    for (let at = start; at < to + 2 * msOfDay; at += probeMs) {
      const offset = offsetAt(format, at + probeMs);
      const before = offsets.at(-1) as Offset;
      if (offset !== before.offset) offsets.push({ at: changeWithin(format, at, at + probeMs), offset });
    }
    this.#offsets = offsets;
  }

  /** Difference of the clocks from UTC, milliseconds. */
  offset(at: number): number {
    let low = 0;
    let high = this.#offsets.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.#offsets[middle] as Offset).at <= at) low = middle;
      else high = middle - 1;
    }
    return (this.#offsets[low] as Offset).offset;
  }

  /** Time of the next clock change, or infinity. */
  changeAfter(at: number): number {
    return this.#offsets.find((change) => change.at > at)?.at ?? Infinity;
  }

  /** First moment at which the clocks show at least `local`, a moment written as if it were UTC. */
  firstAt(local: number): number {
    const around = [this.offset(local - msOfDay), this.offset(local + msOfDay)];
    const candidates = around.map((offset) => local - offset);
    const shown = candidates.filter((at) => at + this.offset(at) === local);
    // Clocks that skip it show more from the moment of their change on.
    return shown.length > 0 ? Math.min(...shown) : this.changeAfter(Math.min(...candidates) - 1);
  }
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      era: 'short',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = `The time zone \`${timeZone}\` does not exist. Give a name such as \`Europe/Berlin\`.`;
    throw new GatewayError('invalid_request', message, { param: 'time_zone', cause: error });
  }
}

function offsetAt(format: Intl.DateTimeFormat, at: number): number {
  const shown: Partial<Record<Intl.DateTimeFormatPartTypes, string>> = {};
  for (const { type, value } of format.formatToParts(at)) shown[type] = value;
  const of = (type: Intl.DateTimeFormatPartTypes): number => Number(shown[type]);
  return (
    Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second')) -
    Math.floor(at / 1000) * 1000
  );
}

/** The second of the change to the offset at `high`. */
function changeWithin(format: Intl.DateTimeFormat, low: number, high: number): number {
  const after = offsetAt(format, high);
  while (high - low > 1000) {
    const middle = Math.floor((low + high) / 2000) * 1000;
    if (offsetAt(format, middle) === after) high = middle;
    else low = middle;
  }
  return high;
}

const firstMs = 3_600_000;

/**
 * The window in consecutive parts from its newest or oldest end: an hour, then each `growth` times as long as the
 * previous one; with infinity, the rest at once. A page that fills early does not read the rest.
 */
function* timeSlices(
  { from, to }: TimeWindow,
  order: 'newest' | 'oldest',
  growth = 8,
): Generator<TimeWindow> {
  let ms = firstMs;
  let left: TimeWindow = { from, to };
  while (left.from < left.to) {
    const cut = order === 'newest' ? Math.max(left.to - ms, left.from) : Math.min(left.from + ms, left.to);
    yield order === 'newest' ? { from: cut, to: left.to } : { from: left.from, to: cut };
    left = order === 'newest' ? { from: left.from, to: cut } : { from: cut, to: left.to };
    ms *= growth;
  }
}

const dayMs = 86_400_000;
const longest = { minute: 60_000, hour: 3_600_000, day: dayMs, week: 7 * dayMs, month: 31 * dayMs };
/** The first Monday of the epoch is its fifth day. */
const mondayMs = 4 * dayMs;

/**
 * Start times of the buckets of a window, in order, in milliseconds since the epoch: whole seconds. None for an empty
 * window. Throws `invalid_request` for more than `maxBuckets`.
 */
function bucketStarts({ from, to }: TimeWindow, { unit, size, timeZone }: Buckets): number[] {
  if (from >= to) return [];
  const step = longest[unit] * size;
  if ((to - from) / step > maxBuckets) throw tooMany();
  const zone = new TimeZone(timeZone, from, to);
  const starts: number[] = [];
  const isCalendar = unit === 'day' || unit === 'week' || unit === 'month';
  let start = isCalendar ? calendarStart(zone, from, unit) : clockStart(zone, from, step);
  while (start < to) {
    if (starts.length === maxBuckets) throw tooMany();
    starts.push(start);
    start = isCalendar ? nextInCalendar(zone, start, unit) : nextOnClock(zone, start, step);
  }
  return starts;
}

function tooMany(): GatewayError {
  const message = `The time window has more than ${maxBuckets} points at this granularity. Choose a coarser one or a shorter window.`;
  return new GatewayError('invalid_request', message, { param: 'granularity' });
}

/** A clock change by less than a step splits its bucket. */
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

/** True when the clocks change by whole steps at this moment. */
function isAligned(zone: TimeZone, change: number, step: number): boolean {
  return modulo(zone.offset(change) - zone.offset(change - 1), step) === 0;
}

function calendarStart(zone: TimeZone, at: number, unit: 'day' | 'week' | 'month'): number {
  const local = at + zone.offset(at);
  const start = zone.firstAt(localStart(local, unit));
  // Clocks that go back over midnight show the previous day again.
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

/**
 * Start of the bucket of a moment, both in seconds since the epoch, with its placeholder values. Times before the first
 * bucket belong to it; without buckets the start is 0.
 */
function bucketSql(starts: readonly number[] | undefined): {
  readonly of: (seconds: string) => string;
  readonly parameters: Readonly<Record<string, unknown>>;
} {
  if (starts === undefined || starts.length < 2) {
    const only = (starts?.[0] ?? 0) / 1000;
    return { of: () => 'toInt64({bucket_first:Int64})', parameters: { bucket_first: only } };
  }
  const seconds = starts.map((start) => start / 1000);
  const [first, second] = seconds as [number, number];
  const step = second - first;
  if (seconds.every((start, index) => start === first + index * step)) {
    const behind = (at: string): string =>
      `intDiv(greatest(${at} - {bucket_first:Int64}, 0), {bucket_step:Int64})`;
    return {
      of: (at) => `toInt64({bucket_first:Int64} + ${behind(at)} * {bucket_step:Int64})`,
      parameters: { bucket_first: first, bucket_step: step },
    };
  }
  return {
    of: (at) => `toInt64(roundDown(toInt64(${at}), {bucket_starts:Array(Int64)}))`,
    parameters: { bucket_starts: seconds },
  };
}
