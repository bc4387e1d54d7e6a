import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';

/** How many queries a gate lets through. */
export interface GateBounds {
  /** That run at the same time. */
  readonly running: number;
  /** That wait. */
  readonly waiting: number;
  /** Longest wait, milliseconds. */
  readonly waitMs: number;
}

/** What a gate tells of itself. */
export interface GateWatch {
  /** A query has got no place: `full` at once, `late` after its longest wait. */
  refused(reason: 'full' | 'late'): void;
  /** A query has ended, well or not, and how long it ran and had waited, in milliseconds. */
  ended(verb: string, ranMs: number, waitedMs: number): void;
}

interface Waiter {
  readonly organisationId: string;
  readonly start: () => void;
  readonly refuse: (reason: 'full' | 'late') => void;
}

const longestRetrySeconds = 30;
/** Of how long a query takes, before any has ended. */
const firstGuessMs = 250;

/**
 * Lets so many queries of a store run at the same time. Others wait, for so long at the most, and organisations take
 * turns: one that asks much waits behind itself, not others behind it. What finds no place gets `too_many_queries`.
 */
export class QueryGate {
  readonly #bounds: GateBounds;
  readonly #clock: Clock;
  readonly #watch: GateWatch;
  /** By organisation, the one whose turn is next first; none is empty. */
  readonly #queues = new Map<string, Waiter[]>();
  #running = 0;
  #waiting = 0;
  #usualMs = firstGuessMs;

  constructor(bounds: GateBounds, clock: Clock, watch: GateWatch) {
    this.#bounds = bounds;
    this.#clock = clock;
    this.#watch = watch;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Runs a query of this organisation when it is its turn. Throws what it throws, or `too_many_queries`. */
  async run<R>(verb: string, organisationId: string, query: () => Promise<R>): Promise<R> {
    const asked = this.#clock.monotonic();
    if (this.#running < this.#bounds.running) this.#running += 1;
    else await this.#turn(organisationId);
    const begun = this.#clock.monotonic();
    try {
      return await query();
    } finally {
      const ranMs = this.#clock.monotonic() - begun;
      this.#usualMs += (ranMs - this.#usualMs) / 8;
      this.#watch.ended(verb, ranMs, begun - asked);
      this.#next();
    }
  }

  #turn(organisationId: string): Promise<void> {
    if (this.#waiting >= this.#bounds.waiting && !this.#makeRoom(organisationId)) {
      this.#watch.refused('full');
      return Promise.reject(this.#refusal('full'));
    }
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(this.#bounds.waitMs, () => {
        this.#remove(waiter);
        waiter.refuse('late');
      });
      const waiter: Waiter = {
        organisationId,
        start: () => {
          cancel();
          resolve();
        },
        refuse: (reason) => {
          cancel();
          this.#watch.refused(reason);
          reject(this.#refusal(reason));
        },
      };
      const queue = this.#queues.get(organisationId);
      if (queue === undefined) this.#queues.set(organisationId, [waiter]);
      else queue.push(waiter);
      this.#waiting += 1;
    });
  }

  /** Who asks for more than others gives way to them: the last one of the longest queue is refused instead. */
  #makeRoom(organisationId: string): boolean {
    const own = this.#queues.get(organisationId)?.length ?? 0;
    const longest = [...this.#queues.values()].reduce((a, b) => (b.length > a.length ? b : a), []);
    const last = longest.at(-1);
    if (last === undefined || longest.length <= own + 1) return false;
    this.#remove(last);
    last.refuse('full');
    return true;
  }

  #remove(waiter: Waiter): void {
    const queue = this.#queues.get(waiter.organisationId) ?? [];
    const place = queue.indexOf(waiter);
    if (place === -1) return;
    queue.splice(place, 1);
    if (queue.length === 0) this.#queues.delete(waiter.organisationId);
    this.#waiting -= 1;
  }

  /** The place of a query that has ended goes to the first of the next organisation, which then stands last. */
  #next(): void {
    const [turn] = this.#queues;
    const waiter = turn?.[1].shift();
    if (turn === undefined || waiter === undefined) {
      this.#running -= 1;
      return;
    }
    const [organisationId, queue] = turn;
    this.#queues.delete(organisationId);
    if (queue.length > 0) this.#queues.set(organisationId, queue);
    this.#waiting -= 1;
    waiter.start();
  }

  #refusal(reason: 'full' | 'late'): GatewayError {
    const { running, waiting, waitMs } = this.#bounds;
    const busy = `${running} queries of logs and analytics run`;
    const why =
      reason === 'full'
        ? `${busy} and ${waiting} wait already.`
        : `${busy}, and none has made room within ${waitMs / 1000} seconds.`;
    const seconds = Math.ceil(((this.#waiting + 1) * this.#usualMs) / running / 1000);
    const retryAfter = String(Math.min(Math.max(seconds, 1), longestRetrySeconds));
    return new GatewayError('too_many_queries', `${why} Try again later.`, {
      headers: ['retry-after', retryAfter],
    });
  }
}
