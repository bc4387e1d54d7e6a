import { createHash } from 'node:crypto';
import { sql } from 'drizzle-orm';
import type { Database } from '../../storage/postgres/database.ts';
import { median } from './cpu.ts';
import { atStore, directoryOf, identityOf, startOnStore } from './analytics/seeded-store.ts';
import { readMemory } from './streams.ts';
import { removeFolder, type WeirSubject } from './subject.ts';
import { benchKey } from './workload.ts';

/** Cost of many service keys in the embedded store. */
interface KeyFigures {
  readonly keys: number;
  /** CPU of finding a key by the hash of its secret, each time another one. */
  readonly lookup_us: number;
  /** Living objects and buffers of the gateway's process, for each key. */
  readonly bytes_per_key: number;
  /** From starting the process until it listens, on a store that was opened before; without keys, and with them. */
  readonly start_seconds_without: number;
  readonly start_seconds: number;
  /** A page of 100 keys over HTTP: the first, one in the middle, and the last. */
  readonly list_ms: number;
  readonly list_middle_ms: number;
  readonly list_last_ms: number;
  /** Changes of keys over HTTP, each with its audit row, several under way at once. */
  readonly audited_writes_per_second: number;
}

/** Changes under way at once. */
const callers = 8;
const secretOf = (number: number): string => `wk_bench_key_${number}`;

/** 100,000 keys (10,000 when `quick`) of 100 workspaces. */
export async function measureKeys(quick: boolean): Promise<KeyFigures> {
  const keys = quick ? 10_000 : 100_000;
  const first = await startOnStore();
  const { folder, dataFolder } = first.weir;
  try {
    await first.weir.stop();
    const without = await startOnStore(folder);
    const emptyBytes = await livingBytes(without.weir);
    await without.weir.stop();
    const lookup = await atStore(dataFolder, async (database) => {
      await seed(database, dataFolder, keys);
      return measureLookup(database, dataFolder, keys);
    });
    const full = await startOnStore(folder);
    try {
      return {
        keys,
        lookup_us: lookup,
        bytes_per_key: ((await livingBytes(full.weir)) - emptyBytes) / keys,
        start_seconds_without: without.seconds,
        start_seconds: full.seconds,
        list_ms: await listMs(full.weir, 0),
        list_middle_ms: await listMs(full.weir, keys / 200),
        list_last_ms: await listMs(full.weir, keys / 100 - 1),
        audited_writes_per_second: await writesPerSecond(full.weir, quick ? 200 : 1000),
      };
    } finally {
      await full.weir.stop();
    }
  } finally {
    await removeFolder(folder);
  }
}

async function livingBytes({ child }: WeirSubject): Promise<number> {
  const { heapUsed, external } = await readMemory(child);
  return heapUsed + external;
}

/** Statement by statement over the API it would take many minutes. */
async function seed(database: Database, data: string, keys: number): Promise<void> {
  const { organisation_id: organisation } = await identityOf(data);
  for (let from = 0; from < keys; from += 10_000) {
    const numbers = sql`generate_series(${from}::int, ${Math.min(from + 10_000, keys) - 1}::int) AS number`;
    await database.query((statements) =>
      statements.execute(sql`
        INSERT INTO api_keys (id, organisation_id, workspace_id, user_id, name, description, type, status, scopes,
          rate_limits, defaults, alert_emails, masked, creation_mode, created_at, updated_at, version, change,
          secret_hash)
        SELECT md5('id' || number)::uuid::text, ${organisation}::text, md5('workspace' || number % 100)::uuid::text,
          '', 'key of team ' || number, '', 'workspace-service', 'active', ARRAY['completions.write', 'logs.view'],
          '[]', '{}', ARRAY[]::text[], 'wk_be…' || number % 100, 'api',
          now() + number * interval '1 ms', now(), 1, 1,
          encode(sha256(convert_to('wk_bench_key_' || number, 'UTF8')), 'base64')
        FROM ${numbers}`),
    );
  }
  await database.query((statements) => statements.execute(sql`ANALYZE`));
  // As a gateway does a minute after its start, and once a day.
  await database.query((statements) => statements.execute(sql`VACUUM (ANALYZE) api_keys`));
}

async function measureLookup(database: Database, data: string, keys: number): Promise<number> {
  const directory = directoryOf(database, await identityOf(data));
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

async function listMs(weir: WeirSubject, page: number): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < 30; round += 1) {
    const from = performance.now();
    await call(weir, `/v1/api-keys?current_page=${page}&page_size=100`);
    times.push(performance.now() - from);
  }
  return median(times);
}

async function writesPerSecond(weir: WeirSubject, writes: number): Promise<number> {
  const { data } = (await call(weir, '/v1/api-keys?page_size=100')) as { data: readonly { id: string }[] };
  let next = 0;
  const caller = async (): Promise<void> => {
    for (let number = next++; number < writes; number = next++) {
      const body = JSON.stringify({ description: `change ${number}` });
      await call(weir, `/v1/api-keys/${data[number % data.length]?.id}`, { method: 'PUT', body });
    }
  };
  const from = performance.now();
  await Promise.all(Array.from({ length: callers }, caller));
  return writes / ((performance.now() - from) / 1000);
}

/** The answer of the administration API as JSON. */
async function call({ port }: WeirSubject, target: string, options: RequestInit = {}): Promise<unknown> {
  const headers = { 'x-service-api-key': benchKey, 'content-type': 'application/json' };
  const answer = await fetch(`http://127.0.0.1:${port}${target}`, { ...options, headers });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${target} answered ${answer.status}: ${text}`);
  return JSON.parse(text);
}
