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
import { type BudgetPosition, limitCalls, limitKeys, type Place, type ToldBudget } from './limit-commands.ts';
import type { RedisConnection, ReplyHandling } from './redis-connection.ts';
import { limitScripts } from './limit-scripts.ts';

/** Interval of a gateway's heartbeats. */
const heartbeatMs = 2000;
/** Upper bound of budgets in one call: a call blocks all others. */
const positionsPerCall = 200;

/** Dependencies and options of `BudgetSessions`. */
export interface BudgetSessionsOptions {
  readonly redis: RedisConnection;
  readonly budgets: LocalBudgets;
  readonly clock: Clock;
  /**
   * True without a ledger that combines the counts of gateways: use counted locally is then sent to the server later.
   * Default false.
   */
  readonly isOnlyStore?: boolean;
  /** Time for which an unused budget is kept. Milliseconds. */
  readonly keepMs: number;
  /** The time in whole milliseconds. Default: the server's own clock. For tests. */
  readonly now?: () => number;
}

/** State reported to the server for one organisation's budgets. */
interface Organisation {
  readonly place: Place;
  session: number;
  /** Sessions that started because a settlement had no answer. */
  renewals: number;
  /**
   * Use in settlements of this session without an answer yet, in whole units. It is not told otherwise: while a slot of
   * a cluster moves, commands may overtake each other, and it would count twice.
   */
  readonly unanswered: Map<string, number>;
  /** Amounts that the server has certainly reserved for this gateway. */
  readonly certain: Map<string, Certain>;
  /** Use counted without the server, when that is the only store. */
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
 * Budget state that this gateway has reported to the server. Each connection starts a new session, because commands in
 * flight on the previous one may or may not have run: the server then first gets all reservations again.
 */
export class BudgetSessions {
  /** The name of this gateway on the server. */
  readonly gateway = randomBytes(9).toString('base64url');
  /** Number of gateways that the server last heard of, including this one. */
  replicas = 1;
  readonly #options: BudgetSessionsOptions;
  readonly #organisations = new Map<string, Organisation>();
  /** Sessions that started for another reason than a new connection. */
  #renewals = 0;
  /** After a report that was not sent: in a new session the server gets the whole state again. */
  readonly #renew = (): void => {
    if (this.#options.redis.session !== undefined) this.#renewals += 1;
  };
  #cancel: () => void = () => undefined;

  constructor(options: BudgetSessionsOptions) {
    this.#options = options;
    this.#beat();
  }

  get isOnlyStore(): boolean {
    return this.#options.isOnlyStore === true;
  }

  /** The live local count of a budget. */
  known(budget: Budget): BudgetCount {
    return this.#options.budgets.countOf(budget);
  }

  /** Use of a budget that commands tell, in whole units. */
  told(budget: Budget): number {
    const { unanswered } = this.#organisation(budget.organisationId);
    return Math.max(0, this.known(budget).used - (unanswered.get(budget.key) ?? 0));
  }

  /** The present session, to which the next command belongs. */
  enter(organisationId: string): number {
    return this.#enter(this.#organisation(organisationId));
  }

  /** Amount that the server has certainly reserved of a budget, in whole units. */
  certainOf({ organisationId, key }: Budget): number {
    return this.#organisation(organisationId).certain.get(key)?.reserved ?? 0;
  }

  /** Adds amounts that the server has certainly reserved. */
  keep(budgets: readonly Budget[], amounts: readonly number[]): void {
    const [first] = budgets;
    if (first === undefined) return;
    // All budgets of a request belong to one organisation.
    const { certain } = this.#organisation(first.organisationId);
    for (const [index, budget] of budgets.entries()) {
      const known = certain.get(budget.key);
      const amount = amounts[index] as number;
      if (known === undefined) certain.set(budget.key, { budget, reserved: amount });
      else known.reserved += amount;
    }
  }

  /** Subtracts amounts about to be released; sets the remainder in `positions`. */
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
    // The list may contain a budget twice.
    for (const [index, { key }] of budgets.entries())
      (positions[index] as BudgetPosition).certain = certain.get(key)?.reserved ?? 0;
  }

  /** Records use without the server: when that is the only store, it is reported later. */
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

  /**
   * Sends a command without waiting callers, also to a slow server. Never rejects; `unsent` is called when it cannot be
   * sent.
   */
  tell(command: EncodedCommand, unsent: () => void = nothing): Promise<void> {
    return this.#send(command, { unsent });
  }

  /** Same for a settlement of budgets of one organisation. */
  settle(
    command: EncodedCommand,
    {
      budgets,
      positions,
    }: { readonly budgets: readonly Budget[]; readonly positions: readonly BudgetPosition[] },
    unsent: () => void = nothing,
  ): Promise<void> {
    const [first] = budgets;
    if (first === undefined) return this.tell(command, unsent);
    const organisation = this.#organisation(first.organisationId);
    const { session, unanswered } = organisation;
    const count = (sign: 1 | -1): void => {
      for (const [index, { key }] of budgets.entries()) {
        const rest = (unanswered.get(key) ?? 0) + sign * (positions[index] as BudgetPosition).added;
        if (rest > 0) unanswered.set(key, rest);
        else unanswered.delete(key);
      }
    };
    count(1);
    return this.#send(command, {
      unsent,
      answered: () => {
        if (organisation.session === session) count(-1);
      },
      failed: () => {
        // Should it still run, the next session has told its use: the server then leaves it out.
        if (organisation.session === session) organisation.renewals += 1;
      },
    });
  }

  /** Resets a budget, here, in the ledger and on the server. Rejects when the ledger cannot store it. */
  async reset(key: string, organisationId: string): Promise<number> {
    const { redis, budgets, now } = this.#options;
    // Another gateway with a clock that is ahead may have reset it a moment ago.
    const stored = limitKeys.budget(organisationId, key);
    const known = await redis
      .call((client) => client.hgetall(stored), { key: stored })
      .catch(() => ({ e: '' }));
    const epoch = await budgets.reset(key, organisationId, Number(known['e'] ?? 0));
    const organisation = this.#organisation(organisationId);
    const session = this.#enter(organisation);
    const certain = organisation.certain.get(key)?.reserved ?? 0;
    const positions = [{ key, epoch, used: 0, added: 0, amount: 0, certain }];
    await this.tell(
      limitCalls.report(organisation.place, { now: now?.(), session, isEntered: true, positions }),
    );
    return epoch;
  }

  /** Stops the heartbeats, and signs off. */
  close(): void {
    this.#cancel();
    this.#tellPresence(true);
  }

  #send(command: EncodedCommand, outcomes: Outcomes): Promise<void> {
    const telling = new Telling(outcomes, this.#renew);
    const sending = this.#options.redis.send(command, telling);
    telling.isSent = true;
    return sending;
  }

  #enter(organisation: Organisation): number {
    const { redis } = this.#options;
    // Without a connection nothing is sent.
    if (redis.session === undefined) return organisation.session;
    const session = redis.session + this.#renewals + organisation.renewals;
    const isNew = session !== organisation.session;
    organisation.session = session;
    if (isNew) organisation.unanswered.clear();
    // Unreported use first: all other commands report it as known.
    const isReachable = (): boolean =>
      redis.isAvailableFor(limitKeys.gateways(organisation.place.organisationId));
    if (organisation.unsaid.size > 0 && isReachable()) this.#tellUnsaid(organisation);
    if (isNew) this.#tellCertain(organisation);
    return session;
  }

  #tellUnsaid(organisation: Organisation): void {
    const told = [...organisation.unsaid.values()].flatMap(({ budget, epoch, added }) => {
      const known = this.known(budget);
      // Use in an earlier period no longer counts.
      if (known.epoch !== epoch) return [];
      const certain = this.certainOf(budget);
      const used = Math.max(0, this.told(budget) - added);
      return [{ key: budget.key, epoch, used, added, amount: 0, certain }];
    });
    organisation.unsaid.clear();
    this.#tellAll(organisation, told, false);
  }

  #tellCertain(organisation: Organisation): void {
    const told = [...organisation.certain.values()].map(({ budget, reserved }) => {
      const { epoch } = this.known(budget);
      return { key: budget.key, epoch, used: this.told(budget), added: 0, amount: 0, certain: reserved };
    });
    this.#tellAll(organisation, told, true);
  }

  #tellAll({ place, session }: Organisation, told: readonly ToldBudget[], enters: boolean): void {
    const now = this.#options.now?.();
    // A session starts with a call even when there is nothing to report.
    for (let from = 0; from < told.length || (enters && from === 0); from += positionsPerCall) {
      const positions = told.slice(from, from + positionsPerCall);
      // Reservations of earlier sessions count until all of their use is reported.
      const isEntered = enters && from + positionsPerCall >= told.length;
      void this.tell(limitCalls.report(place, { now, session, isEntered, positions }));
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
      known = {
        place,
        session: -1,
        renewals: 0,
        unanswered: new Map(),
        certain: new Map(),
        unsaid: new Map(),
      };
      this.#organisations.set(id, known);
    }
    return known;
  }
}

/** What follows a report to the server: it could not be sent, was answered, or has no answer. */
interface Outcomes {
  readonly unsent: () => void;
  readonly answered?: () => void;
  readonly failed?: () => void;
}

/** A report to the server without waiting callers. */
class Telling implements ReplyHandling<void> {
  readonly unhurried = true;
  isSent = false;
  readonly #outcomes: Outcomes;
  readonly #renew: () => void;

  constructor(outcomes: Outcomes, renew: () => void) {
    this.#outcomes = outcomes;
    this.#renew = renew;
  }

  read(): void {
    this.#outcomes.answered?.();
  }

  without(): void {
    if (this.isSent) return this.#outcomes.failed?.();
    this.#renew();
    this.#outcomes.unsent();
  }
}

function nothing(): void {
  // The answer carries nothing.
}

/** Heartbeat of a gateway, or its sign-off. */
function presenceCommand(gateway: string, now: number | undefined, isLeaving = false): EncodedCommand {
  const parts = [1, limitKeys.presence, gateway, now ?? '', isLeaving ? 'leaves' : ''];
  return limitCalls.runScript(limitScripts.presence, parts);
}
