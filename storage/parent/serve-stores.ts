/** The parent's side: its stores as functions that one worker calls. */
import type { Budgets, UsageLedger } from '../../core/ports/budgets.ts';
import type { Analytics } from '../../core/ports/analytics.ts';
import type { Cache, VectorIndex } from '../../core/ports/cache.ts';
import type { Admission, Charges, LimitReservation } from '../../core/ports/counters.ts';
import type { Resources } from '../../core/ports/resources.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Offered, Remote } from './channel.ts';
import type { LatencyExchange } from './latencies.ts';
import { loanOf, type Loans } from './loans.ts';
import type {
  LatencyCalls,
  LoanCalls,
  ParentCalls,
  SentAdmission,
  SentCharges,
  SentPeriod,
} from './parent-calls.ts';

/** Longest time of one view or transaction of a worker: the embedded store has one connection. */
const sessionMs = 30_000;

/** Stores that exist once. */
export interface SharedByParent {
  /** Counters and limits of which workers borrow a part. */
  readonly loans: Loans;
  readonly budgets: Pick<Budgets, 'tell'>;
  readonly cache: Cache;
  readonly vectors: VectorIndex;
  readonly analytics: Pick<Analytics, 'insert'>;
  /** Undefined when `storage.resources` is `none:`. */
  readonly resources: Resources | undefined;
  readonly ledger: UsageLedger | undefined;
  readonly latencies: LatencyExchange;
}

/** Functions for one worker. Call `end` when it has gone. */
interface ServedStores {
  readonly calls: Offered<ParentCalls>;
  /** Ends its transactions without their effect, and counts what it had reserved as used. */
  end(): void;
}

/** Offers the stores to one worker, which gives back what it has borrowed when it is asked. */
export function serveStores(
  stores: SharedByParent,
  clock: Clock,
  worker: () => Remote<LoanCalls & LatencyCalls>,
): ServedStores {
  const { loans, budgets, cache, vectors, analytics, resources, ledger } = stores;
  const latencies = stores.latencies.join((known) => worker().call('latencies.learn', known));
  const borrower = loans.borrower((numbers) => worker().call('loans.recall', numbers));
  const reservations = new Map<number, { charges: ReceivedCharges; admission: LimitReservation }>();
  const sessions = new ResourceSessions(resources, clock);
  let next = 1;
  const send = (charges: ReceivedCharges, admission: Admission): SentAdmission => {
    if (admission === undefined) return undefined;
    if (admission.isAdmitted) {
      const reservation = next++;
      reservations.set(reservation, { charges, admission });
      return { isAdmitted: true, reserved: admission.reserved, reservation };
    }
    if (!('budget' in admission)) return admission;
    const { budget, isExhausted, used, resetsAt } = admission;
    const budgetIndex = charges.budgets?.indexOf(budget) ?? -1;
    return { isAdmitted: false, budgetIndex, isExhausted, used, resetsAt };
  };
  return {
    calls: {
      'counters.take': (windows, amount, wishes) => {
        const decision = loans.take(windows, amount);
        if ('then' in decision) return decision.then((answer) => ({ answer, grants: undefined }));
        const grants = decision.allowed ? borrower.grant(loanOf.charges(windows), wishes) : undefined;
        return { answer: decision, grants };
      },
      'counters.adjust': (windows, delta) => loans.adjust(windows, delta),
      'limiter.admit': (sent, expected, wishes) => {
        const charges = chargesOf(sent);
        const admission = loans.admit(charges, expected);
        if (admission !== undefined && 'then' in admission)
          return admission.then((decided) => ({ answer: send(charges, decided), grants: undefined }));
        const isRefused = admission?.isAdmitted === false;
        const grants = isRefused ? undefined : borrower.grant(charges, wishes);
        return { answer: send(charges, admission), grants };
      },
      'loans.report': (reports) => borrower.report(reports),
      'limiter.settle': (number, used, periods) => {
        const reservation = reservations.get(number);
        reservations.delete(number);
        if (periods !== undefined) reservation?.charges.begin(periods);
        return reservation?.admission.settle(used);
      },
      'budgets.tell': (crossing) => budgets.tell(crossing),
      'latencies.report': (reports) => latencies.report(reports),
      'latencies.recent': () => latencies.recent(),
      'ledger.exchange': (deltas, after) => known(ledger).exchange(deltas, after),
      'ledger.correct': (corrections) => known(ledger).correct(corrections),
      'ledger.claim': (claim) => known(ledger).claim(claim),
      'cache.get': (key) => cache.get(key),
      'cache.set': (key, bytes, ttlMs) => cache.set(key, bytes, ttlMs),
      'cache.delete': (key) => cache.delete(key),
      'vectors.nearest': (partition, vector, threshold) => vectors.nearest(partition, vector, threshold),
      'vectors.add': (partition, id, vector, bounds) => vectors.add(partition, id, vector, bounds),
      'vectors.remove': (partition, id) => vectors.remove(partition, id),
      'analytics.insert': (table, rows, token) => analytics.insert(table, rows, token),
      'resources.changes': () => known(resources).changes(),
      'resources.ping': () => known(resources).ping(),
      'resources.begin': (organisationId) => sessions.begin(organisationId),
      'resources.ask': (session, name, args) => sessions.ask(session, name, args),
      'resources.end': (session, commits) => sessions.end(session, commits),
    },
    end() {
      sessions.endAll();
      for (const { admission } of reservations.values()) void admission.settle(admission.reserved);
      reservations.clear();
      borrower.end();
      latencies.end();
    },
  };
}

function known<T>(store: T | undefined): T {
  if (store === undefined) throw new Error('This gateway has no such store.');
  return store;
}

/** Charges with periods that change when the worker tells of later ones. */
interface ReceivedCharges extends Charges {
  begin(periods: readonly SentPeriod[]): void;
}

function chargesOf({ requests, tokens, budgets }: SentCharges): ReceivedCharges {
  let periods = budgets?.map(({ period }) => period);
  return {
    requests,
    tokens,
    budgets: budgets?.map((budget, index) => ({
      ...budget,
      period: () => periods?.[index] ?? budget.period,
    })),
    begin: (later) => (periods = [...later]),
  };
}

/** A view or transaction, open while its worker works with it. */
interface Session {
  readonly target: object;
  settle(commits: boolean): void;
  readonly done: Promise<void>;
}

/** Thrown within a transaction to abandon it. */
class Abandoned extends Error {}

class ResourceSessions {
  readonly #resources: Resources | undefined;
  readonly #clock: Clock;
  readonly #open = new Map<number, Session>();
  #next = 1;

  constructor(resources: Resources | undefined, clock: Clock) {
    this.#resources = resources;
    this.#clock = clock;
  }

  begin(organisationId: string | undefined): Promise<number> {
    const resources = known(this.#resources);
    return new Promise((resolve, reject) => {
      let done: Promise<void> = Promise.resolve();
      let hasBegun = false;
      const work = (target: object): Promise<void> =>
        new Promise<void>((finish, abandon) => {
          // The store repeats work after a conflict; the worker's part of it cannot be repeated from here.
          if (hasBegun) return abandon(conflictError());
          hasBegun = true;
          const id = this.#next++;
          const cancel = this.#clock.after(sessionMs, () => this.#open.get(id)?.settle(false));
          this.#open.set(id, {
            target,
            settle: (commits) => {
              cancel();
              this.#open.delete(id);
              if (commits) finish();
              else abandon(new Abandoned());
            },
            get done() {
              return done;
            },
          });
          resolve(id);
        });
      done = organisationId === undefined ? resources.read(work) : resources.write(organisationId, work);
      // The caller of `end` gets the error; before there is a session, the caller of `begin` does.
      done.catch(reject);
    });
  }

  ask(id: number, name: string, args: readonly unknown[]): unknown {
    const session = this.#session(id);
    let owner: unknown;
    let work: unknown = session.target;
    for (const part of name.split('.')) {
      owner = work;
      work = (owner as Record<string, unknown> | undefined)?.[part];
    }
    if (typeof work !== 'function') throw new Error(`The store has no function ${name}.`);
    return Reflect.apply(work, owner, args);
  }

  async end(id: number, commits: boolean): Promise<void> {
    const session = this.#session(id);
    session.settle(commits);
    try {
      await session.done;
    } catch (error) {
      if (!(error instanceof Abandoned)) throw error;
    }
  }

  endAll(): void {
    for (const session of [...this.#open.values()]) session.settle(false);
  }

  #session(id: number): Session {
    const session = this.#open.get(id);
    if (session === undefined)
      throw new GatewayError(
        'store_unavailable',
        `The work with the store took longer than ${sessionMs / 1000} s and was abandoned.`,
      );
    return session;
  }
}

function conflictError(): GatewayError {
  return new GatewayError('store_unavailable', 'Another change of the same records came first. Try again.');
}
