/** The worker's side: stores that live in its parent. */
import type { Budgets, UsageLedger } from '../../core/ports/budgets.ts';
import type { Cache, VectorIndex } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Counters, Limiter } from '../../core/ports/counters.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import type { Resources, ResourcesReader, ResourcesWriter } from '../../core/ports/resources.ts';
import type { Remote } from './channel.ts';
import { Leases } from './leases.ts';
import type { ParentCalls } from './parent-calls.ts';

type Parent = Remote<ParentCalls>;

/** Options of `createParentStores`. */
interface ParentStoresOptions {
  readonly parent: Parent;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Larger values stay out of the cache. */
  readonly maxValueBytes: number;
  /** As of `Leases`. */
  readonly minRequests?: number | undefined;
}

/** Counters, limits and cached answers of the parent: exact over all workers. */
interface ParentStores {
  readonly counters: Counters;
  readonly limiter: Limiter;
  /** The parts of limits that this worker holds. */
  readonly leases: Pick<Leases, 'recall' | 'report' | 'close'>;
  /** Workers tell of crossings only: routes that show usage run in the parent. */
  readonly budgets: Budgets;
  readonly ledger: UsageLedger;
  readonly cache: Cache;
  readonly vectors: VectorIndex;
}

export function createParentStores(options: ParentStoresOptions): ParentStores {
  const { parent, clock, log, metrics, maxValueBytes, minRequests } = options;
  const lost = (error: unknown): undefined => void log.debug('The parent process did not answer', { error });
  const leases = new Leases({ parent, clock, metrics, lost, minRequests });
  const { counters, limiter } = leases;
  return {
    counters,
    limiter,
    leases,
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
