import { randomBytes } from 'node:crypto';
import {
  type Budget,
  type BudgetAmounts,
  type Budgets,
  type LocalBudgets,
  nothingUsed,
  shownUnits,
  wholeUnits,
} from '../../core/ports/budgets.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type {
  Admission,
  Charges,
  Limiter,
  LimitReservation,
  OnStoreFailure,
} from '../../core/ports/counters.ts';
import type { EncodedCommand, RedisReply } from './encoded-command.ts';
import { budgetKey, Numbers } from './limit-commands.ts';
import {
  type BudgetPosition,
  type Place,
  PreparedCharges,
  presenceCommand,
  tellCommand,
  type ToldBudget,
} from './prepared-charges.ts';
import type { RedisConnection, ReplyHandling } from './redis-connection.ts';
import { WithoutStore } from './without-store.ts';

/** A gateway says so often that it is there. */
const heartbeatMs = 2000;
/** Budgets that one call tells of: a call holds up all others. */
const mostTold = 200;

/** What `createRedisLimiter` needs. */
interface RedisLimiterOptions {
  readonly redis: RedisConnection;
  /** Decides in this process under the policy `local` while the server is away, as one of so many gateways. */
  readonly local: { admitShare(charges: Charges, tokens: number, replicas: number): Admission };
  /** Those that `local` decides by. They are exchanged with the ledger, which heals a server that has lost its data. */
  readonly budgets: LocalBudgets;
  readonly clock: Clock;
  /** No ledger brings together what gateways have counted: what one has used alone is said to the server later. Default false. */
  readonly isOnlyStore?: boolean;
  /** How long a budget is kept that nobody asks for. Milliseconds. */
  readonly keepMs: number;
  /** Default: one that counts nothing. */
  readonly without?: WithoutStore;
  /** The time in whole milliseconds. Default: the server's own clock. For tests. */
  readonly now?: () => number;
}

/** A limiter that several gateways share. */
export interface RedisLimiter extends Limiter {
  /** The budgets of this process, whose reset acts on the server too. */
  readonly budgets: Budgets;
  /** Stops the signs of life. */
  close(): void;
}

/**
 * Decides over requests for all gateways with the same server: one call for all windows and budgets, on the server, by
 * the server's clock. Budgets are counted in this process as well, and go to the ledger from there; each call tells the
 * server what is known here, so that one that is new, or was flushed, knows it too.
 *
 * While the server is away or slow, the policy of each call decides. A call that was given up is never sent again; when
 * its answer comes late, what it took is given back if the request was refused meanwhile, and stays counted otherwise.
 */
export function createRedisLimiter(options: RedisLimiterOptions): RedisLimiter {
  return new OwnedLimiter(options);
}

/** Of one organisation's budgets: what the server has certainly reserved for this gateway. */
interface Organisation {
  readonly place: Place;
  /** The session in which the server has been told. */
  session: number;
  readonly certain: Map<string, Certain>;
  /** What was used while the server was away, where it is the only store. */
  readonly unsaid: Map<string, Unsaid>;
}

interface Unsaid {
  readonly budget: Budget;
  readonly epoch: number;
  /** Whole units. */
  added: number;
}

interface Certain {
  readonly budget: Budget;
  /** Whole units. */
  reserved: number;
}

/** What was taken of the token windows, and of each budget in whole units. */
interface Taken {
  readonly tokens: number;
  readonly amounts: readonly number[];
}

class OwnedLimiter implements RedisLimiter {
  readonly budgets: Budgets;
  readonly #options: RedisLimiterOptions;
  readonly #without: WithoutStore;
  readonly #gateway = randomBytes(9).toString('base64url');
  readonly #prepared = new WeakMap<Charges, PreparedCharges>();
  readonly #organisations = new Map<string, Organisation>();
  /** Sessions that began for another reason than a new connection. */
  #renewals = 0;
  /** How many gateways the server has last heard of, this one included. */
  #replicas = 1;
  #cancel: () => void = () => undefined;

  constructor(options: RedisLimiterOptions) {
    this.#options = options;
    this.#without = options.without ?? new WithoutStore();
    const { budgets } = options;
    this.budgets = {
      usage: (budget) => budgets.usage(budget),
      groups: (prefix) => budgets.groups(prefix),
      reset: (key, organisationId) => this.#reset(key, organisationId),
    };
    this.#beat();
  }

  admit(
    charges: Charges,
    tokens: number,
    onFailure: OnStoreFailure = 'local',
  ): Admission | Promise<Admission> {
    const prepared = this.#prepare(charges);
    if (prepared.isEmpty) return undefined;
    const { redis } = this.#options;
    if (!redis.available) {
      const admission = this.decideAlone(prepared, tokens, onFailure);
      if (admission?.isAdmitted !== true || !this.#isSaidLater(prepared)) return admission;
      return new SharedReservation(this, prepared, { taken: nothingTaken, held: admission });
    }
    const asking = new Asking(this, prepared, { tokens, onFailure });
    return redis.send(asking.command, asking);
  }

  close(): void {
    this.#cancel();
    this.#tellPresence(true);
  }

  /** What is sent for a request that takes this. */
  admitCommand(prepared: PreparedCharges, { tokens, amounts }: Taken): EncodedCommand {
    const { organisation: id, budgets } = prepared;
    const now = this.#options.now?.();
    if (id === undefined) return prepared.admit({ tokens, now });
    const organisation = this.#organisation(id);
    const session = this.#enter(organisation);
    const positions = budgets.map((budget, index) => ({
      ...this.#known(budget),
      amount: amounts[index] as number,
      certain: organisation.certain.get(budget.key)?.reserved ?? 0,
    }));
    return prepared.admit({ tokens, now, session, positions });
  }

  /** What a request takes that is expected to use so many tokens. */
  takenBy({ charges, budgets }: PreparedCharges, tokens: number): Taken {
    const { smallest = 0 } = charges.tokens ?? {};
    return {
      tokens: charges.tokens === undefined ? 0 : Math.max(1, Math.min(tokens, smallest)),
      amounts: budgets.map((budget) => this.#options.budgets.countOf(budget).amountFor(tokens)),
    };
  }

  /** The policy decides. Throws `limits_unavailable` under `closed`. */
  decideAlone(prepared: PreparedCharges, tokens: number, onFailure: OnStoreFailure): Admission {
    const { local, budgets } = this.#options;
    return this.#without.decide<Admission>(onFailure, {
      local: () => local.admitShare(prepared.shareOf(this.#replicas), tokens, this.#replicas),
      open: () =>
        prepared.budgets.length === 0
          ? undefined
          : budgets.hold(prepared.budgets, this.takenBy(prepared, tokens).amounts),
    });
  }

  /** Of a request that the server has admitted. */
  reservation(prepared: PreparedCharges, taken: Taken, numbers: Numbers): LimitReservation | undefined {
    const { budgets } = this.#options;
    if (!prepared.isSettled) return undefined;
    for (const budget of prepared.budgets) budgets.learn(budget, numbers.next(), numbers.next());
    const held = prepared.budgets.length === 0 ? undefined : budgets.hold(prepared.budgets, taken.amounts);
    const reservation = new SharedReservation(this, prepared, { taken, held });
    reservation.share();
    return reservation;
  }

  /** What a request has used that was admitted without the server: where that is the only store, it is said later. */
  noteAlone(prepared: PreparedCharges, used: BudgetAmounts): void {
    const { organisation: id, budgets } = prepared;
    if (id === undefined || !this.#isSaidLater(prepared)) return;
    const { unsaid } = this.#organisation(id);
    for (const budget of budgets) {
      const { epoch } = this.#known(budget);
      const added = Math.max(0, wholeUnits(used[budget.unit], budget.unit));
      const known = unsaid.get(budget.key);
      if (known?.epoch === epoch) known.added += added;
      else unsaid.set(budget.key, { budget, epoch, added });
    }
  }

  /** The refusal of a budget by the server. */
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

  /** The server has certainly reserved this. */
  keep({ organisation: id, budgets }: PreparedCharges, { amounts }: Taken): void {
    if (id === undefined) return;
    const { certain } = this.#organisation(id);
    budgets.forEach((budget, index) => {
      const known = certain.get(budget.key);
      const amount = amounts[index] as number;
      if (known === undefined) certain.set(budget.key, { budget, reserved: amount });
      else known.reserved += amount;
    });
  }

  /** Counts what was used of a request that the server has admitted. Resolves when it knows, or cannot be told. */
  settle(prepared: PreparedCharges, { taken, held }: Holding, used: BudgetAmounts): void | Promise<void> {
    const { organisation: id, budgets } = prepared;
    // Before the use is known here: a new session tells it, and it must not count twice.
    const session = id === undefined ? undefined : this.#enter(this.#organisation(id));
    const positions: BudgetPosition[] = budgets.map((budget, index) => ({
      ...this.#known(budget),
      added: Math.max(0, wholeUnits(used[budget.unit], budget.unit)),
      amount: taken.amounts[index] as number,
      certain: 0,
    }));
    held?.settle(used);
    if (id !== undefined) this.#release(this.#organisation(id), positions, budgets);
    return this.#sendSettlement(prepared, { delta: difference(taken, used), session, positions });
  }

  /** Settles with the server what it has admitted too late, for a request that ended meanwhile, or was refused. */
  settleLate(prepared: PreparedCharges, taken: Taken, used: BudgetAmounts, isRefused: boolean): void {
    const { redis, now } = this.#options;
    const { organisation: id, budgets } = prepared;
    const organisation = id === undefined ? undefined : this.#organisation(id);
    const session = organisation && this.#enter(organisation);
    const positions = budgets.map((budget, index) => ({
      ...this.#known(budget),
      // What the request used is among what is known here.
      added: 0,
      amount: taken.amounts[index] as number,
      certain: organisation?.certain.get(budget.key)?.reserved ?? 0,
    }));
    void this.#sendSettlement(prepared, { delta: difference(taken, used), session, positions });
    const command = isRefused ? prepared.giveBackRequests(now?.()) : undefined;
    if (command !== undefined) void redis.send(command, { unhurried: true, read: nothing, without: nothing });
  }

  #sendSettlement(
    prepared: PreparedCharges,
    settlement: {
      readonly delta: number;
      readonly session: number | undefined;
      readonly positions: readonly BudgetPosition[];
    },
  ): void | Promise<void> {
    const delta = prepared.charges.tokens === undefined ? 0 : settlement.delta;
    if (delta === 0 && settlement.session === undefined) return undefined;
    return this.#tell(prepared.settle({ ...settlement, delta, now: this.#options.now?.() }));
  }

  #release(
    { certain }: Organisation,
    positions: readonly BudgetPosition[],
    budgets: readonly Budget[],
  ): void {
    positions.forEach((position, index) => {
      const { key } = budgets[index] as Budget;
      const known = certain.get(key);
      if (known === undefined) return;
      known.reserved -= position.amount;
      if (known.reserved <= 0) certain.delete(key);
    });
    positions.forEach((position, index) => {
      position.certain = certain.get((budgets[index] as Budget).key)?.reserved ?? 0;
    });
  }

  /** Sends what nobody waits for, also to a server that is slow. */
  async #tell(command: EncodedCommand): Promise<void> {
    let isSent = false;
    const sending = this.#options.redis.send(command, {
      unhurried: true,
      read: nothing,
      without: () => {
        // The server will not be told: in a new session it is told everything anew.
        if (!isSent) this.#renewals += 1;
      },
    });
    isSent = true;
    await sending;
  }

  #isSaidLater({ budgets }: PreparedCharges): boolean {
    return this.#options.isOnlyStore === true && budgets.length > 0;
  }

  /** The present session; when it is new, the server is told what is reserved. */
  #enter(organisation: Organisation): number {
    const session = this.#options.redis.session + this.#renewals;
    const isNew = session !== organisation.session;
    organisation.session = session;
    // First what was used: everything else tells it as known.
    if (organisation.unsaid.size > 0 && this.#options.redis.available) this.#tellUnsaid(organisation);
    if (isNew) this.#tellCertain(organisation);
    return session;
  }

  #tellUnsaid(organisation: Organisation): void {
    const told = [...organisation.unsaid.values()].flatMap(({ budget, epoch, added }) => {
      const known = this.#known(budget);
      // What was used in an earlier period counts no more.
      if (known.epoch !== epoch) return [];
      const certain = organisation.certain.get(budget.key)?.reserved ?? 0;
      return [{ key: budget.key, epoch, used: known.used - added, added, amount: 0, certain }];
    });
    organisation.unsaid.clear();
    this.#tellAll(organisation, told, false);
  }

  #tellCertain(organisation: Organisation): void {
    const told = [...organisation.certain.values()].map(({ budget, reserved }) => ({
      key: budget.key,
      ...this.#known(budget),
      added: 0,
      amount: 0,
      certain: reserved,
    }));
    this.#tellAll(organisation, told, true);
  }

  #tellAll({ place, session }: Organisation, told: readonly ToldBudget[], enters: boolean): void {
    for (let from = 0; from < told.length; from += mostTold) {
      const positions = told.slice(from, from + mostTold);
      // What earlier sessions have reserved counts until all of it is told.
      const isEntered = enters && from + mostTold >= told.length;
      const now = this.#options.now?.();
      void this.#tell(tellCommand(place, { now, session, isEntered, positions }));
    }
  }

  async #reset(key: string, organisationId: string): Promise<number> {
    const { redis, budgets } = this.#options;
    // Another gateway may have begun it anew a moment ago, by a clock that is ahead.
    const known = await redis
      .call((client) => client.hgetall(budgetKey(organisationId, key)))
      .catch(() => ({ e: '' }));
    const epoch = await budgets.reset(key, organisationId, Number(known['e'] ?? 0));
    const organisation = this.#organisation(organisationId);
    const session = this.#enter(organisation);
    const certain = organisation.certain.get(key)?.reserved ?? 0;
    const positions = [{ key, epoch, used: 0, added: 0, amount: 0, certain }];
    const now = this.#options.now?.();
    await this.#tell(tellCommand(organisation.place, { now, session, isEntered: true, positions }));
    return epoch;
  }

  #beat(): void {
    this.#cancel = this.#options.clock.after(heartbeatMs, () => this.#beat());
    if (!this.#options.redis.available) return;
    this.#tellPresence();
    for (const organisation of this.#organisations.values()) {
      if (organisation.certain.size + organisation.unsaid.size === 0) continue;
      const { session } = organisation;
      if (this.#enter(organisation) === session) this.#tellCertain(organisation);
    }
  }

  #tellPresence(isLeaving = false): void {
    const { redis, now } = this.#options;
    if (!redis.available) return;
    void redis.send(presenceCommand(this.#gateway, now?.(), isLeaving), {
      unhurried: true,
      read: (count) => void (this.#replicas = Math.max(1, Number(count))),
      without: nothing,
    });
  }

  #known(budget: Budget): { readonly epoch: number; readonly used: number } {
    const { epoch, used } = this.#options.budgets.countOf(budget);
    return { epoch, used };
  }

  #organisation(id: string): Organisation {
    let known = this.#organisations.get(id);
    if (known === undefined) {
      const place = { organisationId: id, gateway: this.#gateway, keepMs: this.#options.keepMs };
      this.#organisations.set(id, (known = { place, session: -1, certain: new Map(), unsaid: new Map() }));
    }
    return known;
  }

  #prepare(charges: Charges): PreparedCharges {
    let prepared = this.#prepared.get(charges);
    if (prepared === undefined) {
      const { budgets, keepMs } = this.#options;
      const isCounted = budgets.enforces;
      prepared = new PreparedCharges(charges, { gateway: this.#gateway, keepMs, isCounted });
      this.#prepared.set(charges, prepared);
    }
    return prepared;
  }
}

const nothingTaken: Taken = { tokens: 0, amounts: [] };

/** One request on its way to the server. */
class Asking implements ReplyHandling<Admission> {
  readonly command: EncodedCommand;
  readonly #limiter: OwnedLimiter;
  readonly #prepared: PreparedCharges;
  readonly #asked: { readonly tokens: number; readonly onFailure: OnStoreFailure };
  readonly #taken: Taken;
  /** What was admitted without the server; undefined while nothing was, or nothing is to be settled. */
  #alone: SharedReservation | undefined;
  #isRefused = false;

  constructor(
    limiter: OwnedLimiter,
    prepared: PreparedCharges,
    asked: { readonly tokens: number; readonly onFailure: OnStoreFailure },
  ) {
    this.#limiter = limiter;
    this.#prepared = prepared;
    this.#asked = asked;
    this.#taken = limiter.takenBy(prepared, asked.tokens);
    this.command = limiter.admitCommand(prepared, this.#taken);
  }

  read(reply: RedisReply): Admission {
    const numbers = new Numbers(reply);
    const kind = numbers.next();
    if (kind === 1) return this.#limiter.reservation(this.#prepared, this.#taken, numbers);
    if (kind === 2) return this.#limiter.budgetRefusal(this.#prepared, numbers);
    return this.#prepared.windowRefusal(numbers);
  }

  without(): Admission {
    const { tokens, onFailure } = this.#asked;
    this.#isRefused = true;
    const admission = this.#limiter.decideAlone(this.#prepared, tokens, onFailure);
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

/** What was taken on the server, and here. */
interface Holding {
  readonly taken: Taken;
  readonly held: LimitReservation | undefined;
}

class SharedReservation implements LimitReservation {
  readonly isAdmitted = true;
  readonly #limiter: OwnedLimiter;
  readonly #prepared: PreparedCharges;
  readonly #holding: Holding;
  /** The server has it too. */
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

/** What token windows get for what was used instead of what was taken. */
function difference({ tokens }: Taken, used: BudgetAmounts): number {
  const delta = used.tokens - tokens;
  return Number.isFinite(delta) ? delta : 0;
}

function nothing(): void {
  // A settlement has no result.
}
