// Composition root: all stores, opened in order of need.
import path from 'node:path';
import type { Features } from '../core/access/features.ts';
import type { ConfigSource } from '../core/config/config-source.ts';
import type { GatewayConfig } from '../core/config/schema.ts';
import {
  directoryWithFile,
  fileRecordsOnly,
} from '../core/administration/directory/file-records-directory.ts';
import { FileRecordsInUse, warnOfTwins } from '../core/administration/directory/file-records-in-use.ts';
import { withFileRecords } from '../core/administration/directory/file-records-resources.ts';
import { createDirectory, type LiveDirectory } from '../core/administration/directory/live-directory.ts';
import type { Dependency } from '../core/http/dependencies.ts';
import { reportJournal } from '../core/http/journal-metrics.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../core/ports/analytics.ts';
import type { Cache, VectorIndex } from '../core/ports/cache.ts';
import type { Clock } from '../core/ports/clock.ts';
import { type Budgets, resettingBy, type UsageLedger } from '../core/ports/budgets.ts';
import type { Counters, Limiter } from '../core/ports/counters.ts';
import type { Directory, DirectorySnapshots } from '../core/ports/directory.ts';
import type { LogExports } from '../core/ports/exports.ts';
import type { Journal } from '../core/ports/journal.ts';
import type { Log } from '../core/ports/log.ts';
import type { Metrics } from '../core/ports/metrics.ts';
import type { Resources } from '../core/ports/resources.ts';
import type { SecretBox } from '../core/ports/secret-managers.ts';
import { keepSnapshots } from '../storage/identity/directory-snapshot.ts';
import type { Identity, JoinedIds } from '../storage/identity/open-identity.ts';
import { openJournal } from '../storage/journal/journal.ts';
import { journalStatus } from '../storage/journal/status-file.ts';
import { createMemoryCache } from '../storage/memory/cache.ts';
import { createMemoryCounters } from '../storage/memory/counters.ts';
import { createMemoryLimiter } from '../storage/memory/limiter.ts';
import { createMemoryVectorIndex } from '../storage/memory/vector-index.ts';
import type { Database } from '../storage/postgres/database.ts';
import { createResources } from '../storage/postgres/resources.ts';
import { createUsageLedger } from '../storage/postgres/usage-ledger.ts';
import { Loans } from '../storage/parent/loans.ts';
import { openSharedStores } from '../storage/redis/open-shared-stores.ts';
import type { Jobs } from '../core/ports/jobs.ts';
import { type OpenedAlerts, openJobs } from './open-jobs.ts';
import { openAnalytics } from './open-analytics.ts';
import { ledgers, openBudgets } from './open-budgets.ts';
import { openResources } from './open-resources.ts';
import { sql } from 'drizzle-orm';
import { ensureDefaultRecords } from '../core/administration/directory/default-records.ts';
import { defaultWorkspaceSlug } from '../core/organisation/organisation-block.ts';
import { GatewayError } from '../core/errors/gateway-error.ts';
import { restartExitCode } from '../core/lifecycle/process-guards.ts';

/** Options of `openStores`. */
interface StoresOptions {
  readonly config: Pick<
    GatewayConfig,
    | 'storage'
    | 'security'
    | 'retention'
    | 'exports'
    | 'alerts'
    | 'organisation'
    | 'configs'
    | 'providers'
    | 'pipelines'
  >;
  readonly source: ConfigSource;
  /** The configuration's file: relative paths in it start from its folder. */
  readonly file: string;
  /** The data folder, absolute; this process holds its lock. */
  readonly data: string;
  /** Organisation and owner known without a store. */
  readonly identity: Identity;
  readonly features: Features;
  /** Seals secrets of the configuration's integrations. */
  readonly secrets: SecretBox;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly opened: UndoStack;
  /** Number of worker processes, each with a journal of its own. Default 0. */
  readonly workers?: number | undefined;
  /** Runs after each write of `resources`, which waits for it. Default: nothing. */
  readonly afterWrite?: (() => Promise<void>) | undefined;
}

/** The open stores, and their state for the operators' pages. */
export interface Stores {
  /** The identity in use: a new gateway may have joined the organisation of its store. */
  readonly identity: Identity;
  readonly analytics: Analytics;
  readonly journal: Journal;
  readonly counters: Counters;
  readonly limiter: Limiter;
  /** Limits in memory, of which workers borrow parts. */
  readonly loans: Loans;
  readonly budgets: Budgets;
  readonly cache: Cache;
  readonly vectors: VectorIndex;
  /** Undefined when `storage.resources` is `none:`. */
  readonly resources: Resources | undefined;
  /** `resources` without the records that the configuration owns. */
  readonly stored: Resources | undefined;
  /** Keeps the use of budgets. Undefined when a server of shared counters does. */
  readonly ledger: UsageLedger | undefined;
  /** Records owned by the configuration, for reading; undefined beside `resources`. */
  readonly owned: Pick<Resources, 'read'> | undefined;
  readonly directory: Directory;
  /** Records of `resources` and `directory` that the configuration owns: they follow the active configuration. */
  readonly fileRecords: FileRecordsInUse;
  /** Logs as files; undefined when `storage.resources` is `none:`. */
  readonly exports: LogExports | undefined;
  /** Undefined when `storage.resources` is `none:`. They follow the active configuration. */
  readonly alerts: Pick<OpenedAlerts, 'use'> | undefined;
  /** Jobs that this process has run; undefined where it runs none. */
  readonly jobs: Pick<Jobs, 'runs'> | undefined;
  readonly dependencies: readonly Dependency[];
  /** Synchronisation state of `directory` with its store; undefined without a store. */
  readonly following: Pick<LiveDirectory, 'refresh' | 'unready' | 'status' | 'limitAge'> | undefined;
}

/** Opens every configured store; resources to close are added to `opened`. Throws one sentence with the remedy. */
export async function openStores(options: StoresOptions): Promise<Stores> {
  const { config, data, log, clock, metrics, opened } = options;
  // Both new embedded engines take seconds to start: in parallel.
  const engines: Engines = {};
  const [analytics, administration] = await Promise.all([
    openAnalytics({ ...options, started: (engine) => (engines.analytics = engine) }),
    openAdministration(options, (engine) => (engines.resources = engine)),
  ]);
  const journal = await openLogRows(options, analytics, {
    directory: path.join(data, 'journal'),
    shares: 1 + (options.workers ?? 0),
    status: journalStatus.file(data),
  });
  const { max_bytes: maxBytes, max_value_bytes: maxValueBytes } = config.storage.cache;
  const { identity, resources, stored, owned, directory, fileRecords, following, ledger } = administration;
  const { exports, alerts, jobs, ...ofJobs } = await openJobs(options, {
    resources,
    ledger,
    directory,
    analytics,
  });
  const reader = resources ?? owned;
  const ownBudgets = await openBudgets({ ...options, ledger, alerts, analytics, journal, resources: reader });
  const ownCounters = createMemoryCounters({ clock, log });
  opened.push(() => ownCounters.close());
  const ownLimiter = createMemoryLimiter({ counters: ownCounters, budgets: ownBudgets });
  const loans = new Loans({ windows: ownCounters, budgets: ownBudgets, limiter: ownLimiter, clock });
  const shared = await openSharedStores({
    storage: config.storage,
    log,
    clock,
    metrics,
    counters: ownCounters,
    limiter: ownLimiter,
    budgets: ownBudgets,
    hasLedger: ledger !== undefined,
    cache: createMemoryCache({ clock, maxBytes, maxValueBytes }),
    vectors: createMemoryVectorIndex({ clock }),
  });
  opened.push(() => shared.close());
  const { cache, vectors } = shared;
  const { counters, limiter, budgets } =
    config.storage.counters.url === 'memory:' && (options.workers ?? 0) > 0
      ? {
          counters: loans,
          limiter: loans,
          budgets: resettingBy(ownBudgets, (...budget) => loans.reset(...budget)),
        }
      : shared;
  const dependencies: Dependency[] = [
    { name: 'analytics', check: checkOf(() => engines.analytics, analytics) },
    { name: 'journal', check: () => checkJournal(journal) },
    ...shared.dependencies,
    ...ofJobs.dependencies,
  ];
  if (resources !== undefined)
    dependencies.push({ name: 'resources', check: checkOf(() => engines.resources, resources) });
  const administered = { resources, stored, owned, ledger, directory, fileRecords, exports, alerts, jobs };
  return {
    identity,
    analytics,
    journal,
    counters,
    limiter,
    loans,
    budgets,
    cache,
    vectors,
    ...administered,
    dependencies,
    following,
  };
}

/** The embedded engines of this gateway, if any. */
interface Engines {
  analytics?: Engine;
  resources?: Engine;
}

interface Engine {
  /** Reason why it is not running, and time of the next start. */
  readonly trouble: string | undefined;
}

/** While a store's engine is not running, its reason is reported; a ping would only report a missing answer. */
function checkOf(engine: () => Engine | undefined, store: Pick<Resources, 'ping'>): Dependency['check'] {
  return async () => {
    const trouble = engine()?.trouble;
    if (trouble !== undefined) throw new Error(trouble);
    await store.ping();
  };
}

/** Dependencies of a journal. Without `metrics` it reports none. */
type JournalParts = Pick<StoresOptions, 'config' | 'log' | 'clock' | 'opened'> &
  Partial<Pick<StoresOptions, 'metrics'>>;

/** Place of a journal, and its part of the disk bound. */
interface JournalPlace {
  readonly directory: string;
  /** Number of journals that share `storage.journal.max_bytes`. */
  readonly shares: number;
  /** File for `weir journal status`; undefined for none. */
  readonly status?: string | undefined;
}

/** Opens a journal of this gateway; it is closed with `opened`. */
export async function openLogRows(
  { config, log, clock, metrics, opened }: JournalParts,
  analytics: Pick<Analytics, 'insert'>,
  { directory, shares, status }: JournalPlace,
): Promise<Journal> {
  const { flush_ms: flushMs, ship_ms: shipMs, max_bytes: maxBytes } = config.storage.journal;
  const { when_full: whenFull, block_ms: blockMs, sync, sync_ms: syncMs } = config.storage.journal;
  const { min_free_bytes: minFreeBytes, max_age_hours: maxAgeHours } = config.storage.journal;
  const journal = await openJournal({
    directory,
    insert:
      config.storage.analytics.url === 'none:'
        ? undefined
        : (table, rows, token) => analytics.insert(table, rows, token),
    clock,
    log,
    flushMs,
    shipMs,
    maxBytes: maxBytes === undefined ? undefined : Math.floor(maxBytes / shares),
    whenFull,
    blockMs,
    sync,
    syncMs,
    minFreeBytes,
    maxAgeMs: maxAgeHours * 3_600_000,
  });
  const tellLast =
    status === undefined ? undefined : journalStatus.keep({ file: status, journal, clock, log });
  opened.push(async () => {
    await journal.close(5000);
    await tellLast?.();
  });
  if (metrics !== undefined) reportJournal(metrics, journal);
  return journal;
}

async function checkJournal(journal: Journal): Promise<void> {
  if (journal.lastError !== undefined) throw new Error(journal.lastError);
}

/** Without a store, the configuration and the data folder alone decide which requests are authorised. */
async function openAdministration(
  options: StoresOptions,
  started: (engine: Engine) => void,
): Promise<
  Pick<
    Stores,
    'identity' | 'resources' | 'stored' | 'owned' | 'directory' | 'fileRecords' | 'following' | 'ledger'
  >
> {
  const { data, secrets, log, clock } = options;
  const database = await openResources({ ...options, started, serves: true, isNew: options.identity.isNew });
  const opening = database && { ...options, database, store: createResources({ database, clock, log }) };
  const { identity, joinLater: prepareStore } = opening
    ? await joinOrganisation(opening)
    : { identity: options.identity };
  if (opening === undefined) await identity.keepOwn();
  const { directory: base } = identity;
  const { defaultOrganisationId, defaultWorkspaceId } = base;
  const place = { defaultOrganisationId, defaultWorkspaceId, secrets };
  const fileRecords = new FileRecordsInUse(options, place, clock);
  const { current } = fileRecords;
  if (opening === undefined) {
    const directory = directoryWithFile(base, current);
    const owned = fileRecordsOnly(current, place);
    return {
      identity,
      resources: undefined,
      stored: undefined,
      owned,
      directory,
      fileRecords,
      following: undefined,
      ledger: await ledgers.openOwn(options),
    };
  }
  const { store } = opening;
  // The embedded store is in the same folder as a snapshot would be, and no other process changes its content.
  const isShared = !opening.database.embedded;
  const followed = await followStore(options, {
    identity,
    store: options.afterWrite === undefined ? store : writtenThen(store, options.afterWrite),
    fileRecords,
    isShared,
    prepareStore,
    snapshots: isShared
      ? keepSnapshots({ data, organisationId: defaultOrganisationId, secrets, log })
      : undefined,
  });
  fileRecords.onChange((records) => void warnOfTwins(store, records, log));
  return { identity, fileRecords, ledger: createUsageLedger(opening.database), ...followed };
}

/** The same store, whose writes wait for `afterWrite`. */
function writtenThen(store: Resources, afterWrite: () => Promise<void>): Resources {
  return {
    ...store,
    write: async (organisationId, work) => {
      const result = await store.write(organisationId, work);
      await afterWrite();
      return result;
    },
  };
}

/** Dependencies of `followStore`. */
interface FollowedStore extends Pick<Stores, 'fileRecords'> {
  readonly identity: Pick<Identity, 'directory' | 'owner'>;
  readonly store: Resources;
  /** True for a store that other gateways change too. */
  readonly isShared: boolean;
  readonly prepareStore?: (() => Promise<void>) | undefined;
  readonly snapshots?: DirectorySnapshots | undefined;
}

/** Starts the directory over a store; it is closed with `opened`. */
export async function followStore(
  {
    config,
    clock,
    log,
    metrics,
    opened,
  }: Pick<StoresOptions, 'config' | 'clock' | 'log' | 'metrics' | 'opened'>,
  { identity, store, fileRecords, isShared, prepareStore, snapshots }: FollowedStore,
): Promise<Pick<Stores, 'resources' | 'stored' | 'owned' | 'directory' | 'following'>> {
  const directory = createDirectory({
    base: identity.directory,
    owner: identity.owner,
    resources: store,
    clock,
    log,
    metrics,
    ...(prepareStore && { prepareStore }),
    ...(isShared && { snapshots, maxAgeMs: config.security.directory_max_age * 1000 }),
  });
  opened.push(() => directory.close());
  await directory.start();
  const { current } = fileRecords;
  return {
    resources: withFileRecords(directory.resources, current),
    stored: directory.resources,
    owned: undefined,
    directory: directoryWithFile(directory, current),
    following: {
      refresh: () => directory.refresh(),
      unready: () => directory.unready(),
      status: () => directory.status(),
      limitAge: (maxAgeMs) => {
        if (isShared) directory.limitAge(maxAgeMs);
      },
    },
  };
}

// Composition root: a new gateway on a server whose store already has an organisation.

/** Options of joining. */
interface JoinParts {
  readonly identity: Identity;
  readonly database: Database;
  /** Resources in the database. */
  readonly store: Resources;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Advisory lock: of all gateways that start for the first time on one server, one at a time looks for an organisation
 * and creates a missing one.
 */
const lockNumber = '7310579625114302';
const owners = { offset: 0, limit: 100 };

/** The initial identity of a gateway. */
interface Joining {
  readonly identity: Identity;
  /** Undefined when the store has answered. Otherwise to be called when it does: see `joinOrganisation`. */
  readonly joinLater: (() => Promise<void>) | undefined;
}

/**
 * The identity that a gateway serves with: a new data folder joins the single organisation of its store, like replicas
 * on one server, or a gateway after an import; otherwise the gateway keeps its own. While the server is unavailable the
 * gateway serves with its own; when the server answers and has an organisation, the gateway joins that and ends with
 * the exit code for a restart, before anything is written to the store.
 */
async function joinOrganisation(parts: JoinParts): Promise<Joining> {
  const { identity } = parts;
  if (!identity.isNew) return { identity, joinLater: undefined };
  try {
    return { identity: await joinedIdentity(parts), joinLater: undefined };
  } catch (error) {
    if (!GatewayError.is(error) || error.code !== 'store_unavailable') throw error;
    return { identity, joinLater: joinLater(parts) };
  }
}

/** Joins once the store answers. The directory calls it repeatedly: a second signal would interrupt running work. */
function joinLater(parts: JoinParts): () => Promise<void> {
  let isEnding = false;
  return async () => {
    // Before that, a signal would end the process without closing open resources.
    if (process.listenerCount('SIGTERM') === 0)
      throw new GatewayError('store_unavailable', 'The gateway is still starting.');
    if (!isEnding && (await joinedIdentity(parts)) === parts.identity) return;
    if (!isEnding) {
      isEnding = true;
      parts.log.error(
        'The store has an organisation, which this new data folder joins: the gateway ends, and its next start serves it',
      );
      process.exitCode = restartExitCode;
      process.kill(process.pid, 'SIGTERM');
    }
    throw new GatewayError(
      'store_unavailable',
      'The gateway starts again, to join the organisation of its store.',
    );
  };
}

/** Rejects with `store_unavailable` while the server is unavailable. */
async function joinedIdentity(parts: JoinParts): Promise<Identity> {
  const { identity, database, log } = parts;
  // The embedded engine serves one process, on one connection.
  const found = database.embedded
    ? await organisationToJoin(parts)
    : await database.transaction(async (statements) => {
        await statements.execute(sql`select pg_advisory_xact_lock(${sql.raw(lockNumber)})`);
        return organisationToJoin(parts);
      });
  if (found === undefined) {
    await identity.keepOwn();
    return identity;
  }
  const joined = await identity.join(found);
  log.info('This gateway joins the organisation of its store', { organisation_id: found.organisationId });
  return joined;
}

/** Undefined when there is none, or more than one; when there is none, this gateway's own is created. */
async function organisationToJoin({
  identity,
  store,
  clock,
  log,
}: JoinParts): Promise<JoinedIds | undefined> {
  const [only, ...others] = await store.read(({ organisations }) => organisations.list());
  if (only === undefined) {
    await ensureDefaultRecords(store, { base: identity.directory, owner: identity.owner, clock, log });
    return undefined;
  }
  if (others.length > 0) return undefined;
  return store.read(async ({ workspaces, users }) => {
    const workspace = await workspaces.find(only.id, defaultWorkspaceSlug);
    const { data } = await users.list(only.id, {}, owners);
    const owner =
      (await users.byEmail(only.id, identity.owner.email)) ?? data.find(({ role }) => role === 'owner');
    if (workspace === undefined || owner === undefined) return undefined;
    return { organisationId: only.id, workspaceId: workspace.id, ownerId: owner.id, ownerEmail: owner.email };
  });
}
