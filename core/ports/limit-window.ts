import type { RateLimit } from './resources.ts';

const lengths: Readonly<Record<RateLimit['unit'], number>> = {
  rps: 1000,
  rpm: 60_000,
  rph: 3_600_000,
  rpd: 86_400_000,
  rpw: 604_800_000,
};
const periods: Readonly<Record<RateLimit['unit'], string>> = {
  rps: 'second',
  rpm: 'minute',
  rph: 'hour',
  rpd: '24 hours',
  rpw: '7 days',
};

/** The length of a limit's window in milliseconds. */
export function windowMsOf(unit: RateLimit['unit']): number {
  return lengths[unit];
}

/** A limit in words, for refusals: `100 requests per minute`. */
export function limitWords({ type, unit, value }: RateLimit): string {
  return `${value} ${value === 1 ? type.slice(0, -1) : type} per ${periods[unit]}`;
}
