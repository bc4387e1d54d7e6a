import {
  type Budget,
  type BudgetAmounts,
  type Budgets,
  type ExpectedUse,
  nothingUsed,
  resettingBy,
  shownUnits,
  wholeUnits,
} from '../../core/ports/budgets.ts';
import type {
  Admission,
  Charges,
  Limiter,
  LimitReservation,
  OnStoreFailure,
} from '../../core/ports/counters.ts';
import { BudgetSessions, type BudgetSessionsOptions } from './budget-sessions.ts';
import type { EncodedCommand, RedisReply } from './encoded-command.ts';
import { Numbers, type AdmittedPosition, type BudgetPosition, PreparedCharges } from './limit-commands.ts';
import type { ReplyHandling } from './redis-connection.ts';
import { WithoutStore } from './without-store.ts';

/** Dependencies and options. Its budgets are those of `local`. */
interface RedisLimiterOptions extends BudgetSessionsOptions {
  /**
   * Decides in this process under the policy `local` while the server is unavailable, as one of `replicas` gateways.
   */
  readonly local: { admitShare(charges: Charges, expected: ExpectedUse, replicas: number): Admission };
  /** Default: one without metrics. */
  readonly without?: WithoutStore;
}

/** A limiter that several gateways share. */
interface RedisLimiter extends Limiter {
  /** The budgets of this process, whose reset also applies to the server. */
  readonly budgets: Budgets;
  /** Stops the heartbeats. */
  close(): void;
}

/**
 * Decides on requests for all gateways with the same server: one call for all windows and budgets, on the server, by
 * the server's clock. Budgets are counted in this process as well, and go to the ledger from there; each call carries
 * the local state to the server, so that a new or flushed server gets it too.
 *
 * While the server is unavailable or slow, the policy of each call decides. A timed-out call is never repeated; when
 * its answer arrives late, the taken amount is given back if the request was refused meanwhile, and stays counted
 * otherwise.
 */
export function createRedisLimiter(options: RedisLimiterOptions): RedisLimiter {
  return new OwnedLimiter(options);
}

/** Amounts taken from the token windows, and from each budget in whole units. */
interface Taken {
  readonly tokens: number;
  readonly amounts: readonly number[];
}

const none: readonly never[] = [];
const nothingTaken: Taken = { tokens: 0, amounts: none };

/** Amount to take from each token window: at most the limit of the smallest. */
function tokensTaken({ charges }: PreparedCharges, expected: ExpectedUse): number {
  return charges.tokens === undefined ? 0 : Math.max(1, Math.min(expected.tokens, charges.tokens.smallest));
}

class OwnedLimiter implements RedisLimiter {
  readonly budgets: Budgets;
  readonly #options: RedisLimiterOptions;
  readonly #without: WithoutStore;
  readonly #sessions: BudgetSessions;
  readonly #prepared = new WeakMap<Charges, PreparedCharges>();

  constructor(options: RedisLimiterOptions) {
    this.#options = options;
    this.#without = options.without ?? new WithoutStore();
    this.#sessions = new BudgetSessions(options);
    const { budgets } = options;
    this.budgets = resettingBy(budgets, (...budget) => this.#sessions.reset(...budget));
  }

  admit(
    charges: Charges,
    expected: ExpectedUse,
    onFailure: OnStoreFailure = 'local',
  ): Admission | Promise<Admission> {
    const prepared = this.#prepare(charges);
    if (prepared.isEmpty) return undefined;
    const { redis } = this.#options;
    if (redis.available) {
      const asking = new Asking(this, prepared, { expected, onFailure });
      return redis.send(asking.command, asking);
    }
    const admission = this.decideAlone(prepared, expected, onFailure);
    const isNoted = this.#sessions.isOnlyStore && prepared.budgets.length > 0;
    if (!isNoted || admission?.isAdmitted !== true) return admission;
    return new SharedReservation(this, prepared, { taken: nothingTaken, held: admission });
  }

  close(): void {
    this.#sessions.close();
  }

  /** The amount to take for the expected use, and its command. */
  admitCommand(
    prepared: PreparedCharges,
    expected: ExpectedUse,
  ): { readonly taken: Taken; readonly command: EncodedCommand } {
    const { organisation, budgets } = prepared;
    const now = this.#options.now?.();
    const tokens = tokensTaken(prepared, expected);
    if (organisation === undefined) {
      const taken = { tokens, amounts: none };
      return { taken, command: prepared.admit({ tokens, now }) };
    }
    const session = this.#sessions.enter(organisation);
    const amounts: number[] = [];
    const positions: AdmittedPosition[] = [];
    for (const budget of budgets) {
      const known = this.#sessions.known(budget);
      const amount = known.amountFor(expected);
      amounts.push(amount);
      const used = this.#sessions.told(budget);
      positions.push({ epoch: known.epoch, used, amount, certain: this.#sessions.certainOf(budget) });
    }
    return { taken: { tokens, amounts }, command: prepared.admit({ tokens, now, session, positions }) };
  }

  /** Decides by the policy. Throws `limits_unavailable` under `closed`. */
  decideAlone(prepared: PreparedCharges, expected: ExpectedUse, onFailure: OnStoreFailure): Admission {
    const { local, budgets } = this.#options;
    const { replicas } = this.#sessions;
    return this.#without.decide<Admission>(onFailure, {
      local: () => local.admitShare(prepared.shareOf(replicas), expected, replicas),
      open: () =>
        prepared.budgets.length === 0
          ? undefined
          : budgets.hold(
              prepared.budgets,
              prepared.budgets.map((budget) => budgets.countOf(budget).amountFor(expected)),
            ),
    });
  }

  /** Reservation of a request that the server has admitted. */
  reservation(prepared: PreparedCharges, taken: Taken, numbers: Numbers): LimitReservation | undefined {
    const { budgets } = this.#options;
    if (!prepared.isSettled) return undefined;
    for (const budget of prepared.budgets) budgets.learn(budget, numbers.next(), numbers.next());
    const held = prepared.budgets.length === 0 ? undefined : budgets.hold(prepared.budgets, taken.amounts);
    const reservation = new SharedReservation(this, prepared, { taken, held });
    reservation.share();
    return reservation;
  }

  /** The server's refusal by a budget. */
  budgetRefusal({ budgets }: PreparedCharges, numbers: Numbers): Admission {
    const budget = budgets[numbers.next()] as Budget;
    const isExhausted = numbers.next() === 1;
    const epoch = numbers.next();
    const used = numbers.next();
    this.#options.budgets.learn(budget, epoch, used);
    return {
      isAdmitted: false,
      budget,
      isExhausted,
      used: shownUnits(used, budget.unit),
      resetsAt: budget.period(this.#options.clock.now()).end,
    };
  }

  /** Records a certain reservation on the server. */
  keep({ budgets }: PreparedCharges, { amounts }: Taken): void {
    this.#sessions.keep(budgets, amounts);
  }

  /** Records the use of a request that the server has not admitted. */
  noteAlone({ budgets }: PreparedCharges, used: BudgetAmounts): void {
    this.#sessions.noteAlone(budgets, used);
  }

  /**
   * Counts the use of a request that the server has admitted. Resolves when the server has it, or cannot be reached.
   */
  settle(prepared: PreparedCharges, { taken, held }: Holding, used: BudgetAmounts): void | Promise<void> {
    const { organisation, budgets } = prepared;
    // Before the local count includes the use: a new session reports that, and it must not count twice.
    const session = organisation === undefined ? undefined : this.#sessions.enter(organisation);
    const positions: BudgetPosition[] = budgets.map((budget, index) => {
      return {
        epoch: this.#sessions.known(budget).epoch,
        used: this.#sessions.told(budget),
        added: Math.max(0, wholeUnits(used[budget.unit], budget.unit)),
        amount: taken.amounts[index] as number,
        certain: 0,
      };
    });
    void held?.settle(used);
    this.#sessions.release(budgets, positions);
    const settlement = { delta: difference(taken, used), session, positions };
    return this.#sendSettlement(prepared, settlement, () => this.noteAlone(prepared, used));
  }

  /** Settles a late admission of the server, for a request that has ended or was refused meanwhile. */
  settleLate(prepared: PreparedCharges, taken: Taken, used: BudgetAmounts, isRefused: boolean): void {
    const { organisation, budgets } = prepared;
    const session = organisation === undefined ? undefined : this.#sessions.enter(organisation);
    const positions = budgets.map((budget, index) => {
      return {
        epoch: this.#sessions.known(budget).epoch,
        used: this.#sessions.told(budget),
        // The known use includes that of the request.
        added: 0,
        amount: taken.amounts[index] as number,
        certain: this.#sessions.certainOf(budget),
      };
    });
    void this.#sendSettlement(prepared, { delta: difference(taken, used), session, positions });
    const command = isRefused ? prepared.giveBackRequests(this.#options.now?.()) : undefined;
    if (command !== undefined) void this.#sessions.tell(command);
  }

  #sendSettlement(
    prepared: PreparedCharges,
    settlement: {
      readonly delta: number;
      readonly session: number | undefined;
      readonly positions: readonly BudgetPosition[];
    },
    unsent?: () => void,
  ): void | Promise<void> {
    const delta = prepared.charges.tokens === undefined ? 0 : settlement.delta;
    if (delta === 0 && settlement.session === undefined) return undefined;
    const now = this.#options.now?.();
    const { positions } = settlement;
    const command = prepared.settle({ ...settlement, delta, now });
    return this.#sessions.settle(command, { budgets: prepared.budgets, positions }, unsent);
  }

  #prepare(charges: Charges): PreparedCharges {
    let prepared = this.#prepared.get(charges);
    if (prepared === undefined) {
      const { budgets, keepMs } = this.#options;
      const isCounted = budgets.enforces;
      prepared = new PreparedCharges(charges, { gateway: this.#sessions.gateway, keepMs, isCounted });
      this.#prepared.set(charges, prepared);
    }
    return prepared;
  }
}

/** One admission call in flight. */
class Asking implements ReplyHandling<Admission> {
  readonly command: EncodedCommand;
  readonly #limiter: OwnedLimiter;
  readonly #prepared: PreparedCharges;
  readonly #asked: { readonly expected: ExpectedUse; readonly onFailure: OnStoreFailure };
  readonly #taken: Taken;
  /** The admission without the server; undefined without one, or when there is nothing to settle. */
  #alone: SharedReservation | undefined;
  #isRefused = false;

  constructor(
    limiter: OwnedLimiter,
    prepared: PreparedCharges,
    asked: { readonly expected: ExpectedUse; readonly onFailure: OnStoreFailure },
  ) {
    this.#limiter = limiter;
    this.#prepared = prepared;
    this.#asked = asked;
    const { taken, command } = limiter.admitCommand(prepared, asked.expected);
    this.#taken = taken;
    this.command = command;
  }

  read(reply: RedisReply): Admission {
    const numbers = new Numbers(reply);
    const kind = numbers.next();
    if (kind === 1) return this.#limiter.reservation(this.#prepared, this.#taken, numbers);
    if (kind === 2) return this.#limiter.budgetRefusal(this.#prepared, numbers);
    return this.#prepared.windowRefusal(numbers);
  }

  without(): Admission {
    const { expected, onFailure } = this.#asked;
    this.#isRefused = true;
    const admission = this.#limiter.decideAlone(this.#prepared, expected, onFailure);
    this.#isRefused = admission?.isAdmitted === false;
    if (admission?.isAdmitted === false || !this.#prepared.isSettled) return admission;
    this.#alone = new SharedReservation(this.#limiter, this.#prepared, {
      taken: this.#taken,
      held: admission,
    });
    return this.#alone;
  }

  late(reply: RedisReply): void {
    if (new Numbers(reply).next() !== 1) return;
    if (this.#isRefused) this.#limiter.settleLate(this.#prepared, this.#taken, nothingUsed, true);
    else this.#alone?.share();
  }
}

/** Amounts taken on the server, and here. */
interface Holding {
  readonly taken: Taken;
  readonly held: LimitReservation | undefined;
}

class SharedReservation implements LimitReservation {
  readonly isAdmitted = true;
  readonly #limiter: OwnedLimiter;
  readonly #prepared: PreparedCharges;
  readonly #holding: Holding;
  /** True when the server has the reservation too. */
  #isShared = false;
  #used: BudgetAmounts | undefined;

  constructor(limiter: OwnedLimiter, prepared: PreparedCharges, holding: Holding) {
    this.#limiter = limiter;
    this.#prepared = prepared;
    this.#holding = holding;
  }

  get reserved(): BudgetAmounts {
    const { taken, held } = this.#holding;
    const { cost, tokens, requests } = held?.reserved ?? nothingUsed;
    return { cost, tokens: Math.max(this.#isShared ? taken.tokens : 0, tokens), requests };
  }

  settle(used: BudgetAmounts): void | Promise<void> {
    if (this.#used !== undefined) return undefined;
    this.#used = used;
    if (this.#isShared) return this.#limiter.settle(this.#prepared, this.#holding, used);
    this.#limiter.noteAlone(this.#prepared, used);
    return this.#holding.held?.settle(used);
  }

  /** The server has admitted it, at once or late. */
  share(): void {
    const { taken } = this.#holding;
    if (this.#used !== undefined) return this.#limiter.settleLate(this.#prepared, taken, this.#used, false);
    this.#isShared = true;
    this.#limiter.keep(this.#prepared, taken);
  }
}

/** Amount for token windows: the actual use minus the taken amount. */
function difference({ tokens }: Taken, used: BudgetAmounts): number {
  const delta = used.tokens - tokens;
  return Number.isFinite(delta) ? delta : 0;
}
