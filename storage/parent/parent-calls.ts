/** The functions that a parent offers to its workers: the stores that exist once for all processes. */
import type {
  BudgetAmounts,
  Budget,
  ExpectedUse,
  UsageCrossing,
  UsageLedger,
} from '../../core/ports/budgets.ts';
import type { CachedValue, Similar, VectorBounds, VectorPartition } from '../../core/ports/cache.ts';
import type { Charges, Decision, Window, WindowRefusal } from '../../core/ports/counters.ts';
import type { Analytics } from '../../core/ports/analytics.ts';
import type { LatencyReport, TargetLatency } from '../../core/ports/latencies.ts';

/** The period of a budget that contains the time of the call, in place of the function. */
export type SentPeriod = ReturnType<Budget['period']>;

interface SentBudget extends Omit<Budget, 'period'> {
  readonly period: SentPeriod;
}

export interface SentCharges extends Omit<Charges, 'budgets'> {
  readonly budgets: readonly SentBudget[] | undefined;
}

/** `LimitReservation` with a number in place of the function. */
interface SentReservation {
  readonly isAdmitted: true;
  readonly reserved: BudgetAmounts;
  readonly reservation: number;
}

/** `BudgetRefusal` with the budget's place in the list. */
interface SentBudgetRefusal {
  readonly isAdmitted: false;
  readonly budgetIndex: number;
  readonly isExhausted: boolean;
  readonly used: number;
  readonly resetsAt: number | undefined;
}

export type SentAdmission = SentReservation | WindowRefusal | SentBudgetRefusal | undefined;

/** A wish to borrow: the worker's number of the loan, the place of the window or budget in the charges, the amount. */
export type Wish = readonly [number: number, place: number, amount: number];

/** An amount that is lent from now on, in addition to what is lent already. */
export interface Grant {
  /** As in the wish: windows of requests, then those of tokens, then budgets. */
  readonly place: number;
  /** Of the grant. */
  readonly number: number;
  readonly amount: number;
  /** Amount that is left then. */
  readonly left: number;
}

/** What a worker tells about one loan. */
export interface LoanReport {
  /** The worker's number of the loan. */
  readonly number: number;
  /** Amount that is not lent any more: taken, used or given back. */
  readonly released: number;
  /** Pairs: an amount taken from (or, negative, given back to) the window, and how long ago, in milliseconds. */
  readonly taken: readonly number[];
  /** Usage of a budget, and number of requests that are settled with it. */
  readonly used: number;
  readonly requests: number;
  /** The present one of a budget. */
  readonly period: SentPeriod | undefined;
  /** The last grant that the worker knows of, when it takes nothing more; 0 while it does. */
  readonly closedAfter: number;
}

/** An answer, and what is lent with it. */
interface WithGrants<T> {
  readonly answer: T;
  readonly grants: readonly Grant[] | undefined;
}

/** The functions that each worker offers to its parent's loans. */
export type LoanCalls = {
  /** Reports these loans and takes nothing more from them. Numbers that are unknown are given back already. */
  'loans.recall': (numbers: readonly number[]) => void;
};

/** The functions that each worker offers to those who measure the same targets. */
export type LatencyCalls = {
  /** Takes over what others have measured. */
  'latencies.learn': (known: readonly TargetLatency[]) => void;
};

/** Every function answers with a promise on the caller's side. */
export type ParentCalls = {
  'counters.take': (
    windows: readonly Window[],
    amount: number,
    wishes: readonly Wish[] | undefined,
  ) => WithGrants<Decision>;
  'counters.adjust': (windows: readonly Window[], delta: number) => void;
  'limiter.admit': (
    charges: SentCharges,
    expected: ExpectedUse,
    wishes: readonly Wish[] | undefined,
  ) => WithGrants<SentAdmission>;
  /** With the present periods of the budgets, when others have begun since the admission. */
  'limiter.settle': (
    reservation: number,
    used: BudgetAmounts,
    periods: readonly SentPeriod[] | undefined,
  ) => void;
  'loans.report': (reports: readonly LoanReport[]) => void;
  'budgets.tell': (crossing: UsageCrossing) => void;
  /** Answers with what all processes know of these targets. */
  'latencies.report': (reports: readonly LatencyReport[]) => readonly TargetLatency[];
  /** What all processes know of the targets that were measured last. */
  'latencies.recent': () => readonly TargetLatency[];
  'ledger.exchange': UsageLedger['exchange'];
  'ledger.correct': UsageLedger['correct'];
  'ledger.claim': UsageLedger['claim'];
  'cache.get': (key: string) => CachedValue | undefined;
  'cache.set': (key: string, bytes: Uint8Array, ttlMs: number) => void;
  'cache.delete': (key: string) => void;
  'vectors.nearest': (
    partition: VectorPartition,
    vector: Float32Array,
    threshold: number,
  ) => Similar | undefined;
  'vectors.add': (partition: VectorPartition, id: string, vector: Float32Array, bounds: VectorBounds) => void;
  'vectors.remove': (partition: VectorPartition, id: string) => void;
  'analytics.insert': Analytics['insert'];
  'resources.changes': () => ReadonlyMap<string, number>;
  'resources.ping': () => void;
  /** Begins a view (without an organisation) or a transaction; resolves with its number. */
  'resources.begin': (organisationId: string | undefined) => number;
  /** Calls a function of the reader or writer: `records.find`, `marks`. */
  'resources.ask': (session: number, name: string, args: readonly unknown[]) => unknown;
  /** Commits, or abandons. Rejects when the commit fails. */
  'resources.end': (session: number, commits: boolean) => void;
};
