/** Relational databases for tests: the embedded engine in its child process, or a real server. */
import type { Clock } from '../../core/ports/clock.ts';
import { startPglite } from '../../storage/embedded/start-pglite.ts';
import type { Database } from '../../storage/postgres/database.ts';
import type { Migration } from '../../storage/postgres/migrate.ts';
import { openDatabase, type DatabaseOptions } from '../../storage/postgres/open-database.ts';
import { postgresPlace } from '../../storage/postgres/postgres-address.ts';
import { recordingLog, temporaryFolder, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { copyEmptyStore, copyMigratedStore } from './made-stores.ts';
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
  return kind === 'server' ? startServer() : startEmbedded(copyEmptyStore);
}

async function startEmbedded(fill: (directory: string) => Promise<void>): Promise<TestEngine> {
  const folder = await temporaryFolder();
  await fill(folder.path);
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
  const { kind = 'embedded', migrations, clock = testClock } = options;
  const isMade = kind === 'embedded' && migrations === undefined;
  const engine = await (isMade ? startEmbedded(copyMigratedStore) : startEngine(kind));
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
