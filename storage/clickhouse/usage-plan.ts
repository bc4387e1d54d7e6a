import type { TimeWindow } from '../../core/ports/analytics.ts';

const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;

/** The tables that hold requests in numbers, the coarsest first, and the rows themselves. */
export const usageTables = ['usage_days', 'usage_hours', 'usage_minutes', 'requests'] as const;
export type UsageTable = (typeof usageTables)[number];

/** Which part of a window is read from which table. Milliseconds; every request is in one of them exactly. */
export interface UsagePlan {
  readonly spans: Readonly<Record<UsageTable, readonly TimeWindow[]>>;
  /** Beginnings of hours that lie within the spans of hours and are read from the next finer table all the same. */
  readonly torn: readonly number[];
  /** The finest table besides the rows: what torn hours are read from. */
  readonly finer: 'usage_minutes' | 'requests';
}

/** What is known of the store. */
export interface UsageReach {
  /** From this moment on roll-ups hold every request; infinite when they never do. */
  readonly completeFrom: number;
  /** Rows before this moment may be gone; what lies before it is told by the hour, or the minute. */
  readonly keptFrom: number;
}

/** What is asked. */
export interface UsageNeed {
  readonly window: TimeWindow;
  /** Undefined: one answer for the whole window. */
  readonly starts?: readonly number[] | undefined;
  /** Whether roll-ups can answer, and those by the minute too. */
  readonly rolledUp: boolean;
  readonly byTheMinute: boolean;
}

/** Divides a window so that as little as possible is read, and no request is left out or counted twice. */
export function planUsage(
  { window, starts = [], rolledUp, byTheMinute }: UsageNeed,
  reach: UsageReach,
): UsagePlan {
  const spans: Record<UsageTable, TimeWindow[]> = {
    ...{ usage_days: [], usage_hours: [], usage_minutes: [], requests: [] },
  };
  const finer = byTheMinute ? 'usage_minutes' : 'requests';
  const { from, to } = window;
  if (!rolledUp) {
    if (from < to) spans.requests.push(window);
    return { spans, torn: [], finer };
  }
  const inner = starts.slice(1);
  const fits = (grain: number): boolean => inner.every((start) => start % grain === 0);
  const torn = new Set(inner.filter((start) => start % hourMs !== 0).map((start) => floor(start, hourMs)));
  const days = fits(dayMs) ? [dayMs] : [];
  // Where most hours are torn, reading them finds nothing.
  const hours = torn.size * 2 < (to - from) / hourMs ? [hourMs] : [];
  const minutes = byTheMinute && fits(minuteMs) ? [minuteMs] : [];

  const complete = clamp(ceil(reach.completeFrom, hourMs), from, to);
  const kept = clamp(ceil(reach.keptFrom, hourMs), complete, to);
  const finest = byTheMinute ? minuteMs : hourMs;
  const old = {
    from: from === complete ? floor(from, finest) : complete,
    to: to === kept ? ceil(to, finest) : kept,
  };
  cover({ from, to: complete }, []);
  if (complete < kept) cover(old, minutes.length > 0 ? [...days, ...hours, ...minutes] : [...days, hourMs]);
  cover({ from: kept, to }, [...days, ...hours, ...minutes]);
  const whole = (hour: number): boolean =>
    (hour >= kept || minutes.length > 0) &&
    spans.usage_hours.some((span) => span.from <= hour && hour < span.to);
  return { spans, torn: [...torn].filter(whole), finer };

  function cover(part: TimeWindow, grains: readonly number[]): void {
    if (part.from >= part.to) return;
    const [grain, ...rest] = grains;
    if (grain === undefined) return void spans.requests.push(part);
    const first = ceil(part.from, grain);
    const last = floor(part.to, grain);
    if (first >= last) return cover(part, rest);
    cover({ from: part.from, to: first }, rest);
    spans[tableOf(grain)].push({ from: first, to: last });
    cover({ from: last, to: part.to }, rest);
  }
}

function tableOf(grain: number): UsageTable {
  if (grain === dayMs) return 'usage_days';
  return grain === hourMs ? 'usage_hours' : 'usage_minutes';
}

function floor(at: number, grain: number): number {
  return Math.floor(at / grain) * grain;
}

function ceil(at: number, grain: number): number {
  return Math.ceil(at / grain) * grain;
}

function clamp(at: number, low: number, high: number): number {
  return Math.min(Math.max(at, low), high);
}
