/** Log rows where they are: in the journal's segments and in the embedded store. */
import { createClient } from '@clickhouse/client';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { recordingLog, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { startChdb } from '../../storage/embedded/start-chdb.ts';
import type { Home } from './gateway-process.ts';

/** The tables that log rows go to. */
export const tables = ['requests', 'bodies'] as const;
type Table = (typeof tables)[number];

/** Ids of the complete lines in the journal's segments of a table. */
export async function journalIds({ data }: Pick<Home, 'data'>, table: Table): Promise<string[]> {
  const folder = path.join(data, 'journal');
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

/** Resolves when the journal has shipped every row, or after a minute. */
export async function untilShipped(home: Pick<Home, 'data'>): Promise<void> {
  for (let tries = 0; tries < 240; tries++) {
    const waiting = await Promise.all(tables.map((table) => journalIds(home, table)));
    if (waiting.flat().length === 0) return;
    await pause(250);
  }
}

/** How often each id stands in the tables of the store. No other process may have the folder open. */
export function storedCopies(home: Pick<Home, 'data'>): Promise<Record<Table, Map<string, number>>> {
  return withStore(home.data, async (rowsOf) => {
    const copies = async (table: Table): Promise<Map<string, number>> => {
      const query = `SELECT toString(id) AS id, toUInt32(count()) AS copies FROM ${table} GROUP BY id`;
      const rows = await rowsOf<{ id: string; copies: number }>(query);
      return new Map(rows.map((row) => [row.id, row.copies]));
    };
    return { requests: await copies('requests'), bodies: await copies('bodies') };
  });
}

/** Opens the embedded store of a data folder and asks it. No other process may have the folder open. */
export async function withStore<Result>(
  data: string,
  ask: (rowsOf: <Row>(query: string) => Promise<Row[]>) => Promise<Result>,
): Promise<Result> {
  const directory = path.join(data, 'analytics');
  const engine = await startChdb({ directory, log: recordingLog(), clock: testClock });
  const { url, username, password } = engine;
  const client = createClient({ url, username, password, database: 'weir' });
  try {
    return await ask(async <Row>(query: string) => {
      const result = await client.query({ query, format: 'JSONEachRow' });
      return result.json<Row>();
    });
  } finally {
    await client.close();
    await engine.close();
  }
}
