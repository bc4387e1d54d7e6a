import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { TimeWindow } from '../../core/ports/analytics.ts';

const dayMs = 86_400_000;
const longestMs = 366 * dayMs;

/** The part of a query that says when. Both ISO 8601 with a time zone, or `today` and `yesterday`: days in UTC. */
export interface TimeQuery {
  readonly time_of_generation_min?: string;
  readonly time_of_generation_max?: string;
}

/**
 * The window that a query asks for: the 24 hours before its end by default, its end being now by default.
 * Throws `invalid_request` when it is empty, turned round or longer than 366 days.
 */
export function timeWindow(query: TimeQuery, now: number): TimeWindow {
  const { time_of_generation_min: min, time_of_generation_max: max } = query;
  const to = endOfDay(max, now) ?? instantOr(now, 'time_of_generation_max', max);
  const from = startOfDay(min, now) ?? instantOr(to - dayMs, 'time_of_generation_min', min);
  if (from >= to) {
    throw refused(
      'time_of_generation_min',
      'must be before time_of_generation_max, which is now when it is not given',
    );
  }
  if (to - from > longestMs) {
    throw refused('time_of_generation_min', 'must lie at most 366 days before time_of_generation_max');
  }
  return { from, to };
}

function startOfDay(name: string | undefined, now: number): number | undefined {
  const today = now - (now % dayMs);
  if (name === 'today') return today;
  return name === 'yesterday' ? today - dayMs : undefined;
}

/** The last day is counted whole, as far as it has come: a graph has no points in the future. */
function endOfDay(name: string | undefined, now: number): number | undefined {
  if (name === 'today') return now;
  return name === 'yesterday' ? now - (now % dayMs) : undefined;
}

function instantOr(fallback: number, param: string, text: string | undefined): number {
  return text === undefined ? fallback : readInstant(param, text);
}

/** A time of a request, in milliseconds since the epoch. Throws `invalid_request` when there is no such time. */
export function readInstant(param: string, text: string): number {
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw refused(param, 'must be an ISO 8601 time like 2030-01-31T00:00:00Z');
  return at;
}

function refused(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `"${param}" ${message}.`, { param });
}
