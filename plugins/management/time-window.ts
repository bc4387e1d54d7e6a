import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { TimeWindow } from '../../core/ports/analytics.ts';

const dayMs = 86_400_000;
const longestMs = 366 * dayMs;

/** The part of a query that says when. Both ISO 8601 with a time zone. */
export interface TimeQuery {
  readonly time_of_generation_min?: string;
  readonly time_of_generation_max?: string;
}

/**
 * The window that a query asks for: the 24 hours before its end by default, its end being now by default.
 * Throws `invalid_request` when it is empty, turned round or longer than 366 days.
 */
export function timeWindow(query: TimeQuery, now: number): TimeWindow {
  const to = instant('time_of_generation_max', query.time_of_generation_max) ?? now;
  const from = instant('time_of_generation_min', query.time_of_generation_min) ?? to - dayMs;
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

function instant(param: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw refused(param, 'must be an ISO 8601 time like 2030-01-31T00:00:00Z');
  return at;
}

function refused(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `"${param}" ${message}.`, { param });
}
