import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createLog } from '../../../adapters/telemetry/line-log.ts';
import { createMetrics } from '../../../adapters/telemetry/prometheus.ts';
import { loadConfig } from '../../../core/config/load-config.ts';
import { UndoStack } from '../../../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../../../core/ports/analytics.ts';
import { systemClock as clock } from '../../../core/ports/clock.ts';
import type { Journal } from '../../../core/ports/journal.ts';
import { openAnalytics, type AnalyticsOptions } from '../../../main/open-analytics.ts';
import { openJournal } from '../../../storage/journal/journal.ts';
import { residentBytes } from '../../../tests/kit/processes.ts';
import { fill } from '../../seed-demo/fill.ts';
import { openDemoStore, type DemoStore } from '../../seed-demo/open-store.ts';
import { showProgress } from '../../seed-demo/progress.ts';
import { benchConfig } from '../subject.ts';
import { benchKey } from '../workload.ts';

/** A seeded store on disk. */
export interface SeededStore {
  /** Holds the configuration and the data folder; `isKept` when the bench did not make it. */
  readonly folder: string;
  readonly isKept: boolean;
  readonly data: string;
  readonly organisationId: string;
  readonly workspaceId: string;
  /** Of the month of rows, milliseconds since the epoch. */
  readonly end: number;
  readonly rows: number;
  readonly seed_rows_per_second: number | undefined;
}

const dayMs = 86_400_000;
const monthDays = 30;
const write = (line: string): void => void process.stderr.write(line);

/** For the bench: the whole log is kept, a month and a thin year before it. */
export function analyticsConfig(upstreamPort: number): string {
  return `${benchConfig(upstreamPort)}
retention: { logs_days: 500, bodies_days: 500, metrics_days: 500 }
`;
}

/**
 * The store in the folder that `WEIR_BENCH_STORE` names, or in one of its own, with `rows` rows in a month and a tenth
 * of that in the eleven months before; missing rows are added.
 */
export async function seededStore(rows: number): Promise<SeededStore> {
  const named = process.env['WEIR_BENCH_STORE'];
  const folder = path.resolve(named ?? (await mkdtemp(path.join(os.tmpdir(), 'weir-bench-'))));
  const data = path.join(folder, 'data');
  await mkdir(folder, { recursive: true });
  const file = path.join(folder, 'gateway.config.yaml');
  await writeFile(file, analyticsConfig(0));
  const opened = undoStack();
  try {
    const { client, home, memoryBytes } = await openTables(folder, data, opened);
    const common = { bodies: 0.01, seed: 1, home, memoryBytes };
    const today = Math.floor(clock.now() / dayMs) * dayMs;
    const from = clock.monotonic();
    const month = { ...common, rows, days: monthDays, end: today };
    const done = await fill(
      client,
      month,
      showProgress(process.stderr, () => clock.monotonic()),
    );
    const seconds = (clock.monotonic() - from) / 1000;
    const year = { rows: Math.round(rows / 10), days: 335, end: done.end - monthDays * dayMs };
    await fill(
      client,
      { ...common, ...year },
      showProgress(process.stderr, () => clock.monotonic()),
    );
    return {
      folder,
      data,
      ...home,
      end: done.end,
      rows,
      isKept: named !== undefined,
      seed_rows_per_second: done.own === 0 ? undefined : done.own / seconds,
    };
  } finally {
    await opened.dispose();
  }
}

/** The store as a gateway opens it, behind its gate; `engineMemory` is the resident memory of its process, in bytes. */
export async function openSeeded({ folder, data }: Pick<SeededStore, 'folder' | 'data'>): Promise<{
  readonly analytics: Analytics;
  readonly engineMemory: () => Promise<number>;
  /** CPU time of its process so far, microseconds. Linux only. */
  readonly engineCpu: () => Promise<number>;
  close(): Promise<void>;
}> {
  const file = path.join(folder, 'gateway.config.yaml');
  const config = await configOf(file);
  const opened = undoStack();
  let pid: number | undefined;
  const started: AnalyticsOptions['started'] = (engine) => void (pid = engine.pid);
  const options = { config, file, data, log, clock, opened, metrics: createMetrics() };
  const analytics = await openAnalytics({ ...options, started });
  return {
    analytics,
    engineMemory: () => residentBytes(pid ?? 0),
    engineCpu: () => cpuMicroseconds(`/proc/${pid ?? 0}/stat`),
    close: () => opened.dispose(),
  };
}

/**
 * Counts an organisation's rows in the tables themselves, with no gateway's code in between; also their different ids,
 * so that a duplicate row shows as a difference of the two.
 */
export async function storedOf({ folder, data }: SeededStore, organisationId: string): Promise<StoredCounts> {
  const opened = undoStack();
  try {
    const { client } = await openTables(folder, data, opened);
    const of = async (table: 'requests' | 'bodies'): Promise<{ rows: number; ids: number }> => {
      const query = `SELECT toFloat64(count()) AS rows, toFloat64(uniqExact(id)) AS ids FROM ${table} WHERE organisation_id = {organisationId:String}`;
      const answer = await client.query({ query, query_params: { organisationId }, format: 'JSONEachRow' });
      const [counts] = await answer.json<{ rows: number; ids: number }>();
      if (counts === undefined) throw new Error(`No count of ${table}.`);
      return counts;
    };
    return { requests: await of('requests'), bodies: await of('bodies') };
  } finally {
    await opened.dispose();
  }
}

/** A journal with the gateway's own intervals that ships into the store. */
export function openBenchJournal(directory: string, analytics: Analytics): Promise<Journal> {
  const insert: Analytics['insert'] = (table, rows, token) => analytics.insert(table, rows, token);
  return openJournal({ directory, insert, clock, log, flushMs: 20, shipMs: 1000, maxBytes: 2 ** 31 });
}

/** CPU time that a `stat` file of Linux names, microseconds, to 10 ms. */
export async function cpuMicroseconds(statFile: string): Promise<number> {
  const text = await readFile(statFile, 'utf8');
  const [user = 0, system = 0] = text.slice(text.lastIndexOf(')')).split(' ').slice(12, 14).map(Number);
  return (user + system) * 10_000;
}

/** Rows and different ids of each table. */
export type StoredCounts = Record<'requests' | 'bodies', { readonly rows: number; readonly ids: number }>;

async function openTables(folder: string, data: string, opened: UndoStack): Promise<DemoStore> {
  const file = path.join(folder, 'gateway.config.yaml');
  return openDemoStore({
    config: await configOf(file),
    file,
    data,
    log,
    clock,
    opened,
    environment: { WEIR_ADMIN_KEY: benchKey },
  });
}

/** Measures five times a second until it is stopped, which returns the largest. */
export function watchMemory(look: () => Promise<number>): () => number {
  let most = 0;
  const timer = setInterval(() => {
    void look().then((bytes) => (most = Math.max(most, bytes)));
  }, 200);
  return () => {
    clearInterval(timer);
    return most;
  };
}

const log = createLog({ level: 'warn', format: 'text', write, clock });

function undoStack(): UndoStack {
  return new UndoStack({ clock, timeoutMs: 60_000, onError: (error) => write(`${String(error)}\n`) });
}

async function configOf(file: string) {
  const loaded = await loadConfig(file, { env: {} });
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  return loaded.config;
}
