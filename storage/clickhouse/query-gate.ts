import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Visibility } from '../../core/ports/analytics.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { Turns, type TurnPath } from './turns.ts';

/** How many queries a gate lets through. */
export interface GateBounds {
  /** That run at the same time. */
  readonly running: number;
  /** That wait. */
  readonly waiting: number;
  /** Longest wait, milliseconds. */
  readonly waitMs: number;
}

/** The workspace that a query is about (without one: the whole organisation), and the key that asks. */
export type Asker = Pick<Visibility, 'organisationId' | 'workspaceId' | 'asker'>;

/** What a gate tells of itself. */
export interface GateWatch {
  /** A query has got no place: `full` at once, `late` after its longest wait. */
  refused(reason: 'full' | 'late'): void;
  /** A query has ended, well or not, and how long it ran and had waited, in milliseconds. */
  ended(verb: string, ranMs: number, waitedMs: number): void;
}

interface Waiter {
  readonly path: TurnPath;
  readonly workspace: string;
  readonly start: () => void;
  readonly refuse: (reason: 'full' | 'late') => void;
}

const longestRetrySeconds = 30;
/** Of how long a query takes, before any has ended. */
const firstGuessMs = 250;
/** Of the places, what the queries of one workspace may hold at the same time. */
const shareOfWorkspace = 0.75;

/**
 * Lets so many queries of a store run at the same time, three quarters of them of one workspace at the most. Others wait,
 * for so long at the most; organisations, workspaces and keys take turns. What finds no place gets `too_many_queries`.
 */
export class QueryGate {
  readonly #bounds: GateBounds;
  readonly #clock: Clock;
  readonly #watch: GateWatch;
  readonly #mostOfWorkspace: number;
  readonly #turns = new Turns<Waiter>();
  /** Queries that run, by workspace; none is 0. */
  readonly #inFlight = new Map<string, number>();
  #running = 0;
  #usualMs = firstGuessMs;

  constructor(bounds: GateBounds, clock: Clock, watch: GateWatch) {
    this.#bounds = bounds;
    this.#mostOfWorkspace = Math.ceil(bounds.running * shareOfWorkspace);
    this.#clock = clock;
    this.#watch = watch;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#turns.size;
  }

  /** Runs a query when it is its asker's turn. Throws what it throws, or `too_many_queries`. */
  async run<R>(verb: string, asker: Asker, query: () => Promise<R>): Promise<R> {
    const { organisationId, workspaceId = '', asker: key = '' } = asker;
    const path: TurnPath = [organisationId, workspaceId, key];
    const workspace = `${organisationId}\n${workspaceId}`;
    const asked = this.#clock.monotonic();
    if (this.#running < this.#bounds.running && this.#mayRun(workspace)) this.#begin(workspace);
    else await this.#turn(path, workspace);
    const begun = this.#clock.monotonic();
    try {
      return await query();
    } finally {
      const ranMs = this.#clock.monotonic() - begun;
      this.#usualMs += (ranMs - this.#usualMs) / 8;
      this.#watch.ended(verb, ranMs, begun - asked);
      this.#end(workspace);
    }
  }

  #turn(path: TurnPath, workspace: string): Promise<void> {
    if (this.waiting >= this.#bounds.waiting) {
      const last = this.#turns.givesWayTo(path);
      if (last === undefined) {
        this.#watch.refused('full');
        return Promise.reject(this.#refusal('full'));
      }
      this.#turns.remove(last);
      last.refuse('full');
    }
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(this.#bounds.waitMs, () => {
        this.#turns.remove(waiter);
        waiter.refuse('late');
      });
      const waiter: Waiter = {
        path,
        workspace,
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
      this.#turns.add(waiter);
    });
  }

  #mayRun(workspace: string): boolean {
    return (this.#inFlight.get(workspace) ?? 0) < this.#mostOfWorkspace;
  }

  #begin(workspace: string): void {
    this.#running += 1;
    this.#inFlight.set(workspace, (this.#inFlight.get(workspace) ?? 0) + 1);
  }

  /** The place of a query that has ended goes to the one whose turn it is; it stays free when none may have it. */
  #end(workspace: string): void {
    this.#running -= 1;
    const left = (this.#inFlight.get(workspace) ?? 0) - 1;
    if (left > 0) this.#inFlight.set(workspace, left);
    else this.#inFlight.delete(workspace);
    const waiter = this.#turns.next((one) => this.#mayRun(one.workspace));
    if (waiter === undefined) return;
    this.#begin(waiter.workspace);
    waiter.start();
  }

  #refusal(reason: 'full' | 'late'): GatewayError {
    const { running, waiting, waitMs } = this.#bounds;
    const busy = `${running} queries of logs and analytics run`;
    const why =
      reason === 'full'
        ? `${busy} and ${waiting} wait already.`
        : `${busy}, and none has made room within ${waitMs / 1000} seconds.`;
    const seconds = Math.ceil(((this.waiting + 1) * this.#usualMs) / running / 1000);
    const retryAfter = String(Math.min(Math.max(seconds, 1), longestRetrySeconds));
    return new GatewayError('too_many_queries', `${why} Try again later.`, {
      headers: ['retry-after', retryAfter],
    });
  }
}
