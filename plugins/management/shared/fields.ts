import { boundedPlace, withFullStop } from '../../../core/errors/gateway-error.ts';
import { GatewayError, Type } from '../../../core/pipeline/plugin.ts';
import { Identifier, strict } from '../../../core/organisation/fields.ts';
import type { DeploymentData } from '../../../core/ports/record-kinds.ts';
import type { TimeWindow } from '../../../core/ports/analytics.ts';
import type { Mistake } from '../../../core/base/json.ts';

const dayMs = 86_400_000;
const longestMs = 366 * dayMs;

/** Time range of a query. Both members: ISO 8601 with a time zone, or `today` or `yesterday` (days in UTC). */
export interface TimeQuery {
  readonly time_of_generation_min?: string;
  readonly time_of_generation_max?: string;
}

/**
 * The window of a query. Default end: now; default start: 24 hours before the end. Throws `invalid_request` when it is
 * empty, reversed or longer than 366 days.
 */
export function timeWindow(query: TimeQuery, now: number): TimeWindow {
  const { time_of_generation_min: min, time_of_generation_max: max } = query;
  const to = endOfDay(max, now) ?? instantOr(now, 'time_of_generation_max', max);
  const from = startOfDay(min, now) ?? instantOr(to - dayMs, 'time_of_generation_min', min);
  if (from >= to) {
    throw invalidParamError(
      'time_of_generation_min',
      'must be before time_of_generation_max, which is now when it is not given',
    );
  }
  if (to - from > longestMs) {
    throw invalidParamError(
      'time_of_generation_min',
      'must lie at most 366 days before time_of_generation_max',
    );
  }
  return { from, to };
}

function startOfDay(name: string | undefined, now: number): number | undefined {
  const today = now - (now % dayMs);
  if (name === 'today') return today;
  return name === 'yesterday' ? today - dayMs : undefined;
}

/** End of a named day; for today it is now, so that a graph has no points in the future. */
function endOfDay(name: string | undefined, now: number): number | undefined {
  if (name === 'today') return now;
  return name === 'yesterday' ? now - (now % dayMs) : undefined;
}

function instantOr(fallback: number, param: string, text: string | undefined): number {
  return text === undefined ? fallback : readInstant(param, text);
}

/** A time in a request, in milliseconds since the epoch. Throws `invalid_request` for an invalid time. */
export function readInstant(param: string, text: string): number {
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw invalidParamError(param, 'must be an ISO 8601 time like 2030-01-31T00:00:00Z');
  return at;
}

function invalidParamError(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `"${param}" ${message}.`, { param });
}

const maxShown = 20;

/** `invalid_request` with every mistake and its place, for fields that pass their schema but are invalid. */
export function refusedBody(mistakes: readonly Mistake[]): GatewayError {
  return new GatewayError(
    'invalid_request',
    withFullStop(`The body is not valid: ${shownMistakes(mistakes)}`),
    {
      param: mistakes[0]?.path ?? null,
      extra: { errors: mistakes },
    },
  );
}

/** The first 20 mistakes as text. */
export function shownMistakes(mistakes: readonly Mistake[]): string {
  const named = mistakes.slice(0, maxShown).map(({ path, message }) => `${boundedPlace(path)} ${message}`);
  const rest = mistakes.length - named.length;
  return `${named.join('; ')}${rest === 0 ? '' : `; and ${rest} more`}`;
}

// Bodies and configuration files share these definitions.
export {
  AllowedModelNames,
  Description,
  Identifier,
  Instant,
  ManagedBy,
  Metadata,
  Name,
  orNull,
  Person,
  strict,
} from '../../../core/organisation/fields.ts';

/** JSON object of a record. */
type PlainObject = DeploymentData['config'];

/**
 * An object of a body in stored form. Throws `invalid_request` for whole numbers beyond 2^53, which would lose digits;
 * `pointer` is its place in the body.
 */
export function plainObject(value: Readonly<Record<string, unknown>>, pointer: string): PlainObject {
  return plainValue(value, pointer) as PlainObject;
}

/** The same for any value except undefined. */
export function plainValue(value: unknown, pointer: string): unknown {
  const text = JSON.stringify(value, (name, member: unknown) => {
    if (typeof member !== 'bigint') return member;
    const at = name === '' ? '' : ` at "${name}"`;
    const message = `holds ${member}${at}, and whole numbers beyond 2^53 cannot be kept; send it as a text`;
    throw refusedBody([{ path: pointer, message }]);
  });
  return JSON.parse(text) as unknown;
}

/** The candidate closest to `word`, or undefined when none is close. For messages. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Number of insertions, deletions and replacements between two short words. */
function editDistance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const replaced = (previous[column - 1] as number) + (left[row - 1] === right[column - 1] ? 0 : 1);
      const removed = (previous[column] as number) + 1;
      const inserted = (current[column - 1] as number) + 1;
      current.push(Math.min(replaced, removed, inserted));
    }
    previous = current;
  }
  return previous[right.length] as number;
}

/** Query of routes that need a workspace where the key has none. */
export const Place = Type.Object({ workspace_id: Type.Optional(Identifier) }, strict);
