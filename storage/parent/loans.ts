/** The parent's side of loans: limits of which its workers hold a part. */
import type { Budget, Budgets, ExpectedUse, LendableBudgets } from '../../core/ports/budgets.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type {
  Admission,
  Charges,
  Counters,
  Decision,
  LendableWindows,
  Limiter,
  Window,
} from '../../core/ports/counters.ts';
import type { Grant, LoanReport, Wish } from './parent-calls.ts';

/** Reads what a loan is about. */
export const loanOf = { tokens: tokensOf, charges: chargesOf, key: keyOf };

/** Longest wait for a worker that is to give back. */
const recallMs = 1000;
/** Times that a request recalls loans: other requests may borrow what it waits for. */
const maxRounds = 3;
/** A loan of less than this part of the wish is used up too soon. */
const leastPart = 16;
/** Loans of one worker; more wishes than that are not granted. */
const maxLoans = 10_000;

/** Windows of this process, with answers at once. */
interface OwnWindows extends LendableWindows {
  take(windows: readonly Window[], amount: number): Decision;
  adjust(windows: readonly Window[], delta: number): void;
}

/** Dependencies. */
interface LoansOptions {
  readonly windows: OwnWindows;
  readonly budgets: LendableBudgets & Pick<Budgets, 'reset'>;
  /** Decides by these windows and budgets. */
  readonly limiter: { admit(charges: Charges, expected: ExpectedUse): Admission };
  readonly clock: Clock;
}

/** A part of one limit that one worker holds. */
interface Loan {
  readonly borrower: Borrower;
  /** The worker's own number of it. */
  readonly number: number;
  readonly lent: LentCount;
  /** With the limit under which it was lent. */
  of: Window | Budget;
  /** Amount lent and not given back: not taken yet, taken but not told yet, or (of a budget) reserved. */
  held: number;
  /** Number of the last grant. */
  lastGrant: number;
  /** True while the worker may take from it. */
  isOpen: boolean;
}

/** All loans of one window or budget. */
interface LentCount {
  readonly key: string;
  readonly loans: Set<Loan>;
  /** Requests that wait until they are given back: nothing is lent meanwhile. */
  waiting: number;
}

/** Amounts that a request takes. */
interface Amounts {
  readonly requests: number;
  readonly tokens: number;
}

/**
 * The limits of the parent, of which each worker borrows a part and decides most requests by itself. All processes
 * together decide as one would:
 *
 * - What is lent counts as taken, so no limit is exceeded. What a worker held when it was killed counts as used.
 * - Before a request is refused, the loans of the limits that refuse it are given back; a worker that does not answer
 *   within a second is taken to have used what it holds. So no request is refused because of what nobody uses.
 * - When more is used, or reserved, than is left, loans are given back too: a limit that is overdrawn lends nothing.
 * - All loans of a count are under one limit: a request with another one, after a change, has them given back first.
 * - A worker gets at most half of its share of what is left, and nothing when that is less than a sixteenth of
 *   its wish: small limits, and the last part of large ones, are decided here, request by request.
 *
 * Counts that are shown here include what is lent; the usage of a budget is told every tenth of a second.
 */
export class Loans implements Limiter, Counters {
  readonly #options: LoansOptions;
  readonly #lent = new Map<string, LentCount>();
  readonly #borrowers = new Set<Borrower>();
  #grants = 0;

  constructor(options: LoansOptions) {
    this.#options = options;
  }

  /** Lends to one worker. `recall` has it give back these loans, with a report before it resolves. */
  borrower(recall: (numbers: readonly number[]) => Promise<void>): Borrower {
    const borrower: Borrower = new Borrower(this, recall, () => this.#borrowers.delete(borrower));
    this.#borrowers.add(borrower);
    return borrower;
  }

  admit(charges: Charges, expected: ExpectedUse): Admission | Promise<Admission> {
    const decide = (): Admission => {
      const admission = this.#options.limiter.admit(charges, expected);
      if (admission?.isAdmitted !== true) return admission;
      const { reserved } = admission;
      return {
        isAdmitted: true,
        reserved,
        settle: (used) => {
          void admission.settle(used);
          return this.#recallOverdrawn(charges);
        },
      };
    };
    if (this.#lent.size === 0) return decide();
    const amounts = { requests: 1, tokens: tokensOf(charges, expected) };
    return this.#decide(charges, amounts, decide, (admission) => admission?.isAdmitted === false);
  }

  take(windows: readonly Window[], amount: number): Decision | Promise<Decision> {
    const decide = (): Decision => this.#options.windows.take(windows, amount);
    if (this.#lent.size === 0) return decide();
    return this.#decide(
      chargesOf(windows),
      { requests: amount, tokens: 0 },
      decide,
      ({ allowed }) => !allowed,
    );
  }

  adjust(windows: readonly Window[], delta: number): void | Promise<void> {
    this.#options.windows.adjust(windows, delta);
    return this.#recallOverdrawn(chargesOf(windows));
  }

  /** As `Budgets.reset`; what workers have used until now belongs to the time before. */
  async reset(key: string, organisationId: string): Promise<number> {
    const lent = this.#lent.get(budgetKey(key));
    if (lent !== undefined) await this.#recall([...lent.loans]);
    return this.#options.budgets.reset(key, organisationId);
  }

  /**
   * Lends what is wished for, or nothing when one of the counts has too little. Call it after an admission that waited
   * for nothing.
   */
  grant(borrower: Borrower, charges: Charges, wishes: readonly Wish[]): readonly Grant[] {
    if (borrower.loans.size + wishes.length > maxLoans) return [];
    const counts = countsOf(charges);
    const amounts = wishes.map(([, place, wish]) => this.#spare(counts[place], wish));
    if (amounts.includes(0)) return [];
    return wishes.map(([number, place], index) => {
      const of = counts[place] as Window | Budget;
      const amount = amounts[index] as number;
      const loan = this.#loanOf(borrower, number, of);
      loan.held += amount;
      loan.lastGrant = this.#grants += 1;
      loan.isOpen = true;
      this.#lend(of, amount);
      return { place, number: loan.lastGrant, amount, left: this.#leftOf(of) };
    });
  }

  /** Takes over what a worker tells about a loan. Resolves when what is lent is within the limit again. */
  report(
    loan: Loan,
    { released, taken, used, requests, period, closedAfter }: LoanReport,
  ): void | Promise<void> {
    const { windows, budgets } = this.#options;
    const { of } = loan;
    const isClosed = closedAfter === loan.lastGrant;
    if (isClosed) loan.isOpen = false;
    // A closed loan of a window holds nothing, whatever fractions have been rounded.
    const back = isClosed && isWindow(of) ? loan.held : Math.min(released, loan.held);
    loan.held -= back;
    if (isWindow(of)) {
      windows.lend(of, -back);
      for (let i = 0; i < taken.length; i += 2) {
        const amount = taken[i] as number;
        if (amount > 0) windows.takeEarlier(of, amount, taken[i + 1] as number);
        else windows.adjust([of], amount);
      }
    } else {
      const present = period === undefined ? of : { ...of, period: () => period };
      budgets.repay(present, back, used, requests);
    }
    if (!loan.isOpen && loan.held === 0) this.#forget(loan);
    const loans = this.#loansOf(of);
    if (loans.length > 0 && this.#leftOf(of) < 0) return this.#recall(loans);
  }

  /** Counts what the worker held as used: it has gone. */
  writeOff(loan: Loan): void {
    const { windows, budgets } = this.#options;
    const { of, held } = loan;
    if (isWindow(of)) {
      windows.lend(of, -held);
      if (held > 0) windows.takeEarlier(of, held, 0);
    } else {
      budgets.repay(of, held, held, 0);
    }
    loan.held = 0;
    this.#forget(loan);
  }

  /** Decides, after the loans of limits that would refuse have been given back. */
  #decide<T>(
    charges: Charges,
    amounts: Amounts,
    decide: () => T,
    refuses: (decision: T) => boolean,
  ): T | Promise<T> {
    if (!this.#differs(charges)) {
      const decision = decide();
      if (!refuses(decision)) return this.#recallOverdrawn(charges)?.then(() => decision) ?? decision;
      const loans = this.#tight(charges, amounts);
      if (loans.length === 0) return decision;
      return this.#decideLater(charges, amounts, decide, refuses, loans);
    }
    return this.#decideLater(charges, amounts, decide, refuses, this.#all(charges));
  }

  async #decideLater<T>(
    charges: Charges,
    amounts: Amounts,
    decide: () => T,
    refuses: (decision: T) => boolean,
    loans: readonly Loan[],
  ): Promise<T> {
    let next = loans;
    for (let round = 1; ; round++) {
      await this.#recall(next);
      const decision = decide();
      if (!refuses(decision)) {
        await this.#recallOverdrawn(charges);
        return decision;
      }
      next = this.#tight(charges, amounts);
      if (round === maxRounds || next.length === 0) return decision;
    }
  }

  /** A request may use more than it has reserved, or reserve more than is left: nothing may be taken from loans then. */
  #recallOverdrawn(charges: Charges): Promise<void> | undefined {
    if (this.#lent.size === 0) return undefined;
    const loans = countsOf(charges).flatMap((of) => {
      const some = this.#loansOf(of);
      return some.length > 0 && this.#leftOf(of) < 0 ? some : [];
    });
    return loans.length === 0 ? undefined : this.#recall(loans);
  }

  /** Has these loans given back. Never rejects: a worker that cannot has ended, or is taken to have used them. */
  async #recall(loans: readonly Loan[]): Promise<void> {
    const numbers = new Map<Borrower, number[]>();
    for (const { borrower, number, isOpen } of loans)
      if (isOpen && !borrower.isLate) {
        const known = numbers.get(borrower);
        if (known === undefined) numbers.set(borrower, [number]);
        else known.push(number);
      }
    const counts = new Set(loans.map(({ lent }) => lent));
    for (const lent of counts) lent.waiting += 1;
    await Promise.all([...numbers].map(([borrower, some]) => borrower.recall(some, this.#options.clock)));
    for (const lent of counts) {
      lent.waiting -= 1;
      this.#drop(lent);
    }
  }

  #loansOf(of: Window | Budget): readonly Loan[] {
    const lent = this.#lent.get(keyOf(of));
    if (lent === undefined) return [];
    return [...lent.loans].filter(({ isOpen, borrower }) => isOpen && !borrower.isLate);
  }

  #all(charges: Charges): readonly Loan[] {
    return countsOf(charges).flatMap((of) => this.#loansOf(of));
  }

  /** True when something is lent under another limit. */
  #differs(charges: Charges): boolean {
    return countsOf(charges).some((of) => this.#loansOf(of).some((loan) => loan.of.limit !== of.limit));
  }

  /** Loans of limits that leave too little for these amounts. */
  #tight({ requests, tokens, budgets }: Charges, amounts: Amounts): readonly Loan[] {
    const { windows, budgets: lendable } = this.#options;
    const ofWindows = (list: Charges['requests'], amount: number): readonly Loan[] =>
      (list?.windows ?? []).flatMap((one) => {
        const loans = this.#loansOf(one);
        return loans.length > 0 && windows.leftOf(one) < amount ? loans : [];
      });
    return [
      ...ofWindows(requests, amounts.requests),
      ...ofWindows(tokens, amounts.tokens),
      ...(budgets ?? []).flatMap((one) => {
        const loans = this.#loansOf(one);
        return loans.length > 0 && lendable.leftOf(one) <= 0 ? loans : [];
      }),
    ];
  }

  #leftOf(of: Window | Budget): number {
    const { windows, budgets } = this.#options;
    return isWindow(of) ? windows.leftOf(of) : budgets.leftOf(of);
  }

  #lend(of: Window | Budget, amount: number): void {
    const { windows, budgets } = this.#options;
    if (isWindow(of)) windows.lend(of, amount);
    else budgets.lend(of, amount);
  }

  /** Amount that can be lent of a count; 0 for none. */
  #spare(of: Window | Budget | undefined, wish: number): number {
    if (of === undefined || (this.#lent.get(keyOf(of))?.waiting ?? 0) > 0) return 0;
    const amount = Math.min(wish, Math.floor(this.#leftOf(of) / (2 * this.#borrowers.size)));
    return amount >= 1 && amount * leastPart >= wish ? amount : 0;
  }

  #loanOf(borrower: Borrower, number: number, of: Window | Budget): Loan {
    const known = borrower.loans.get(number);
    if (known !== undefined) {
      known.of = of;
      return known;
    }
    const key = keyOf(of);
    let lent = this.#lent.get(key);
    if (lent === undefined) this.#lent.set(key, (lent = { key, loans: new Set(), waiting: 0 }));
    const loan: Loan = { borrower, number, lent, of, held: 0, lastGrant: 0, isOpen: false };
    lent.loans.add(loan);
    borrower.loans.set(number, loan);
    return loan;
  }

  #forget(loan: Loan): void {
    loan.lent.loans.delete(loan);
    loan.borrower.loans.delete(loan.number);
    this.#drop(loan.lent);
  }

  #drop(lent: LentCount): void {
    if (lent.loans.size === 0 && lent.waiting === 0) this.#lent.delete(lent.key);
  }
}

/** One worker. */
class Borrower {
  readonly loans = new Map<number, Loan>();
  /** True while it has not answered in time: it is not asked again. */
  isLate = false;
  readonly #all: Loans;
  readonly #recall: (numbers: readonly number[]) => Promise<void>;
  readonly #ended: () => void;

  constructor(all: Loans, recall: (numbers: readonly number[]) => Promise<void>, ended: () => void) {
    this.#all = all;
    this.#recall = recall;
    this.#ended = ended;
  }

  /** As `Loans.grant`; undefined for nothing. */
  grant(charges: Charges, wishes: readonly Wish[] | undefined): readonly Grant[] | undefined {
    if (wishes === undefined) return undefined;
    const granted = this.#all.grant(this, charges, wishes);
    return granted.length === 0 ? undefined : granted;
  }

  /** As `Loans.report`, for each. */
  report(reports: readonly LoanReport[]): void | Promise<void> {
    const recalls: Promise<void>[] = [];
    for (const report of reports) {
      const loan = this.loans.get(report.number);
      const recall = loan && this.#all.report(loan, report);
      if (recall) recalls.push(recall);
    }
    if (recalls.length > 0) return Promise.all(recalls).then(() => undefined);
  }

  /** Resolves when these loans are given back, the worker has gone, or it has taken too long. */
  recall(numbers: readonly number[], clock: Clock): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(recallMs, () => {
        this.isLate = true;
        resolve();
      });
      const end = (): void => {
        cancel();
        this.isLate = false;
        resolve();
      };
      void this.#recall(numbers).then(end, end);
    });
  }

  /** The worker has gone. */
  end(): void {
    this.#ended();
    for (const loan of [...this.loans.values()]) this.#all.writeOff(loan);
  }
}

/** In the order of the places of wishes. */
function countsOf({ requests, tokens, budgets }: Charges): readonly (Window | Budget)[] {
  return [...(requests?.windows ?? []), ...(tokens?.windows ?? []), ...(budgets ?? [])];
}

/** Tokens that a request takes from its windows. */
function tokensOf({ tokens }: Pick<Charges, 'tokens'>, expected: ExpectedUse): number {
  return tokens === undefined ? 0 : Math.max(1, Math.min(expected.tokens, tokens.smallest));
}

/** Charges of windows alone. */
function chargesOf(windows: readonly Window[]): Charges {
  return { requests: { windows, smallest: 0 }, tokens: undefined, budgets: undefined };
}

function isWindow(of: Window | Budget): of is Window {
  return 'windowMs' in of;
}

/** Name of the count of a window or budget. */
function keyOf(of: Window | Budget): string {
  return isWindow(of) ? `${of.windowMs}:${of.key}` : budgetKey(of.key);
}

function budgetKey(key: string): string {
  return `budget:${key}`;
}
