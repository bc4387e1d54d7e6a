import type { TryRecord } from '../pipeline/facts.ts';

/** One try as the log shows it; times in milliseconds after acceptance. */
export interface LoggedTry {
  readonly option: string;
  readonly provider: string;
  readonly model: string;
  readonly status: number;
  readonly error: string;
  readonly start_ms: number;
  readonly end_ms: number;
  readonly lost: boolean;
  /** Why the target was not asked at all; absent for one that was. */
  readonly skipped?: string;
}

/** Longest provider and model that are kept of one try, in UTF-16 units: a request may name anything. */
const maxName = 255;

/** One try of a request in the form of the log. */
export function loggedTry({ option, provider, model, ...rest }: TryRecord): LoggedTry {
  const logged = {
    option,
    provider: provider.slice(0, maxName),
    model: model.slice(0, maxName),
    status: rest.status,
    error: rest.error,
    start_ms: roundedMs(rest.startedMs),
    end_ms: roundedMs(rest.endedMs),
    lost: rest.lost,
  };
  return rest.skipped === undefined ? logged : { ...logged, skipped: rest.skipped };
}

/** Milliseconds to the microsecond: more would be noise. */
export function roundedMs(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
