import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client';
import type { GatewayConfig } from '../../core/config/schema.ts';
import type { UndoStack } from '../../core/lifecycle/undo-stack.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { isServer, rulesOf, startEngine } from '../../main/open-analytics.ts';
import { createAnalytics, type ClickHouseOptions } from '../../storage/clickhouse/create-analytics.ts';
import { serverOptions } from '../../storage/clickhouse/open-server.ts';
import { lockData } from '../../storage/embedded/data-lock.ts';
import { memoryBudget } from '../../storage/embedded/memory-budget.ts';
import { openIdentity } from '../../storage/identity/open-identity.ts';
import type { Home } from './population.ts';

/** Options of opening a store for a demo. */
interface DemoStoreOptions {
  readonly config: GatewayConfig;
  /** The configuration's file: relative paths in it start from its folder. */
  readonly file: string;
  /** The data folder, absolute; created when missing. */
  readonly data: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  readonly clock: Clock;
  readonly opened: UndoStack;
}

/** A store with an up-to-date schema, and the organisation and workspace of the data folder. */
export interface DemoStore {
  readonly client: ClickHouseClient;
  readonly home: Home;
  /** The owner key of a newly created data folder. */
  readonly newOwnerKey: string | undefined;
  /** Memory limit of one statement; undefined on a server. */
  readonly memoryBytes: number | undefined;
}

const requestTimeoutMs = 600_000;

/**
 * Opens the analytics store of the configuration; resources to close are added to `opened`. Throws one sentence with
 * the remedy, such as `DataFolderInUse` while a gateway runs on the embedded store.
 */
export async function openDemoStore(options: DemoStoreOptions): Promise<DemoStore> {
  const { config, file, data, environment, log, clock, opened } = options;
  const { analytics } = config.storage;
  if (analytics.url === 'none:')
    throw new Error('There is no analytics store: storage.analytics.url is "none:". Name one there.');
  if (isServer(config) && analytics.sharded)
    throw new Error(
      'The rows of a demo are made in one place, and storage.analytics.sharded spreads them: leave it out of the configuration for a demo.',
    );
  await mkdir(data, { recursive: true });
  // A server accepts several processes, and its gateway may run; the embedded engine accepts one.
  if (!isServer(config) || !existsSync(path.join(data, 'identity.json'))) {
    const lock = await lockData(data, { clock });
    opened.push(() => lock.release());
  }
  const identity = await openIdentity(data, {
    presetKey: environment['WEIR_ADMIN_KEY'],
    ownerEmail: environment['WEIR_OWNER_EMAIL'],
    keyPrefix: config.security.key_prefix,
  });
  const { defaultOrganisationId: organisationId, defaultWorkspaceId: workspaceId } = identity.directory;
  const place = isServer(config)
    ? await serverOptions(analytics, path.dirname(file))
    : await engineOptions(options);
  // Migrates the schema, with the retention of the configuration.
  const store = await createAnalytics({ ...place, ...rulesOf(config), log });
  await store.close();
  const client = connect(place);
  opened.push(() => client.close());
  const { max_memory_bytes: processBytes } = analytics;
  return {
    client,
    home: { organisationId, workspaceId },
    newOwnerKey: identity.newOwnerKey,
    memoryBytes: isServer(config) ? undefined : memoryBudget(processBytes, 1).insert,
  };
}

async function engineOptions(options: DemoStoreOptions): Promise<Omit<ClickHouseOptions, 'log'>> {
  const engine = await startEngine(options);
  options.opened.push(() => engine.close());
  const { url, username, password } = engine;
  return { url, username, password };
}

function connect({
  url,
  username,
  password,
  database = 'weir',
  certificateAuthority,
}: Omit<ClickHouseOptions, 'log'>): ClickHouseClient {
  return createClient({
    url,
    username,
    password,
    database,
    application: 'weir-demo',
    request_timeout: requestTimeoutMs,
    ...(certificateAuthority !== undefined && { tls: { ca_cert: certificateAuthority } }),
    // Its log lines quote statements; its errors carry everything needed.
    log: { level: ClickHouseLogLevel.OFF },
  });
}
