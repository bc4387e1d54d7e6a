import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { sql } from 'drizzle-orm';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { createDirectory } from '../../core/directory/live-directory.ts';
import { systemClock as clock } from '../../core/ports/system-clock.ts';
import { startPglite } from '../../storage/embedded/start-pglite.ts';
import type { Database } from '../../storage/postgres/database.ts';
import { openDatabase } from '../../storage/postgres/open-database.ts';
import { createResources } from '../../storage/postgres/resources.ts';
import { median } from './cpu.ts';
import { readMemory } from './streams.ts';
import { removeFolder, startWeir, type WeirSubject } from './subject.ts';
import { benchKey } from './workload.ts';
import { withoutStore } from '../../core/ports/directory-without-store.ts';

/** What many service keys in the embedded store cost. */
export interface KeyFigures {
  readonly keys: number;
  /** CPU of finding a key by the hash of its secret, each time another one. */
  readonly lookup_us: number;
  /** Living objects and buffers of the gateway's process, for each key. */
  readonly bytes_per_key: number;
  /** From starting the process until it listens, on a store that was opened before; without keys, and with them. */
  readonly start_seconds_without: number;
  readonly start_seconds: number;
  /** A page of 100 keys over HTTP, the first and one far behind. */
  readonly list_ms: number;
  readonly list_far_ms: number;
}

const config = `version: 1
log: { level: warn }
storage: { analytics: { url: "none:" } }
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - { name: gateway, match: { path: /** }, plugins: [auth, provider, logger] }
`;
const write = (line: string): void => void process.stderr.write(line);
const log = createLog({ level: 'warn', format: 'text', write, clock });
const secretOf = (number: number): string => `wk_bench_key_${number}`;

/** 100,000 keys (10,000 when `quick`) of 100 workspaces. */
export async function measureKeys(quick: boolean): Promise<KeyFigures> {
  const keys = quick ? 10_000 : 100_000;
  const first = await start();
  const { folder, dataFolder } = first.weir;
  try {
    await first.weir.stop();
    const without = await start(folder);
    const emptyBytes = await livingBytes(without.weir);
    await without.weir.stop();
    const lookup = await atStore(dataFolder, async (database) => {
      await seed(database, dataFolder, keys);
      return measureLookup(database, dataFolder, keys);
    });
    const full = await start(folder);
    try {
      return {
        keys,
        lookup_us: lookup,
        bytes_per_key: ((await livingBytes(full.weir)) - emptyBytes) / keys,
        start_seconds_without: without.seconds,
        start_seconds: full.seconds,
        list_ms: await listMs(full.weir, 0),
        list_far_ms: await listMs(full.weir, keys / 100 - 1),
      };
    } finally {
      await full.weir.stop();
    }
  } finally {
    await removeFolder(folder);
  }
}

async function start(folder?: string): Promise<{ weir: WeirSubject; seconds: number }> {
  const from = performance.now();
  const home = folder === undefined ? {} : { folder };
  const weir = await startWeir({ upstreamPort: 0, config, memoryProbe: true, ...home });
  return { weir, seconds: (performance.now() - from) / 1000 };
}

async function livingBytes({ child }: WeirSubject): Promise<number> {
  const { heapUsed, external } = await readMemory(child);
  return heapUsed + external;
}

async function atStore<T>(data: string, work: (database: Database) => Promise<T>): Promise<T> {
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
async function identityOf(data: string): Promise<{ organisation_id: string; workspace_id: string }> {
  const text = await readFile(path.join(data, 'identity.json'), 'utf8');
  return JSON.parse(text) as { organisation_id: string; workspace_id: string };
}

/** Statement by statement over the API it would take many minutes. */
async function seed(database: Database, data: string, keys: number): Promise<void> {
  const { organisation_id: organisation } = await identityOf(data);
  for (let from = 0; from < keys; from += 10_000) {
    const numbers = sql`generate_series(${from}::int, ${Math.min(from + 10_000, keys) - 1}::int) AS number`;
    await database.query((statements) =>
      statements.execute(sql`
        INSERT INTO api_keys (id, organisation_id, workspace_id, user_id, name, description, type, status, scopes,
          rate_limits, defaults, alert_emails, masked, creation_mode, created_at, updated_at, version, change)
        SELECT md5('id' || number)::uuid::text, ${organisation}::text, md5('workspace' || number % 100)::uuid::text,
          '', 'key of team ' || number, '', 'workspace-service', 'active', ARRAY['completions.write', 'logs.view'],
          '[]', '{}', ARRAY[]::text[], 'wk_be…' || number % 100, 'api',
          now() + number * interval '1 ms', now(), 1, 1
        FROM ${numbers}`),
    );
    await database.query((statements) =>
      statements.execute(sql`
        INSERT INTO api_key_secrets (organisation_id, api_key_id, position, hash)
        SELECT ${organisation}::text, md5('id' || number)::uuid::text, 0,
          encode(sha256(convert_to('wk_bench_key_' || number, 'UTF8')), 'base64')
        FROM ${numbers}`),
    );
  }
  await database.query((statements) => statements.execute(sql`ANALYZE`));
}

async function measureLookup(database: Database, data: string, keys: number): Promise<number> {
  const identity = await identityOf(data);
  const directory = createDirectory({
    base: {
      keyByHash: () => undefined,
      ...withoutStore,
      defaultOrganisationId: identity.organisation_id,
      defaultWorkspaceId: identity.workspace_id,
    },
    resources: createResources({ database, clock, log }),
    ...{ clock, log, metrics: createMetrics() },
  });
  await directory.start();
  // As they come from requests: never the very text that the table holds.
  const hashes = Array.from({ length: keys }, (_, number) => sha256(secretOf((number * 7919) % keys)));
  const costs: number[] = [];
  for (let round = 0; round < 9; round += 1) {
    const before = process.cpuUsage();
    let found = 0;
    for (const hash of hashes) if (directory.keyByHash(hash) !== undefined) found += 1;
    const { user, system } = process.cpuUsage(before);
    if (found !== keys) throw new Error(`The directory knows ${found} of ${keys} keys.`);
    costs.push((user + system) / keys);
  }
  directory.close();
  return median(costs);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}

async function listMs({ port }: WeirSubject, page: number): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < 30; round += 1) {
    const from = performance.now();
    const answer = await fetch(`http://127.0.0.1:${port}/v1/api-keys?current_page=${page}&page_size=100`, {
      headers: { 'x-service-api-key': benchKey },
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`The list of keys answered ${answer.status}: ${text}`);
    times.push(performance.now() - from);
  }
  return median(times);
}
