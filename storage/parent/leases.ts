/** The worker's side of loans: limits of its parent, of which it holds a part. */
import { atTurnEnd } from '../../core/base/turns.ts';
import {
  type Budget,
  type BudgetAmounts,
  type ExpectedUse,
  expectedUnits,
  shownUnits,
  wholeUnits,
} from '../../core/ports/budgets.ts';
import type { Clock } from '../../core/ports/clock.ts';
import {
  type Admission,
  type Charges,
  type Counters,
  type Decision,
  type Limiter,
  type LimitReservation,
  subBuckets,
  type Window,
} from '../../core/ports/counters.ts';
import type { Counter, Metrics } from '../../core/ports/metrics.ts';
import type { Remote } from './channel.ts';
import { Lease } from './lease.ts';
import { loanOf } from './loans.ts';
import type { Grant, ParentCalls, SentAdmission, SentCharges, Wish } from './parent-calls.ts';

/** Time between reports. */
const tickMs = 100;
/** Ticks after which a part that is not used goes back. */
const idleTicks = 10;
/** Counts whose demand is known; beyond, the oldest are forgotten. */
const maxKnown = 10_000;
/** Moments in one report: more are told at once. */
const maxMoments = 500;

/** Dependencies. */
interface LeasesOptions {
  readonly parent: Remote<ParentCalls>;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Notes that the parent did not answer. */
  readonly lost: (error: unknown) => undefined;
  /** Requests of a second, from which on borrowing costs less than asking. Default 8. */
  readonly minRequests?: number | undefined;
}

/** One window or budget that counts a request. */
interface Place {
  readonly of: Window | Budget;
  readonly lease: Lease;
}

/** What these charges are counted in. */
interface Prepared {
  readonly windows: readonly Place[];
  /** Of the windows, those of requests. */
  readonly requests: number;
  readonly budgets: readonly (Place & { readonly of: Budget })[];
  sent: SentCharges;
  /** End of the first period of the budgets that are sent. Milliseconds since the epoch. */
  until: number;
}

/**
 * Limits of the parent process, exact over all workers. A window or budget that many requests take from is borrowed in
 * parts, and requests that take from borrowed parts alone are decided here, at once; all others are decided by the
 * parent. `Loans` says what that promises.
 *
 * A worker tells what it has taken ten times a second, and whenever the parent asks. A part that was not taken from for a
 * second goes back. A loan counts in the present period of a budget, so a part outlives the period.
 */
export class Leases {
  readonly #parent: Remote<ParentCalls>;
  readonly #clock: Clock;
  readonly #lost: (error: unknown) => undefined;
  readonly #known = new Map<string, Lease>();
  readonly #open = new Map<number, Lease>();
  readonly #prepared = new WeakMap<Charges, Prepared>();
  readonly #ofLists = new WeakMap<readonly Window[], Charges>();
  readonly #minRequests: number;
  readonly #decidedHere: Counter;
  readonly #decidedByParent: Counter;
  #dirty: Lease[] = [];
  #numbers = 0;
  #isTicking = false;
  #isHurried = false;
  readonly limiter: Limiter = { admit: (charges, expected) => this.#admit(charges, expected) };
  readonly counters: Counters = {
    take: (windows, amount) => this.#take(windows, amount),
    adjust: (windows, delta) => this.#parent.call('counters.adjust', windows, delta),
  };

  constructor({ parent, clock, metrics, lost, minRequests = 8 }: LeasesOptions) {
    const decided = metrics.counter({
      name: 'weir_limit_decisions_total',
      help: 'Decisions about limits in memory that workers have made, or asked their parent for',
      labels: ['by'],
    });
    this.#decidedHere = decided({ by: 'worker' });
    this.#decidedByParent = decided({ by: 'parent' });
    this.#minRequests = minRequests;
    this.#parent = parent;
    this.#clock = clock;
    this.#lost = lost;
  }

  /** As `LoanCalls`. */
  recall(numbers: readonly number[]): void {
    for (const number of numbers) {
      const lease = this.#open.get(number);
      if (lease !== undefined) this.#close(lease);
    }
    void this.report();
  }

  /** Tells the parent what was taken until now. Resolves when it knows; never rejects. */
  report(): Promise<void> {
    if (this.#dirty.length === 0) return Promise.resolve();
    const now = this.#clock.monotonic();
    const reports = this.#dirty.map((lease) => lease.report(now, this.#clock.now()));
    this.#dirty = [];
    return this.#parent.call('loans.report', reports).catch(this.#lost);
  }

  /** Gives everything back. Never rejects. */
  close(): Promise<void> {
    for (const lease of [...this.#open.values()]) this.#close(lease);
    return this.report();
  }

  #admit(charges: Charges, expected: ExpectedUse): Admission | Promise<Admission> {
    const prepared = this.#prepare(charges);
    const tokens = loanOf.tokens(charges, expected);
    const now = this.#clock.monotonic();
    const { windows, requests, budgets } = prepared;
    let isHeld = this.#holds(windows, 0, requests, now, 1);
    isHeld = this.#holds(windows, requests, windows.length, now, tokens) && isHeld;
    let isKnown = true;
    for (let i = 0; i < budgets.length; i++) {
      const { of, lease } = budgets[i] as Prepared['budgets'][number];
      const amount = reservedOf(of, expected);
      if (amount === undefined) isKnown = false;
      lease.note(now, amount ?? 0);
      isHeld = isHeld && lease.holds(amount ?? Infinity, of.limit);
    }
    if (!isHeld) return this.#ask(charges, expected, prepared, isKnown);
    this.#decidedHere.inc();
    for (let i = 0; i < windows.length; i++)
      this.#takeOf((windows[i] as Place).lease, now, i < requests ? 1 : tokens);
    if (budgets.length === 0 && windows.length === requests) return undefined;
    const amounts: number[] = [];
    for (const { of, lease } of budgets) {
      const amount = reservedOf(of, expected) as number;
      lease.reserve(amount);
      amounts.push(amount);
    }
    return new LeaseReservation(prepared, { tokens, amounts, expected }, this.#settle);
  }

  #take(windows: readonly Window[], amount: number): Decision | Promise<Decision> {
    let charges = this.#ofLists.get(windows);
    if (charges === undefined) {
      charges = loanOf.charges(windows);
      this.#ofLists.set(windows, charges);
    }
    const prepared = this.#prepare(charges);
    const now = this.#clock.monotonic();
    const places = prepared.windows;
    if (amount > 0 && this.#holds(places, 0, places.length, now, amount)) {
      this.#decidedHere.inc();
      for (const { lease } of places) this.#takeOf(lease, now, amount);
      return {
        allowed: true,
        refusedBy: -1,
        windows: windows.map((one, index) => stateOf(one, places[index] as Place)),
      };
    }
    this.#decidedByParent.inc();
    const lends = amount > 0 && windows.every(({ isCount }) => isCount !== true);
    const wishes = lends ? this.#wishes(prepared) : undefined;
    return new Promise((resolve, reject) =>
      this.#parent.ask(
        'counters.take',
        [windows, amount, wishes],
        ({ answer, grants }) => {
          // What this worker held before is left for its requests.
          const states = answer.windows.map((state, index) => {
            const left = places[index]?.lease.left ?? 0;
            return left > 0 ? { ...state, remaining: state.remaining + left, resetMs: 0 } : state;
          });
          this.#granted(prepared, grants);
          resolve({ ...answer, windows: states });
        },
        reject,
      ),
    );
  }

  /** Notes the demand, and says whether all of these windows hold the amount. */
  #holds(places: readonly Place[], from: number, to: number, now: number, amount: number): boolean {
    let isHeld = true;
    for (let i = from; i < to; i++) {
      const { of, lease } = places[i] as Place;
      lease.note(now, amount);
      if (!lease.holds(amount, of.limit)) isHeld = false;
    }
    return isHeld;
  }

  #takeOf(lease: Lease, now: number, amount: number): void {
    lease.take(now, amount);
    this.#touch(lease);
    if (lease.moments > maxMoments) this.#hurry();
  }

  #ask(charges: Charges, expected: ExpectedUse, prepared: Prepared, isKnown: boolean): Promise<Admission> {
    this.#decidedByParent.inc();
    const { sent, until } = prepared;
    const wishes = isKnown ? this.#wishes(prepared) : undefined;
    return new Promise((resolve, reject) =>
      this.#parent.ask(
        'limiter.admit',
        [sent, expected, wishes],
        ({ answer, grants }) => {
          this.#granted(prepared, grants);
          resolve(this.#admission(charges, until, answer));
        },
        reject,
      ),
    );
  }

  #admission(charges: Charges, until: number, admission: SentAdmission): Admission {
    if (admission === undefined) return undefined;
    if (admission.isAdmitted) {
      const { reserved, reservation } = admission;
      return {
        isAdmitted: true,
        reserved,
        settle: (used) => {
          const now = this.#clock.now();
          const periods = now < until ? undefined : charges.budgets?.map(({ period }) => period(now));
          return this.#parent.call('limiter.settle', reservation, used, periods).catch(this.#lost);
        },
      };
    }
    if (!('budgetIndex' in admission)) return admission;
    const { budgetIndex, ...refusal } = admission;
    const budget = charges.budgets?.[budgetIndex];
    if (budget === undefined) throw new Error('The parent process refused by a budget that was not sent.');
    return { ...refusal, budget };
  }

  /** Undefined unless all of it is worth borrowing. Gives back before what belongs to another limit. */
  #wishes({ windows, budgets }: Prepared): readonly Wish[] | undefined {
    const wishes: Wish[] = [];
    let isWorth = true;
    let hasClosed = false;
    for (const [place, { of, lease }] of [...windows, ...budgets].entries()) {
      if (lease.isOpen && lease.limit !== of.limit) {
        this.#close(lease);
        hasClosed = true;
      }
      if (lease.wish === 0) isWorth = false;
      else if (lease.wish > lease.left) wishes.push([lease.number, place, lease.wish - lease.left]);
    }
    if (hasClosed) void this.report();
    return isWorth && wishes.length > 0 ? wishes : undefined;
  }

  #granted({ windows, budgets }: Prepared, grants: readonly Grant[] | undefined): void {
    for (const { place, number, amount, left } of grants ?? []) {
      const { of, lease } = (windows[place] ?? budgets[place - windows.length]) as Place;
      lease.of = of;
      lease.limit = of.limit;
      lease.granted(number, amount, left);
      this.#open.set(lease.number, lease);
      this.#tick();
    }
  }

  readonly #settle = (
    prepared: Prepared,
    { tokens, amounts }: TakenHere,
    used: BudgetAmounts,
  ): void | Promise<void> => {
    const { windows, requests, budgets } = prepared;
    for (const [index, { of, lease }] of budgets.entries()) {
      const isCovered = lease.settle(amounts[index] as number, wholeUnits(used[of.unit], of.unit));
      this.#touch(lease);
      if (!isCovered) this.#hurry();
    }
    const difference = used.tokens - tokens;
    if (difference === 0 || !Number.isFinite(difference)) return undefined;
    const now = this.#clock.monotonic();
    const elsewhere: Window[] = [];
    for (let i = requests; i < windows.length; i++) {
      const { of, lease } = windows[i] as Place;
      if (!lease.isOpen) elsewhere.push(of as Window);
      else if (difference < 0) lease.change(now, difference);
      else {
        if (difference > lease.left) this.#hurry();
        lease.take(now, difference);
      }
      if (lease.isOpen) this.#touch(lease);
      if (lease.moments > maxMoments) this.#hurry();
    }
    if (elsewhere.length === 0) return undefined;
    return this.#parent.call('counters.adjust', elsewhere, difference).catch(this.#lost);
  };

  #close(lease: Lease): void {
    lease.close();
    this.#open.delete(lease.number);
    this.#touch(lease);
  }

  #touch(lease: Lease): void {
    if (!lease.isDirty) {
      lease.isDirty = true;
      this.#dirty.push(lease);
    }
    this.#tick();
  }

  #hurry(): void {
    if (this.#isHurried) return;
    this.#isHurried = true;
    atTurnEnd({
      run: () => {
        this.#isHurried = false;
        void this.report();
      },
    });
  }

  #tick(): void {
    if (this.#isTicking) return;
    this.#isTicking = true;
    this.#clock.after(tickMs, () => {
      this.#isTicking = false;
      for (const lease of [...this.#open.values()]) {
        lease.idleTicks += 1;
        if (lease.idleTicks > idleTicks) this.#close(lease);
      }
      void this.report();
      if (this.#open.size > 0) this.#tick();
    });
  }

  #prepare(charges: Charges): Prepared {
    const known = this.#prepared.get(charges);
    if (known !== undefined) {
      if (known.until === Infinity) return known;
      const now = this.#clock.now();
      if (now >= known.until) Object.assign(known, sendable(charges, now));
      return known;
    }
    const { requests, tokens, budgets = [] } = charges;
    const windows = [...(requests?.windows ?? []), ...(tokens?.windows ?? [])];
    const prepared: Prepared = {
      windows: windows.map((of) => ({ of, lease: this.#leaseOf(of) })),
      requests: requests?.windows.length ?? 0,
      budgets: budgets.map((of) => ({ of, lease: this.#leaseOf(of) })),
      ...sendable(charges, this.#clock.now()),
    };
    this.#prepared.set(charges, prepared);
    return prepared;
  }

  #leaseOf(of: Window | Budget): Lease {
    const key = loanOf.key(of);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    if (this.#known.size >= maxKnown) {
      const [oldest = ''] = this.#known.keys();
      this.#known.delete(oldest);
    }
    const lease = new Lease((this.#numbers += 1), of, this.#minRequests);
    this.#known.set(key, lease);
    return lease;
  }
}

/** Amounts that a request has taken from what this worker holds. */
interface TakenHere {
  readonly tokens: number;
  /** Whole units by budget. */
  readonly amounts: readonly number[];
  readonly expected: ExpectedUse;
}

type Settle = (prepared: Prepared, taken: TakenHere, used: BudgetAmounts) => void | Promise<void>;

class LeaseReservation implements LimitReservation {
  readonly isAdmitted = true;
  readonly #prepared: Prepared;
  readonly #taken: TakenHere;
  readonly #settle: Settle;
  #isSettled = false;

  constructor(prepared: Prepared, taken: TakenHere, settle: Settle) {
    this.#prepared = prepared;
    this.#taken = taken;
    this.#settle = settle;
  }

  get reserved(): BudgetAmounts {
    const reserved = { cost: 0, tokens: 0, requests: 0 };
    const { tokens, amounts, expected } = this.#taken;
    for (const [index, { of }] of this.#prepared.budgets.entries())
      reserved[of.unit] ||= isFree(of, expected) ? 0 : shownUnits(amounts[index] as number, of.unit);
    return { ...reserved, tokens: Math.max(tokens, reserved.tokens) };
  }

  settle(used: BudgetAmounts): void | Promise<void> {
    if (this.#isSettled) return undefined;
    this.#isSettled = true;
    return this.#settle(this.#prepared, this.#taken, used);
  }
}

/** What a request reserves of a budget, in whole units, at least 1: `undefined` where only the parent knows. */
function reservedOf({ unit }: Budget, expected: ExpectedUse): number | undefined {
  const amount = expectedUnits(unit, expected);
  return amount === undefined ? undefined : Math.max(1, amount);
}

function isFree({ unit }: Budget, { tokens, cost }: ExpectedUse): boolean {
  return (unit === 'tokens' && !(tokens > 0)) || (unit === 'cost' && !((cost ?? 0) > 0));
}

function stateOf({ limit, windowMs }: Window, { lease }: Place): Decision['windows'][number] {
  const remaining = Math.max(0, lease.left + lease.beyond);
  return { limit, windowMs, remaining, resetMs: remaining > 0 ? 0 : Math.ceil(windowMs / subBuckets) };
}

/** The charges as they are sent, until the first period of their budgets ends. */
function sendable({ requests, tokens, budgets }: Charges, now: number): Pick<Prepared, 'sent' | 'until'> {
  let until = Infinity;
  const sent: SentCharges = {
    requests,
    tokens,
    budgets: budgets?.map(({ period, ...budget }) => {
      const present = period(now);
      until = Math.min(until, present.end ?? Infinity);
      return { ...budget, period: present };
    }),
  };
  return { sent, until };
}
