/** The worker's side: stores that live in its parent. */
import type { Budgets, UsageLedger } from '../../core/ports/budgets.ts';
import type { Cache, VectorIndex } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Admission, Charges, Counters, Limiter } from '../../core/ports/counters.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Resources, ResourcesReader, ResourcesWriter } from '../../core/ports/resources.ts';
import type { Remote } from './channel.ts';
import type { ParentCalls, SentCharges } from './parent-calls.ts';

type Parent = Remote<ParentCalls>;

/** Options of `createParentStores`. */
interface ParentStoresOptions {
  readonly parent: Parent;
  readonly clock: Clock;
  readonly log: Log;
  /** Larger values stay out of the cache. */
  readonly maxValueBytes: number;
}

/** Counters, limits and cached answers of the parent: exact over all workers. */
interface ParentStores {
  readonly counters: Counters;
  readonly limiter: Limiter;
  /** Workers tell of crossings only: routes that show usage run in the parent. */
  readonly budgets: Budgets;
  readonly ledger: UsageLedger;
  readonly cache: Cache;
  readonly vectors: VectorIndex;
}

export function createParentStores({ parent, clock, log, maxValueBytes }: ParentStoresOptions): ParentStores {
  const lost = (error: unknown): undefined => void log.debug('The parent process did not answer', { error });
  return {
    counters: {
      take: (windows, amount) => parent.call('counters.take', windows, amount),
      adjust: (windows, delta) => parent.call('counters.adjust', windows, delta),
    },
    limiter: new ParentLimiter(parent, clock, lost),
    budgets: {
      usage: () => inParent(),
      groups: () => inParent(),
      reset: () => inParent(),
      tell: (crossing) => void parent.call('budgets.tell', crossing).catch(lost),
    },
    ledger: {
      isShared: true,
      exchange: (deltas, after) => parent.call('ledger.exchange', deltas, after),
      correct: (corrections) => parent.call('ledger.correct', corrections),
      claim: (claim) => parent.call('ledger.claim', claim),
    },
    cache: {
      get: (key) => parent.call('cache.get', key).catch(lost),
      set: (key, bytes, ttlMs) => {
        if (bytes.length <= maxValueBytes) return parent.call('cache.set', key, bytes, ttlMs).catch(lost);
        return undefined;
      },
      delete: (key) => parent.call('cache.delete', key).catch(lost),
    },
    vectors: {
      nearest: (partition, vector, threshold) =>
        parent.call('vectors.nearest', partition, vector, threshold).catch(lost),
      add: (partition, id, vector, bounds) =>
        parent.call('vectors.add', partition, id, vector, bounds).catch(lost),
      remove: (partition, id) => parent.call('vectors.remove', partition, id).catch(lost),
    },
  };
}

function inParent(): never {
  throw new Error('Routes of the administration run in the parent process.');
}

/** Charges as they are sent, until a period of their budgets ends. */
interface SendableCharges {
  readonly sent: SentCharges;
  readonly until: number;
}

class ParentLimiter implements Limiter {
  readonly #parent: Parent;
  readonly #clock: Clock;
  readonly #lost: (error: unknown) => undefined;
  readonly #sendable = new WeakMap<Charges, SendableCharges>();

  constructor(parent: Parent, clock: Clock, lost: (error: unknown) => undefined) {
    this.#parent = parent;
    this.#clock = clock;
    this.#lost = lost;
  }

  async admit(charges: Charges, expected: Parameters<Limiter['admit']>[1]): Promise<Admission> {
    const admission = await this.#parent.call('limiter.admit', this.#toSend(charges), expected);
    if (admission === undefined) return undefined;
    if (admission.isAdmitted) {
      const { reserved, reservation } = admission;
      return {
        isAdmitted: true,
        reserved,
        settle: (used) => this.#parent.call('limiter.settle', reservation, used).catch(this.#lost),
      };
    }
    if (!('budgetIndex' in admission)) return admission;
    const { budgetIndex, ...refusal } = admission;
    const budget = charges.budgets?.[budgetIndex];
    if (budget === undefined) throw new Error('The parent process refused by a budget that was not sent.');
    return { ...refusal, budget };
  }

  #toSend(charges: Charges): SentCharges {
    const { budgets } = charges;
    if (budgets === undefined) return { requests: charges.requests, tokens: charges.tokens, budgets };
    const now = this.#clock.now();
    const known = this.#sendable.get(charges);
    if (known !== undefined && now < known.until) return known.sent;
    let until = Infinity;
    const sent: SentCharges = {
      requests: charges.requests,
      tokens: charges.tokens,
      budgets: budgets.map(({ period, ...budget }) => {
        const { start, end } = period(now);
        until = Math.min(until, end ?? Infinity);
        return { ...budget, start, end };
      }),
    };
    this.#sendable.set(charges, { sent, until });
    return sent;
  }
}

/** Groups of functions of readers and writers. */
const groups = [
  'organisations',
  'workspaces',
  'apiKeys',
  'users',
  'members',
  'invites',
  'groupMappings',
  'settings',
  'records',
  'audit',
] as const satisfies readonly (keyof ResourcesWriter)[];

/**
 * The relational store of the parent. A view or a transaction is open there while `work` runs here, for at most 30
 * seconds. The parent has the directory read changes at once: there are no notifications here.
 */
export function createParentResources(parent: Parent): Resources {
  const within = async <T>(
    organisationId: string | undefined,
    work: (target: never) => Promise<T>,
  ): Promise<T> => {
    const session = await parent.call('resources.begin', organisationId);
    let result: T;
    try {
      result = await work(remoteTarget(parent, session) as never);
    } catch (error) {
      await parent.call('resources.end', session, false).catch(() => undefined);
      throw error;
    }
    await parent.call('resources.end', session, true);
    return result;
  };
  return {
    read: (work: (reader: ResourcesReader) => Promise<never>) => within(undefined, work),
    write: (organisationId, work: (writer: ResourcesWriter) => Promise<never>) =>
      within(organisationId, work),
    changes: () => parent.call('resources.changes'),
    onChange: () => () => undefined,
    ping: () => parent.call('resources.ping'),
    close: () => Promise.resolve(),
  };
}

/** Passes every function on by its name. */
function remoteTarget(parent: Parent, session: number): object {
  const group = (name: string): object =>
    new Proxy(
      {},
      {
        get: (_, member) =>
          typeof member === 'string'
            ? (...args: unknown[]) => parent.call('resources.ask', session, `${name}.${member}`, args)
            : undefined,
      },
    );
  return {
    ...Object.fromEntries(groups.map((name) => [name, group(name)])),
    marks: (...args: unknown[]) => parent.call('resources.ask', session, 'marks', args),
  };
}
