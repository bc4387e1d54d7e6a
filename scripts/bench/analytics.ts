import { measureBeside, type BesideFigures } from './analytics/beside.ts';
import { ingest, type IngestFigures } from './analytics/ingest.ts';
import { askAll, type QueryFigures } from './analytics/queries.ts';
import { openSeeded, seededStore, watchMemory } from './analytics/store.ts';
import { removeFolder } from './subject.ts';

/** Figures of logs and analytics on an embedded store with many rows. */
interface AnalyticsFigures {
  readonly rows: number;
  readonly seed_rows_per_second: number | undefined;
  readonly queries: readonly QueryFigures[];
  readonly ingest: IngestFigures;
  readonly beside: BesideFigures;
  /** The most that the engine's process took, in every part of the bench. */
  readonly engine_mib: number;
}

/**
 * Ten million rows in a month, a tenth of it in the year before (a twentieth of both when `quick`): questions, then
 * storing, then requests beside questions. The store stays when `WEIR_BENCH_STORE` names its folder.
 */
export async function measureAnalytics(quick: boolean): Promise<AnalyticsFigures> {
  const rows = quick ? 500_000 : 10_000_000;
  const store = await seededStore(rows);
  try {
    const { analytics, engineMemory, close } = await openSeeded(store);
    const peak = watchMemory(engineMemory);
    const queries = await askAll(analytics, store, quick ? 5 : 20);
    const asking = peak() / 2 ** 20;
    await close();
    const stored = await ingest(store, quick ? 10 : 60);
    const beside = await measureBeside(store, quick);
    const engine = Math.max(asking, stored.engine_mib, beside.engine_mib);
    const { seed_rows_per_second } = store;
    return { rows, seed_rows_per_second, queries, beside, ingest: stored, engine_mib: engine };
  } finally {
    if (!store.isKept) await removeFolder(store.folder);
  }
}

/** Prints the figures; `verdict` compares one with its bound. */
export function printAnalytics(
  {
    rows,
    seed_rows_per_second: seeded,
    queries,
    ingest: stored,
    beside,
    engine_mib: engine,
  }: AnalyticsFigures,
  verdict: (name: string, value: number, bound: number) => void,
): void {
  const speed = seeded === undefined ? 'seeded before' : `seeded at ${seeded.toFixed(0)} rows/s`;
  console.log(`\nlogs and analytics, embedded store with ${rows} rows, ${speed}:`);
  for (const { name, clients, asked, median_ms, p99_ms, ...bounds } of queries) {
    const at = `${asked} × by ${clients} client${clients === 1 ? '' : 's'}`;
    verdict(`ms for ${name}, median (${at})`, median_ms, bounds.bound_median_ms);
    if (bounds.bound_p99_ms === undefined) console.log(`     p99 ${p99_ms.toFixed(0)}`);
    else verdict(`ms for ${name}, p99`, p99_ms, bounds.bound_p99_ms);
  }
  const refused = queries.reduce((sum, one) => sum + one.refused, 0);
  verdict('queries that found no place within ten seconds', refused, 0);
  verdict('µs a row at 10,000 rows/s or more, bodies of 2 KB, roll-ups', 1e6 / stored.rows_per_second, 100);
  console.log(`     rows stored per second: ${stored.rows_per_second.toFixed(0)}`);
  verdict('µs CPU of the thread that accepts them, per row with its body', stored.cpu_us_per_row, 12);
  for (const [table, { rows: all, ids }] of Object.entries(stored.stored)) {
    verdict(`accepted rows that ${table} lacks`, Math.abs(stored.accepted - ids), 0);
    verdict(`rows that ${table} has twice`, Math.abs(all - ids), 0);
  }
  console.log(
    `     at ${beside.requests_per_second} requests/s: p99 ${beside.idle_p99_ms.toFixed(2)} ms alone, ${beside.beside_p99_ms.toFixed(2)} ms beside ${beside.queries} queries`,
  );
  verdict('p99 beside a stream of queries / alone', beside.ratio, 1.5);
  verdict('MiB of the engine’s process at the most', engine, 1024);
}
