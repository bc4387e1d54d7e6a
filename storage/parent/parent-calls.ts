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

/** A budget with the period that contains the time of the call, in place of the function. */
export interface SentBudget extends Omit<Budget, 'period'> {
  readonly start: number;
  readonly end: number | undefined;
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

/** Every function answers with a promise on the caller's side. */
export type ParentCalls = {
  'counters.take': (windows: readonly Window[], amount: number) => Decision;
  'counters.adjust': (windows: readonly Window[], delta: number) => void;
  'limiter.admit': (charges: SentCharges, expected: ExpectedUse) => SentAdmission;
  'limiter.settle': (reservation: number, used: BudgetAmounts) => void;
  'budgets.tell': (crossing: UsageCrossing) => void;
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
