import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock as clock } from '../../../core/ports/clock.ts';
import { removeFolder } from '../subject.ts';
import { rowMaker } from './ingest.ts';
import { analyticsConfig, openBenchJournal, openSeeded } from './store.ts';

/** The engine's own cost at one rate of rows. */
interface RowCost {
  /** False: without the index of the search of bodies. */
  readonly text_index: boolean;
  readonly rows_per_second: number;
  readonly rows: number;
  /** CPU of the engine's process per row with its body, merges and roll-ups included, microseconds. */
  readonly engine_us_per_row: number;
  readonly bound_us: number;
}

/** Merges of what was stored go on for a while. */
const mergesMs = 10_000;
const turnMs = 20;
const rates = [
  { rate: 1000, bound: 150 },
  { rate: 5000, bound: 80 },
];

/** Rows with bodies of 2 KB at one rate after the other, each into an empty embedded store, through a real journal. */
export async function measureRowCost(quick: boolean): Promise<readonly RowCost[]> {
  const costs: RowCost[] = [];
  for (const text_index of [true, false])
    for (const { rate, bound } of rates)
      costs.push({ text_index, ...(await costAt(rate, quick ? 30 : 120, text_index)), bound_us: bound });
  return costs;
}

async function costAt(
  rate: number,
  seconds: number,
  textIndex: boolean,
): Promise<Omit<RowCost, 'bound_us' | 'text_index'>> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'weir-bench-'));
  const data = path.join(folder, 'data');
  const directory = path.join(data, 'journal', 'bench');
  await mkdir(directory, { recursive: true });
  const storage = `storage: { analytics: { text_index: ${textIndex} } }\n`;
  await writeFile(path.join(folder, 'gateway.config.yaml'), analyticsConfig(0) + storage);
  const { analytics, engineCpu, close } = await openSeeded({ folder, data });
  try {
    const journal = await openBenchJournal(directory, analytics);
    const made = rowMaker(`bench-${randomUUID()}`);
    const before = await engineCpu();
    const from = clock.monotonic();
    let rows = 0;
    while (rows < rate * seconds) {
      const due = Math.min(rate * seconds, ((clock.monotonic() - from) / 1000) * rate);
      for (; rows < due; rows += 1) {
        const { request, body } = made(rows);
        journal.append('requests', request);
        journal.append('bodies', body);
      }
      await pause(turnMs);
    }
    if (!(await journal.settle(120_000))) throw new Error(`The journal did not settle: ${journal.lastError}`);
    await pause(mergesMs);
    const cpu = (await engineCpu()) - before;
    await journal.close(5000);
    return { rows_per_second: rate, rows, engine_us_per_row: cpu / rows };
  } finally {
    await close();
    await removeFolder(folder);
  }
}
