import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { createLog } from '../../../adapters/telemetry/line-log.ts';
import { createMetrics } from '../../../adapters/telemetry/prometheus.ts';
import {
  createDirectory,
  type LiveDirectory,
} from '../../../core/administration/directory/live-directory.ts';
import { withoutStore } from '../../../core/organisation/without-store.ts';
import type { Resources } from '../../../core/ports/resources.ts';
import { systemClock as clock } from '../../../core/ports/clock.ts';
import { startPglite } from '../../../storage/embedded/start-pglite.ts';
import type { Database } from '../../../storage/postgres/database.ts';
import { openDatabase } from '../../../storage/postgres/open-database.ts';
import { createResources } from '../../../storage/postgres/resources.ts';
import { startWeir, type WeirSubject } from '../subject.ts';

const config = `version: 1
log: { level: warn }
storage: { analytics: { url: "none:" } }
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - { name: gateway, match: { path: /** }, plugins: [auth, provider, logger] }
`;
const write = (line: string): void => void process.stderr.write(line);
const log = createLog({ level: 'warn', format: 'text', write, clock });

/** Starts a gateway with administration, on the folder of another one or on one of its own; how long that takes. */
export async function startOnStore(
  folder?: string,
): Promise<{ readonly weir: WeirSubject; readonly seconds: number }> {
  const from = performance.now();
  const home = folder === undefined ? {} : { folder };
  const weir = await startWeir({ upstreamPort: 0, config, memoryProbe: true, ...home });
  return { weir, seconds: (performance.now() - from) / 1000 };
}

/** Runs `work` on the embedded store of a data folder, which no gateway uses meanwhile. */
export async function atStore<T>(data: string, work: (database: Database) => Promise<T>): Promise<T> {
  const engine = await startPglite({ directory: path.join(data, 'resources'), log, clock });
  try {
    const place = { socketFolder: engine.socketFolder, replace: () => engine.replace() };
    const database = await openDatabase({ place, log, clock });
    try {
      return await work(database);
    } finally {
      await database.close();
    }
  } finally {
    await engine.close();
  }
}

/** The default organisation and workspace of a data folder. */
export interface StoredIds {
  readonly organisation_id: string;
  readonly workspace_id: string;
  readonly owner_user_id: string;
}

/** Reads them. */
export async function identityOf(data: string): Promise<StoredIds> {
  return JSON.parse(await readFile(path.join(data, 'identity.json'), 'utf8')) as StoredIds;
}

/** The store as the gateway sees it. */
export function resourcesOf(database: Database): Resources {
  return createResources({ database, clock, log });
}

/** The directory of a gateway on this store; it has not started. */
export function directoryOf(database: Database, identity: StoredIds): LiveDirectory {
  return createDirectory({
    base: {
      keyByHash: () => undefined,
      ...withoutStore,
      defaultOrganisationId: identity.organisation_id,
      defaultWorkspaceId: identity.workspace_id,
    },
    owner: { id: identity.owner_user_id, email: 'owner@localhost' },
    resources: resourcesOf(database),
    clock,
    log,
    metrics: createMetrics(),
  });
}
