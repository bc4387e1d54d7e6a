import { readdir, readFile } from 'node:fs/promises';
import { createClient } from '@clickhouse/client';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import { startChdb } from '../../storage/embedded/start-chdb.ts';

/** Ids of the complete request rows that lie in the segments of a journal below this folder. */
export async function journalIds(folder: string): Promise<string[]> {
  const files = (await readdir(folder, { recursive: true })).filter((name) =>
    path.basename(name).startsWith('requests'),
  );
  const texts = await Promise.all(
    files.map((name) => readFile(path.join(folder, name), 'utf8').catch(() => '')),
  );
  return texts.flatMap((text) =>
    text
      .split('\n')
      .slice(0, -1)
      .flatMap((line) => /"id":"([0-9a-f-]{36})"/.exec(line)?.[1] ?? []),
  );
}

/** Resolves when the journal of the data folder has shipped every row of a request, or after a minute. */
export async function untilShipped(dataFolder: string): Promise<void> {
  const journal = path.join(dataFolder, 'journal');
  for (let tries = 0; tries < 240 && (await journalIds(journal)).length > 0; tries++) await pause(250);
}

/** The analytics store that a stopped gateway left in its data folder. */
interface StoredRows {
  select<T>(query: string): Promise<readonly T[]>;
  close(): Promise<void>;
}

/** Opens it; the gateway must have ended. */
export async function openStoredRows(dataFolder: string): Promise<StoredRows> {
  const log = createLog({
    level: 'warn',
    format: 'text',
    write: (line) => process.stderr.write(line),
    clock,
  });
  const engine = await startChdb({ directory: path.join(dataFolder, 'analytics'), log, clock });
  const client = createClient({
    url: engine.url,
    username: engine.username,
    password: engine.password,
    database: 'weir',
  });
  return {
    select: async <T>(query: string) => (await client.query({ query, format: 'JSONEachRow' })).json<T>(),
    async close() {
      await client.close();
      await engine.close();
    },
  };
}
