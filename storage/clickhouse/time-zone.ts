import { GatewayError } from '../../core/errors/gateway-error.ts';

/** From `at` on, what the clocks of a time zone show more than UTC. Milliseconds. */
interface Offset {
  readonly at: number;
  readonly offset: number;
}

/** No zone has changed its clocks twice within this time. */
const probeMs = 7 * 86_400_000;
const dayMs = 86_400_000;

/** What the clocks of a time zone show between two moments, the day before the first one included. */
export class TimeZone {
  readonly #offsets: readonly Offset[];

  /** `name` as in `Buckets`. Throws `invalid_request` for a zone that does not exist. */
  constructor(name: string, from: number, to: number) {
    if (name === 'UTC') {
      this.#offsets = [{ at: -Infinity, offset: 0 }];
      return;
    }
    const format = formatOf(name);
    const start = Math.floor((from - 2 * dayMs) / 1000) * 1000;
    const offsets = [{ at: -Infinity, offset: offsetAt(format, start) }];
    for (let at = start; at < to + 2 * dayMs; at += probeMs) {
      const offset = offsetAt(format, at + probeMs);
      const before = offsets.at(-1) as Offset;
      if (offset !== before.offset) offsets.push({ at: changeWithin(format, at, at + probeMs), offset });
    }
    this.#offsets = offsets;
  }

  /** What the clocks show more than UTC. */
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

  /** When the clocks change next, or infinity. */
  changeAfter(at: number): number {
    return this.#offsets.find((change) => change.at > at)?.at ?? Infinity;
  }

  /** The first moment at which the clocks show this or more; `local` is a moment as if it were UTC. */
  firstAt(local: number): number {
    const around = [this.offset(local - dayMs), this.offset(local + dayMs)];
    const candidates = around.map((offset) => local - offset);
    const shown = candidates.filter((at) => at + this.offset(at) === local);
    // Clocks that skip it show more than it from the moment of their change on.
    return shown.length > 0 ? Math.min(...shown) : this.changeAfter(Math.min(...candidates) - 1);
  }
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en-US', {
      ...{ timeZone, hourCycle: 'h23', era: 'short' },
      ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
      ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
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

/** The second in which the offset becomes what it is at `high`. */
function changeWithin(format: Intl.DateTimeFormat, low: number, high: number): number {
  const after = offsetAt(format, high);
  while (high - low > 1000) {
    const middle = Math.floor((low + high) / 2000) * 1000;
    if (offsetAt(format, middle) === after) high = middle;
    else low = middle;
  }
  return high;
}
