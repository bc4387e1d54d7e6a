import { readdir, readFile } from 'node:fs/promises';
import { createClient } from '@clickhouse/client';
import { createLog } from '../../adapters/telemetry/line-log.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import { startChdb } from '../../storage/embedded/start-chdb.ts';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { load } from './load.ts';
import { removeFolder, startUpstream, startWeir, type WeirSubject } from './subject.ts';
import { requestBytes } from './workload.ts';

interface KillFigures {
  rounds: number;
  /** Rows that were on disk in the journal when the process was killed, over all rounds. */
  rows_flushed: number;
  missing: number;
  doubled: number;
}

/** Kills the gateway under load, restarts it on the same folder, and looks for every row that the journal had flushed. */
export async function measureKill(quick: boolean): Promise<KillFigures> {
  const rounds = quick ? 2 : 5;
  const upstream = await startUpstream();
  const figures: KillFigures = { rounds, rows_flushed: 0, missing: 0, doubled: 0 };
  let folder: string | undefined;
  try {
    for (let round = 0; round < rounds; round++) {
      const weir: WeirSubject = await startWeir({
        upstreamPort: upstream.port,
        ...(folder === undefined ? {} : { folder }),
      });
      folder = weir.folder;
      const traffic = load(weir.port, requestBytes(weir.port, false), 20_000, 16);
      await pause(700 + round * 333);
      weir.child.kill('SIGKILL');
      await traffic;
      const flushed = await journalIds(path.join(weir.dataFolder, 'journal'));
      figures.rows_flushed += flushed.length;
      const again = await startWeir({ upstreamPort: upstream.port, folder });
      const { missing, doubled } = await lookFor(again, flushed);
      figures.missing += missing;
      figures.doubled += doubled;
    }
    return figures;
  } finally {
    await upstream.stop();
    if (folder !== undefined) await removeFolder(folder);
  }
}

/** Ids of the complete request rows that lie in the journal's segments. */
async function journalIds(folder: string): Promise<string[]> {
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

/** Waits until the journal has shipped everything, stops the gateway, and asks the store itself. */
async function lookFor(
  weir: WeirSubject,
  ids: readonly string[],
): Promise<{ missing: number; doubled: number }> {
  const journal = path.join(weir.dataFolder, 'journal');
  for (let tries = 0; tries < 240 && (await journalIds(journal)).length > 0; tries++) await pause(250);
  await weir.stop();
  const log = createLog({
    level: 'warn',
    format: 'text',
    write: (line) => process.stderr.write(line),
    clock,
  });
  const engine = await startChdb({ directory: path.join(weir.dataFolder, 'analytics'), log, clock });
  const client = createClient({
    url: engine.url,
    username: engine.username,
    password: engine.password,
    database: 'weir',
  });
  try {
    const result = await client.query({
      query: 'SELECT toString(id) AS id, count() AS copies FROM requests GROUP BY id',
      format: 'JSONEachRow',
    });
    const copies = new Map(
      (await result.json<{ id: string; copies: string | number }>()).map((row) => [
        row.id,
        Number(row.copies),
      ]),
    );
    return {
      missing: ids.filter((id) => !copies.has(id)).length,
      doubled: [...copies.values()].filter((count) => count > 1).length,
    };
  } finally {
    await client.close();
    await engine.close();
  }
}
