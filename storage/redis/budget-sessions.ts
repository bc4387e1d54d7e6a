import { randomBytes } from 'node:crypto';
import {
  type Budget,
  type BudgetAmounts,
  type BudgetCount,
  type LocalBudgets,
  wholeUnits,
} from '../../core/ports/budgets.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { EncodedCommand } from './encoded-command.ts';
import { budgetKey } from './limit-commands.ts';
import {
  type BudgetPosition,
  type Place,
  presenceCommand,
  tellCommand,
  type ToldBudget,
} from './prepared-charges.ts';
import type { RedisConnection, ReplyHandling } from './redis-connection.ts';

/** A gateway says so often that it is there. */
const heartbeatMs = 2000;
/** Budgets that one call tells of: a call holds up all others. */
const mostTold = 200;

/** What `BudgetSessions` needs. */
export interface BudgetSessionsOptions {
  readonly redis: RedisConnection;
  readonly budgets: LocalBudgets;
  readonly clock: Clock;
  /** No ledger brings together what gateways have counted: what one has used alone is said to the server later. Default false. */
  readonly isOnlyStore?: boolean;
  /** How long a budget is kept that nobody asks for. Milliseconds. */
  readonly keepMs: number;
  /** The time in whole milliseconds. Default: the server's own clock. For tests. */
  readonly now?: () => number;
}

/** What the server has been told of one organisation's budgets. */
interface Organisation {
  readonly place: Place;
  session: number;
  /** What it has certainly reserved for this gateway. */
  readonly certain: Map<string, Certain>;
  /** What was used without the server, where it is the only store. */
  readonly unsaid: Map<string, Unsaid>;
}

interface Certain {
  readonly budget: Budget;
  /** Whole units. */
  reserved: number;
}

interface Unsaid {
  readonly budget: Budget;
  readonly epoch: number;
  /** Whole units. */
  added: number;
}

/**
 * What this gateway has told the server of its budgets. A session begins with each connection, for what was under way on
 * the earlier one may have been done or not: the server is told anew then what is reserved, before anything else.
 */
export class BudgetSessions {
  /** The name of this gateway on the server. */
  readonly gateway = randomBytes(9).toString('base64url');
  /** How many gateways the server has last heard of, this one included. */
  replicas = 1;
  readonly #options: BudgetSessionsOptions;
  readonly #organisations = new Map<string, Organisation>();
  /** Sessions that began for another reason than a new connection. */
  #renewals = 0;
  #cancel: () => void = () => undefined;

  constructor(options: BudgetSessionsOptions) {
    this.#options = options;
    this.#beat();
  }

  get isOnlyStore(): boolean {
    return this.#options.isOnlyStore === true;
  }

  /** What is known here of a budget: it goes on changing. */
  known(budget: Budget): BudgetCount {
    return this.#options.budgets.countOf(budget);
  }

  /** The present session, which what is sent next belongs to. */
  enter(organisationId: string): number {
    return this.#enter(this.#organisation(organisationId));
  }

  /** What the server has certainly reserved of a budget, in whole units. */
  certainOf({ organisationId, key }: Budget): number {
    return this.#organisation(organisationId).certain.get(key)?.reserved ?? 0;
  }

  /** The server has certainly reserved these amounts. */
  keep(budgets: readonly Budget[], amounts: readonly number[]): void {
    const [first] = budgets;
    if (first === undefined) return;
    // All budgets of a request are of one organisation.
    const { certain } = this.#organisation(first.organisationId);
    for (const [index, budget] of budgets.entries()) {
      const known = certain.get(budget.key);
      const amount = amounts[index] as number;
      if (known === undefined) certain.set(budget.key, { budget, reserved: amount });
      else known.reserved += amount;
    }
  }

  /** These amounts are about to be released; `positions` say what is left then. */
  release(budgets: readonly Budget[], positions: readonly BudgetPosition[]): void {
    const [first] = budgets;
    if (first === undefined) return;
    const { certain } = this.#organisation(first.organisationId);
    for (const [index, { key }] of budgets.entries()) {
      const known = certain.get(key);
      if (known === undefined) continue;
      known.reserved -= (positions[index] as BudgetPosition).amount;
      if (known.reserved <= 0) certain.delete(key);
    }
    // A budget may stand among them twice.
    for (const [index, { key }] of budgets.entries())
      (positions[index] as BudgetPosition).certain = certain.get(key)?.reserved ?? 0;
  }

  /** Notes what was used without the server: where that is the only store, it is said later. */
  noteAlone(budgets: readonly Budget[], used: BudgetAmounts): void {
    if (!this.isOnlyStore) return;
    for (const budget of budgets) {
      const { unsaid } = this.#organisation(budget.organisationId);
      const { epoch } = this.known(budget);
      const added = Math.max(0, wholeUnits(used[budget.unit], budget.unit));
      const before = unsaid.get(budget.key);
      if (before?.epoch === epoch) before.added += added;
      else unsaid.set(budget.key, { budget, epoch, added });
    }
  }

  /** Sends what nobody waits for, also to a server that is slow. Never rejects; `unsent` is called when it cannot leave. */
  tell(command: EncodedCommand, unsent: () => void = nothing): Promise<void> {
    const telling = new Telling(() => {
      // In a new session the server is told everything anew.
      if (this.#options.redis.session !== undefined) this.#renewals += 1;
      unsent();
    });
    const sending = this.#options.redis.send(command, telling);
    telling.isSent = true;
    return sending;
  }

  /** Begins a budget anew, here, in the ledger and on the server. Rejects when the ledger cannot store it. */
  async reset(key: string, organisationId: string): Promise<number> {
    const { redis, budgets, now } = this.#options;
    // Another gateway may have begun it anew a moment ago, by a clock that is ahead.
    const known = await redis
      .call((client) => client.hgetall(budgetKey(organisationId, key)))
      .catch(() => ({ e: '' }));
    const epoch = await budgets.reset(key, organisationId, Number(known['e'] ?? 0));
    const organisation = this.#organisation(organisationId);
    const session = this.#enter(organisation);
    const certain = organisation.certain.get(key)?.reserved ?? 0;
    const positions = [{ key, epoch, used: 0, added: 0, amount: 0, certain }];
    await this.tell(tellCommand(organisation.place, { now: now?.(), session, isEntered: true, positions }));
    return epoch;
  }

  /** Stops the signs of life, and leaves. */
  close(): void {
    this.#cancel();
    this.#tellPresence(true);
  }

  #enter(organisation: Organisation): number {
    const { redis } = this.#options;
    // Without a connection nothing is sent.
    if (redis.session === undefined) return organisation.session;
    const session = redis.session + this.#renewals;
    const isNew = session !== organisation.session;
    organisation.session = session;
    // First what was used: everything else tells it as known.
    if (organisation.unsaid.size > 0 && redis.available) this.#tellUnsaid(organisation);
    if (isNew) this.#tellCertain(organisation);
    return session;
  }

  #tellUnsaid(organisation: Organisation): void {
    const told = [...organisation.unsaid.values()].flatMap(({ budget, epoch, added }) => {
      const known = this.known(budget);
      // Use in an earlier period counts no more.
      if (known.epoch !== epoch) return [];
      const certain = this.certainOf(budget);
      return [{ key: budget.key, epoch, used: known.used - added, added, amount: 0, certain }];
    });
    organisation.unsaid.clear();
    this.#tellAll(organisation, told, false);
  }

  #tellCertain(organisation: Organisation): void {
    const told = [...organisation.certain.values()].map(({ budget, reserved }) => {
      const { epoch, used } = this.known(budget);
      return { key: budget.key, epoch, used, added: 0, amount: 0, certain: reserved };
    });
    this.#tellAll(organisation, told, true);
  }

  #tellAll({ place, session }: Organisation, told: readonly ToldBudget[], enters: boolean): void {
    const now = this.#options.now?.();
    // A session begins with a call also where there is nothing to tell.
    for (let from = 0; from < told.length || (enters && from === 0); from += mostTold) {
      const positions = told.slice(from, from + mostTold);
      // Reservations of earlier sessions count until all of their use is told.
      const isEntered = enters && from + mostTold >= told.length;
      void this.tell(tellCommand(place, { now, session, isEntered, positions }));
    }
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
    void redis.send(presenceCommand(this.gateway, now?.(), isLeaving), {
      unhurried: true,
      read: (count) => void (this.replicas = Math.max(1, Number(count))),
      without: nothing,
    });
  }

  #organisation(id: string): Organisation {
    let known = this.#organisations.get(id);
    if (known === undefined) {
      const place = { organisationId: id, gateway: this.gateway, keepMs: this.#options.keepMs };
      known = { place, session: -1, certain: new Map(), unsaid: new Map() };
      this.#organisations.set(id, known);
    }
    return known;
  }
}

/** What is told to the server, for which nobody waits. */
class Telling implements ReplyHandling<void> {
  readonly unhurried = true;
  isSent = false;
  readonly #unsent: () => void;

  constructor(unsent: () => void) {
    this.#unsent = unsent;
  }

  read(): void {
    // The answer says nothing.
  }

  without(): void {
    if (!this.isSent) this.#unsent();
  }
}

function nothing(): void {
  // The answer says nothing.
}
