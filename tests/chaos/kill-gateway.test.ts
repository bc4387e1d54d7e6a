import { createClient } from '@clickhouse/client';
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { chdbMissing, recordingLog, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { startChdb } from '../../storage/embedded/start-chdb.ts';
import { makeHome, startGateway, type GatewayProcess, type Home } from '../kit/gateway-process.ts';
import { eventually, stopEverything } from '../kit/process-kit.ts';

// Each round is killed at another time, so that it hits rows that are only on disk, on their way, or just stored.
const killedAfterMs = [900, 1450];
const clients = 8;
const requestsPerClient = 1000;

const configuration = `version: 1
storage: { journal: { ship_ms: 400 } }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, provider, logger: { bodies: true }]
`;

after(stopEverything);

const tables = ['requests', 'bodies'] as const;
type Table = (typeof tables)[number];

/** Ids of the complete lines in the journal's segments of a table. */
async function journalIds(home: Home, table: Table): Promise<string[]> {
  const folder = path.join(home.data, 'journal');
  const files = (await readdir(folder)).filter((file) => file.startsWith(`${table}-`));
  // A segment that was shipped meanwhile is gone.
  const texts = await Promise.all(
    files.map((file) => readFile(path.join(folder, file), 'utf8').catch(() => '')),
  );
  return texts.flatMap((text) =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as { id: string }).id),
  );
}

/** Asks from several clients at once and kills the gateway when it is `ready`; resolves when all clients have noticed. */
async function requestsUntilKilled(gateway: GatewayProcess, ready: () => Promise<void>): Promise<void> {
  let killed = false;
  const client = async (): Promise<void> => {
    for (let request = 0; request < requestsPerClient && !killed; request += 1) {
      const answer = await gateway.ask().catch(() => undefined);
      if (answer?.status !== 200 && !killed) throw new Error(`it failed before the kill: ${gateway.stderr}`);
    }
  };
  const asking = Promise.all(Array.from({ length: clients }, client));
  await Promise.race([ready(), asking]);
  killed = true;
  await gateway.kill();
  await asking;
}

/** How often each id stands in the tables of the store. Nobody else may have the folder open. */
async function storedCopies(home: Home): Promise<Record<Table, Map<string, number>>> {
  const directory = path.join(home.data, 'analytics');
  const engine = await startChdb({ directory, log: recordingLog(), clock: testClock });
  const { url, username, password } = engine;
  const client = createClient({ url, username, password, database: 'weir' });
  const copies = async (table: Table): Promise<Map<string, number>> => {
    const query = `SELECT toString(id) AS id, toUInt32(count()) AS copies FROM ${table} GROUP BY id`;
    const result = await client.query({ query, format: 'JSONEachRow' });
    const rows = await result.json<{ id: string; copies: number }>();
    return new Map(rows.map((row) => [row.id, row.copies]));
  };
  try {
    return { requests: await copies('requests'), bodies: await copies('bodies') };
  } finally {
    await client.close();
    await engine.close();
  }
}

test(
  'whatever was on disk when the gateway was killed is in the store exactly once',
  { skip: chdbMissing, timeout: 90_000 },
  async (t) => {
    const home = await makeHome(configuration);
    t.after(async () => {
      await stopEverything();
      await home.remove();
    });
    const flushed = { requests: new Set<string>(), bodies: new Set<string>() };
    let gateway = await startGateway(home);
    for (const [round, killAfterMs] of killedAfterMs.entries()) {
      await requestsUntilKilled(gateway, async () => {
        await pause(killAfterMs);
        await eventually(async () => (await journalIds(home, 'bodies')).length > 0 || undefined);
      });
      for (const table of tables) {
        const ids = await journalIds(home, table);
        for (const id of ids) flushed[table].add(id);
      }
      gateway = await startGateway(home);
      await eventually(
        async () =>
          (await Promise.all(tables.map((table) => journalIds(home, table)))).flat().length === 0 ||
          undefined,
        () => `an empty journal in round ${round}; standard error: ${gateway.stderr}`,
        20_000,
      );
    }
    assert.equal(await gateway.stop(), 0, gateway.stderr);

    const stored = await storedCopies(home);
    for (const table of tables) {
      assert.ok(flushed[table].size > 0, `no ${table} were in the journal at a kill, which proves nothing`);
      const missing = [...flushed[table]].filter((id) => !stored[table].has(id));
      const doubled = [...stored[table]].filter(([, count]) => count > 1);
      assert.deepEqual(missing, [], `${missing.length} of ${flushed[table].size} ${table} are lost`);
      assert.deepEqual(doubled, [], `${doubled.length} of ${stored[table].size} ${table} are stored twice`);
    }
  },
);
