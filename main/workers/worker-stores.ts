// Composition root: the stores of a worker. Its journal is its own; a Redis server is called from here; everything else
// is in the parent.
import path from 'node:path';
import type { Features } from '../../core/access/features.ts';
import {
  directoryWithFile,
  fileRecordsOnly,
} from '../../core/administration/directory/file-records-directory.ts';
import { FileRecordsInUse } from '../../core/administration/directory/file-records-in-use.ts';
import type { ConfigSource } from '../../core/config/config-source.ts';
import type { GatewayConfig } from '../../core/config/schema.ts';
import type { UndoStack } from '../../core/lifecycle/undo-stack.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import type { SecretBox } from '../../core/ports/secret-managers.ts';
import { keepSnapshots } from '../../storage/identity/directory-snapshot.ts';
import { readIdentity } from '../../storage/identity/open-identity.ts';
import { createBudgets } from '../../storage/memory/budgets.ts';
import { createMemoryCounters } from '../../storage/memory/counters.ts';
import { createMemoryLimiter } from '../../storage/memory/limiter.ts';
import { createNoAnalytics } from '../../storage/none/no-analytics.ts';
import type { Remote } from '../../storage/parent/channel.ts';
import { createParentResources, createParentStores } from '../../storage/parent/parent-stores.ts';
import { openSharedStores } from '../../storage/redis/open-shared-stores.ts';
import { isServer, openAnalytics } from '../open-analytics.ts';
import { followStore, openLogRows, type Stores } from '../open-stores.ts';
import type { CallsOfParent } from './worker-calls.ts';

/** Options of `openWorkerStores`. */
interface WorkerStoresOptions {
  readonly parent: Remote<CallsOfParent>;
  /** The configuration's file. */
  readonly file: string;
  readonly config: GatewayConfig;
  readonly source: ConfigSource;
  /** The data folder, absolute; the parent holds its lock. */
  readonly data: string;
  /** The worker's own folder; this process holds its lock. */
  readonly folder: string;
  /** Number of journals of this gateway. */
  readonly journals: number;
  readonly features: Features;
  readonly secrets: SecretBox;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly opened: UndoStack;
}

interface WorkerStores extends Omit<Stores, 'identity' | 'loans'> {
  /** What this worker has borrowed of the limits of its parent. */
  readonly leases: ReturnType<typeof createParentStores>['leases'];
}

/** Opens the stores of a worker; resources to close are added to `opened`. */
export async function openWorkerStores(options: WorkerStoresOptions): Promise<WorkerStores> {
  const { parent, config, folder, journals, opened } = options;
  const [counts, administration] = await Promise.all([openCounts(options), openAdministration(options)]);
  // A server takes the rows from here; the embedded engine reads them from the disk, when the parent tells it to.
  const store = isServer(config)
    ? await openAnalytics(options)
    : {
        insert: (...rows: Parameters<Stores['analytics']['insert']>) =>
          parent.call('analytics.insert', ...rows),
      };
  const journal = await openLogRows({ ...options, opened }, store, {
    directory: path.join(folder, 'journal'),
    shares: journals,
  });
  return {
    ...counts,
    ...administration,
    journal,
    // Routes that query logs run in the parent.
    analytics: createNoAnalytics(),
    exports: undefined,
    alerts: undefined,
  };
}

/** In memory, all counts are the parent's; on a server, this process is one of its clients. */
async function openCounts({
  parent,
  config,
  features,
  clock,
  log,
  metrics,
  opened,
}: WorkerStoresOptions): Promise<
  Pick<
    WorkerStores,
    'counters' | 'limiter' | 'leases' | 'budgets' | 'ledger' | 'cache' | 'vectors' | 'dependencies'
  >
> {
  const { max_value_bytes: maxValueBytes } = config.storage.cache;
  const own = createParentStores({ parent, clock, log, metrics, maxValueBytes });
  opened.push(() => own.leases.close());
  const isInMemory = config.storage.counters.url === 'memory:';
  const counters = createMemoryCounters({ clock, log });
  opened.push(() => counters.close());
  const ledger = config.storage.resources.url === 'none:' ? undefined : own.ledger;
  const budgets = createBudgets({ clock, log, ledger, enforces: features.isOn('usage_limits') });
  if (!isInMemory) {
    await budgets.start();
    opened.push(async () => void (await budgets.close()));
  }
  const shared = await openSharedStores({
    ...{ storage: config.storage, log, clock, metrics, counters, budgets },
    limiter: createMemoryLimiter({ counters, budgets }),
    hasLedger: ledger !== undefined,
    cache: own.cache,
    vectors: own.vectors,
  });
  opened.push(() => shared.close());
  const { cache, vectors, dependencies } = shared;
  const { counters: inUse, limiter, budgets: told } = isInMemory ? own : shared;
  const { leases } = own;
  return { counters: inUse, limiter, leases, budgets: told, ledger, cache, vectors, dependencies };
}

async function openAdministration(
  options: WorkerStoresOptions,
): Promise<Pick<WorkerStores, 'resources' | 'stored' | 'owned' | 'directory' | 'fileRecords' | 'following'>> {
  const { parent, config, data, secrets, log, clock } = options;
  const identity = await readIdentity(data, process.env['WEIR_OWNER_EMAIL']);
  const { defaultOrganisationId: organisationId, defaultWorkspaceId } = identity.directory;
  const place = { defaultOrganisationId: organisationId, defaultWorkspaceId, secrets };
  const fileRecords = new FileRecordsInUse(options, place, clock);
  const { current } = fileRecords;
  if (config.storage.resources.url === 'none:')
    return {
      resources: undefined,
      stored: undefined,
      owned: fileRecordsOnly(current, place),
      directory: directoryWithFile(identity.directory, current),
      fileRecords,
      following: undefined,
    };
  const isShared = !config.storage.resources.url.startsWith('pglite:');
  const kept = isShared ? keepSnapshots({ data, organisationId, secrets, log }) : undefined;
  const followed = await followStore(options, {
    identity,
    store: createParentResources(parent),
    fileRecords,
    isShared,
    // The parent writes them.
    snapshots: kept && {
      read: () => kept.read(),
      write: () => Promise.resolve(),
      confirm: () => Promise.resolve(),
    },
  });
  return { ...followed, fileRecords };
}
