import { textOf, type Search } from '@/lib/address';
import { midnight, type Zone } from '@/lib/zones';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Lengths of the ranges that end now. */
const lengths = {
  '15m': hourMs / 4,
  '1h': hourMs,
  '24h': dayMs,
  '7d': 7 * dayMs,
  '30d': 30 * dayMs,
} as const;
export type RangeName = keyof typeof lengths | 'today' | 'yesterday' | 'custom';
export const rangeNames = ['15m', '1h', '24h', 'today', 'yesterday', '7d', '30d', 'custom'] as const;

/** A range of time as the address says it. */
export interface Range {
  readonly name: RangeName;
  /** ISO 8601; of `custom` alone. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** A range in milliseconds since the epoch. */
export interface Span {
  readonly from: number;
  readonly to: number;
  /** It ends now, whenever that is. */
  readonly isOpen: boolean;
}

/** The range of the address: `range=7d`, or `from` and `to`. */
export function rangeOf(search: Search, fallback: RangeName = '24h'): Range {
  const from = textOf(search['from']);
  const to = textOf(search['to']);
  if (from !== undefined && !Number.isNaN(Date.parse(from)))
    return { name: 'custom', from, to: to !== undefined && !Number.isNaN(Date.parse(to)) ? to : undefined };
  const name = rangeNames.find((one) => one === textOf(search['range'])) ?? fallback;
  return { name: name === 'custom' ? fallback : name };
}

/** The address's words for a range. */
export function searchOf({ name, from, to }: Range): Search {
  return name === 'custom' ? { range: undefined, from, to } : { range: name, from: undefined, to: undefined };
}

export function spanOf(range: Range, zone: Zone, now = Date.now()): Span {
  const { name } = range;
  if (name === 'custom') {
    const to = range.to === undefined ? now : Date.parse(range.to);
    return { from: Date.parse(range.from ?? ''), to, isOpen: range.to === undefined };
  }
  if (name === 'today') return { from: midnight(now, zone), to: now, isOpen: true };
  if (name === 'yesterday') {
    const today = midnight(now, zone);
    return { from: midnight(today - 1, zone), to: today, isOpen: false };
  }
  return { from: now - lengths[name], to: now, isOpen: true };
}

/** The period of the same length before; a day before it for days. */
export function spanBefore({ from, to }: Span): Span {
  return { from: from - (to - from), to: from, isOpen: false };
}

/** The parameters of the API for a span; an open one ends when the request is judged. */
export function timesOf({ from, to, isOpen }: Span): {
  time_of_generation_min: string;
  time_of_generation_max?: string;
} {
  const min = new Date(from).toISOString();
  return {
    time_of_generation_min: min,
    ...(!isOpen && { time_of_generation_max: new Date(to).toISOString() }),
  };
}
