/** Relational databases for tests: the embedded engine in its child process, or a real server. */
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../core/ports/clock.ts';
import { startPglite } from '../../storage/embedded/start-pglite.ts';
import type { Database } from '../../storage/postgres/database.ts';
import type { Migration } from '../../storage/postgres/migrate.ts';
import { openDatabase, type DatabaseOptions } from '../../storage/postgres/open-database.ts';
import { postgresPlace } from '../../storage/postgres/postgres-address.ts';
import { recordingLog, temporaryFolder, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { startPostgres } from './postgres-server.ts';
import { eventually } from './process-kit.ts';

/** Which engine a suite runs on. `server` only where `postgresMissing` is false. */
export type EngineKind = 'embedded' | 'server';

/** A running engine with an empty database. */
export interface TestEngine {
  readonly kind: EngineKind;
  readonly place: DatabaseOptions['place'];
  /** What the engine's supervisor logged. */
  readonly lines: readonly string[];
  /** Ends it with SIGKILL and waits until it runs again, with what was committed. */
  crash(): Promise<void>;
  /** Makes it hang: it takes statements and answers nothing. */
  pause(): void;
  resume(): void;
  close(): Promise<void>;
}

/** Starts an engine of its own; takes seconds, so once per file is best. */
export function startEngine(kind: EngineKind): Promise<TestEngine> {
  return kind === 'server' ? startServer() : startEmbedded();
}

async function startEmbedded(): Promise<TestEngine> {
  const folder = await temporaryFolder();
  await cp(await emptyDatabase(), folder.path, { recursive: true });
  const log = recordingLog();
  const engine = await startPglite({ directory: folder.path, log, clock: testClock });
  const signal = (name: NodeJS.Signals): void => void process.kill(engine.pid as number, name);
  return {
    kind: 'embedded',
    place: engine,
    lines: log.lines,
    async crash() {
      const { restarts } = engine;
      signal('SIGKILL');
      await eventually(
        () => (engine.restarts > restarts ? true : undefined),
        () => 'the engine to run again',
      );
    },
    pause: () => signal('SIGSTOP'),
    resume: () => signal('SIGCONT'),
    async close() {
      await engine.close();
      await folder.remove();
    },
  };
}

/** A folder with an empty database of the embedded engine: making one takes seconds, copying it a moment. */
function emptyDatabase(): Promise<string> {
  return (madeDatabase ??= makeDatabase());
}

let madeDatabase: Promise<string> | undefined;

async function makeDatabase(): Promise<string> {
  const modules = fileURLToPath(new URL('../../node_modules/', import.meta.url));
  const manifest = path.join(modules, '@electric-sql', 'pglite', 'package.json');
  const { version } = JSON.parse(await readFile(manifest, 'utf8')) as { version: string };
  const kept = path.join(modules, '.weir', `empty-database-${version}`);
  if (existsSync(kept)) return kept;
  await mkdir(path.dirname(kept), { recursive: true });
  const directory = await mkdtemp(`${kept}-`);
  await (await startPglite({ directory, log: recordingLog(), clock: testClock })).close();
  // Another process may have been faster.
  await rename(directory, kept).catch(() => rm(directory, { recursive: true, force: true }));
  return kept;
}

async function startServer(): Promise<TestEngine> {
  const server = await startPostgres();
  return {
    kind: 'server',
    place: await postgresPlace({ url: server.url }, '/'),
    lines: [],
    async crash() {
      await server.kill();
      await server.start();
    },
    pause: () => server.pause(),
    resume: () => server.resume(),
    close: () => server.stop(),
  };
}

/** What `openTestDatabase` hands the closing of the database to: a test, or `{ after }` of a suite. */
export interface Closing {
  after(close: () => Promise<void>): void;
}

/** A migrated database on an engine of its own, which end with the test. */
export async function openTestDatabase(
  closing: Closing,
  options: {
    readonly kind?: EngineKind;
    readonly migrations?: readonly Migration[];
    readonly clock?: Clock;
  } = {},
): Promise<Database> {
  const engine = await startEngine(options.kind ?? 'embedded');
  const { migrations, clock = testClock } = options;
  const database = await openDatabase({
    place: engine.place,
    log: recordingLog(),
    clock,
    ...(migrations !== undefined && { migrations }),
  });
  closing.after(async () => {
    await database.close();
    await engine.close();
  });
  return database;
}
