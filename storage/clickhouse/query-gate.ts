import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Analytics, Visibility } from '../../core/ports/analytics.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Metrics } from '../../core/ports/metrics.ts';

/** Histogram buckets in seconds. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20];
const waitMs = 10_000;

/**
 * The store behind a gate that bounds running and waiting queries (a wait is at most ten seconds), and reports both in
 * `weir_analytics_queries_running`, `…_waiting`, `…_refused_total`, `weir_analytics_query_seconds` and
 * `weir_analytics_query_wait_seconds`. Inserts, look-ups of rows to replay, and pings pass at once.
 */
export function gateQueries(
  store: Analytics,
  {
    clock,
    metrics,
    ...bounds
  }: Omit<GateBounds, 'waitMs'> & { readonly clock: Clock; readonly metrics: Metrics },
): Analytics {
  const gate = watchedGate({ ...bounds, waitMs }, clock, metrics);
  return {
    insert: (...rows) => store.insert(...rows),
    storedIds: (...wanted) => store.storedIds(...wanted),
    costsByDay: (query) => store.costsByDay(query),
    countedUsage: (query) => store.countedUsage(query),
    repricing: () => store.repricing(),
    ping: () => store.ping(),
    close: () => store.close(),
    groups: (query) => gate.run('groups', query.visibility, () => store.groups(query)),
    series: (query) => gate.run('series', query.visibility, () => store.series(query)),
    feedbackSeries: (query) =>
      gate.run('feedback_series', query.visibility, () => store.feedbackSeries(query)),
    logs: (query) => gate.run('logs', query.visibility, () => store.logs(query)),
    countLogs: (query) => gate.run('count_logs', query.visibility, () => store.countLogs(query)),
    newLogs: (query) => gate.run('new_logs', query.visibility, () => store.newLogs(query)),
    trace: (id, window, visibility) =>
      gate.run('trace', visibility, () => store.trace(id, window, visibility)),
    traces: (query) => gate.run('traces', query.visibility, () => store.traces(query)),
    requestById: (id, window, visibility) =>
      gate.run('request_by_id', visibility, () => store.requestById(id, window, visibility)),
    feedback: (query) => gate.run('feedback', query.visibility, () => store.feedback(query)),
    feedbackById: (id, window, visibility) =>
      gate.run('feedback_by_id', visibility, () => store.feedbackById(id, window, visibility)),
  };
}

function watchedGate(bounds: GateBounds, clock: Clock, metrics: Metrics): QueryGate {
  const none = [] as const;
  const refused = metrics.counter({
    name: 'weir_analytics_queries_refused_total',
    help: 'Queries of logs and analytics refused because too many waited or the wait was too long.',
    labels: ['reason'],
  });
  const seconds = metrics.histogram({
    name: 'weir_analytics_query_seconds',
    help: 'Duration of queries of logs and analytics.',
    labels: ['verb'],
    buckets,
  });
  const waited = metrics.histogram({
    name: 'weir_analytics_query_wait_seconds',
    help: 'Waiting time of queries of logs and analytics before they run.',
    labels: none,
    buckets,
  })({});
  const running = metrics.gauge({
    name: 'weir_analytics_queries_running',
    help: 'Queries of logs and analytics in progress.',
    labels: none,
  })({});
  const waiting = metrics.gauge({
    name: 'weir_analytics_queries_waiting',
    help: 'Queries of logs and analytics waiting in the queue.',
    labels: none,
  })({});
  for (const reason of ['full', 'late'] as const) refused({ reason });
  const gate = new QueryGate(bounds, clock, {
    refused: (reason) => refused({ reason }).inc(),
    ended(verb, ranMs, waitedMs) {
      seconds({ verb }).observe(ranMs / 1000);
      waited.observe(waitedMs / 1000);
    },
  });
  metrics.onScrape(() => {
    running.set(gate.running);
    waiting.set(gate.waiting);
  });
  return gate;
}

/** Path of a waiting query, from the widest group to the narrowest: organisation, workspace, key. */
type TurnPath = readonly string[];

/** A waiting query. */
interface Waiting {
  readonly path: TurnPath;
}

/**
 * Waiting queries in nested groups: organisations take turns, the workspaces of each, and the keys of these. A client
 * with many queries delays itself, not others.
 */
class Turns<W extends Waiting> {
  /** By name, the next in turn first; none is empty. */
  readonly #circles = new Map<string, Turns<W>>();
  /** Of the narrowest group alone. */
  readonly #own: W[] = [];
  readonly #depth: number;
  #size = 0;

  constructor(depth = 0) {
    this.#depth = depth;
  }

  get size(): number {
    return this.#size;
  }

  add(one: W): void {
    this.#size += 1;
    const name = one.path[this.#depth];
    if (name === undefined) return void this.#own.push(one);
    let circle = this.#circles.get(name);
    if (circle === undefined) this.#circles.set(name, (circle = new Turns(this.#depth + 1)));
    circle.add(one);
  }

  /** False when it is not waiting here. */
  remove(one: W): boolean {
    const name = one.path[this.#depth];
    if (name === undefined) {
      const place = this.#own.indexOf(one);
      if (place === -1) return false;
      this.#own.splice(place, 1);
    } else {
      const circle = this.#circles.get(name);
      if (circle?.remove(one) !== true) return false;
      if (circle.size === 0) this.#circles.delete(name);
    }
    this.#size -= 1;
    return true;
  }

  /** Removes the next in turn among those that may run; its groups move to the end. */
  next(may: (one: W) => boolean): W | undefined {
    const [first] = this.#own;
    if (first !== undefined) {
      if (!may(first)) return undefined;
      this.#own.shift();
      this.#size -= 1;
      return first;
    }
    for (const [name, circle] of this.#circles) {
      const found = circle.next(may);
      if (found === undefined) continue;
      this.#circles.delete(name);
      if (circle.size > 0) this.#circles.set(name, circle);
      this.#size -= 1;
      return found;
    }
    return undefined;
  }

  /**
   * The query that is evicted for another one with this path: the last of the largest group, when that is larger than
   * the other's own would become. The widest such group decides. Undefined: the other has its share already.
   */
  givesWayTo(path: TurnPath): W | undefined {
    const name = path[this.#depth];
    if (name === undefined) return undefined;
    const own = this.#circles.get(name);
    const largest = this.#largest();
    if (largest !== undefined && largest !== own && largest.size > (own?.size ?? 0) + 1)
      return largest.#last();
    return own?.givesWayTo(path);
  }

  /** Of several equally large groups, the latest. */
  #largest(): Turns<W> | undefined {
    let largest: Turns<W> | undefined;
    for (const circle of this.#circles.values())
      if (largest === undefined || circle.size >= largest.size) largest = circle;
    return largest;
  }

  #last(): W | undefined {
    const largest = this.#largest();
    return largest === undefined ? this.#own.at(-1) : largest.#last();
  }
}

/** Bounds of a gate. */
export interface GateBounds {
  /** Concurrent queries. */
  readonly running: number;
  /** Waiting queries. */
  readonly waiting: number;
  /** Longest wait, milliseconds. */
  readonly waitMs: number;
}

/** The workspace of a query (without one: the whole organisation), and its key. */
export type Asker = Pick<Visibility, 'organisationId' | 'workspaceId' | 'asker'>;

/** Receiver of a gate's events. */
interface GateWatch {
  /** A query was refused: `full` at once, `late` after its longest wait. */
  refused(reason: 'full' | 'late'): void;
  /** A query has ended, successfully or not, with its run and wait times in milliseconds. */
  ended(verb: string, ranMs: number, waitedMs: number): void;
}

interface Waiter {
  readonly path: TurnPath;
  readonly workspace: string;
  readonly start: () => void;
  readonly refuse: (reason: 'full' | 'late') => void;
}

const longestRetrySeconds = 30;
/** Assumed duration of a query before any has ended. */
const firstGuessMs = 250;
/** Share of the slots that the queries of one workspace may hold at the same time. */
const shareOfWorkspace = 0.75;

/**
 * Bounds the concurrent queries of a store; one workspace gets at most three quarters of the slots. Others wait up to a
 * bound; organisations, workspaces and keys take turns. A query without a slot gets `too_many_queries`.
 */
export class QueryGate {
  readonly #bounds: GateBounds;
  readonly #clock: Clock;
  readonly #watch: GateWatch;
  readonly #mostOfWorkspace: number;
  readonly #turns = new Turns<Waiter>();
  /** Running queries by workspace; none is 0. */
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

  /** Runs a query when it is its asker's turn. Throws the query's error, or `too_many_queries`. */
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

  /** Gives the slot of an ended query to the next in turn; it stays free when none may have it. */
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
