import { existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { PgliteChildOptions } from './pglite-child.ts';
import { DataFolderInUse, dataFolderHolder } from './data-lock.ts';
import { diskFault } from './disk-fault.ts';
import { privateFolders } from './own-folder.ts';
import { ChildStartError, SupervisedChild } from './supervised-child.ts';

/** Data folder of the embedded relational engine. */
interface PgliteOptions {
  readonly directory: string;
  readonly log: Log;
  readonly clock: Clock;
  /** Time limit of a start, milliseconds. Default 300,000: the first one creates the database. */
  readonly startTimeoutMs?: number | undefined;
  /** Wait for a folder that another process holds, milliseconds. Default 6,000. */
  readonly patienceMs?: number;
}

/** A running embedded engine with PostgreSQL's protocol on a Unix socket. It has one shared session. */
export interface EmbeddedPglite {
  /** The folder of the socket, which is named `.s.PGSQL.5432` as clients expect. */
  readonly socketFolder: string;
  /** Number of process restarts. */
  readonly restarts: number;
  /** Reason why its process is not running, and time of the next start; undefined while it runs. */
  readonly trouble: string | undefined;
  /** The current process; undefined between two. */
  readonly pid: number | undefined;
  /** Kills an unresponsive process; another one replaces it. Committed rows stay. */
  replace(): void;
  /** Ends the process cleanly and releases the folder. */
  close(): Promise<void>;
}

const folderPatienceMs = 6000;
/** As clients expect it. */
const socketName = '.s.PGSQL.5432';

/**
 * Starts the embedded relational engine (PGlite) in a process of its own and keeps it running. Resolves when it
 * answers. Throws one sentence with the remedy when the folder is in use by another process, or cannot be opened.
 */
export async function startPglite(options: PgliteOptions): Promise<EmbeddedPglite> {
  const { directory, log, clock, startTimeoutMs, patienceMs = folderPatienceMs } = options;
  const isNew = !existsSync(join(directory, 'PG_VERSION'));
  const place = await privateFolders.socket(directory, socketName);
  const child: PgliteChildOptions = { directory, socket: join(place.path, socketName) };
  const entry = new URL('./pglite-child.ts', import.meta.url);
  const name = 'resources engine';
  // Memory freed by the compiler of the engine's code returns to the system only from one heap, in mappings of its own
  // from 32 KiB on: 50 MiB less than by default.
  const environment = {
    MALLOC_ARENA_MAX: '1',
    MALLOC_MMAP_THRESHOLD_: '32768',
    MALLOC_TRIM_THRESHOLD_: '65536',
  };
  const supervised = new SupervisedChild({
    name,
    entry,
    options: child,
    environment,
    log,
    clock,
    ...(startTimeoutMs !== undefined && { startTimeoutMs }),
  });
  try {
    await waitUntilFree(directory, clock, patienceMs);
    await supervised.start();
  } catch (error) {
    await place.remove();
    throw error instanceof ChildStartError ? await explained(directory, error, isNew) : error;
  }
  return {
    socketFolder: place.path,
    get restarts() {
      return supervised.restarts;
    },
    get trouble() {
      return supervised.trouble;
    },
    get pid() {
      return supervised.pid;
    },
    replace: () => supervised.kill(),
    async close() {
      await supervised.stop();
      await place.remove();
    },
  };
}

/** The engine of a killed gateway needs a moment to notice and to release the folder. */
async function waitUntilFree(directory: string, clock: Clock, patienceMs: number): Promise<void> {
  const deadline = clock.monotonic() + patienceMs;
  for (;;) {
    const holder = await dataFolderHolder(directory);
    // The engine's process watches one that cannot be seen when it takes the folder.
    if (holder === undefined || !holder.certain) return;
    if (clock.monotonic() >= deadline) throw new DataFolderInUse(directory, holder);
    await delay(100);
  }
}

async function explained(directory: string, error: ChildStartError, isNew: boolean): Promise<Error> {
  const cause = { cause: error };
  if (error.reason === 'busy') return new Error(error.message, cause);
  const disk = await diskFault(directory);
  // The next start would take the unfinished files of a first one for a damaged database.
  if (isNew) await removeHalfMade(directory);
  const failure = `the embedded resources engine could not open ${directory}`;
  if (disk !== undefined) return new Error(`${failure}: ${disk}`, cause);
  const said = firstLine(error.message);
  return isNew
    ? new Error(
        `${failure}: the database could not be made (the engine says: ${said}). Try again, or let storage.resources.url name a PostgreSQL server instead`,
        cause,
      )
    : new Error(
        `${failure}: the database in it is damaged (the engine says: ${said}). Move the data folder away and put a backup in its place with "weir restore FILE" (docs/backup.md)`,
        cause,
      );
}

async function removeHalfMade(directory: string): Promise<void> {
  const names = await readdir(directory).catch(() => []);
  for (const name of names.filter((one) => one !== '.run'))
    await rm(join(directory, name), { recursive: true, force: true }).catch(() => undefined);
}

/** The engine's advice is for its developers. */
function firstLine(text: string): string {
  const line = (text.split('\n', 1)[0] as string).replace(/ Build with -sASSERTIONS for more info\.*/, '');
  return line.replace(/\.+$/, '').slice(0, 300);
}
