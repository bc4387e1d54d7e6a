import fs from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isMainThread, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { startThread } from '../../core/base/start-thread.ts';
import { systemClock } from '../../core/ports/clock.ts';
import { ChildCannotStart, type ChildWork, runAsChild } from './child-side.ts';
import { DataFolderInUse, lockData, type DataLock } from './data-lock.ts';
import { DurableFiles, engineParameters, keepModesPrivate, syncTree } from './pglite-files.ts';

/** Start message of the parent. */
export interface PgliteChildOptions {
  readonly directory: string;
  /** Path of the Unix socket, in a folder that only this user can open. */
  readonly socket: string;
}

/** One is in use. The engine has one session; further connections only bridge the replacement of a lost one. */
const maxConnections = 4;

let lock: DataLock | undefined;
let engine: PGlite | undefined;
let server: PGLiteSocketServer | undefined;

async function open({ directory, socket }: PgliteChildOptions): Promise<void> {
  // Held by this process and not by its parent: the engine of a killed gateway may outlive it for a moment, and two
  // engines in one folder silently destroy each other's data.
  lock = await lockData(directory, { clock: systemClock, onLost: () => process.exit(1) });
  keepModesPrivate();
  const isNew = !fs.existsSync(join(directory, 'PG_VERSION'));
  if (isNew) await createApart(directory);
  engine = await openEngine(directory);
  // This process holds the lock, so this is a remnant of a killed engine.
  await rm(socket, { force: true });
  server = new PGLiteSocketServer({ db: engine, path: socket, maxConnections });
  await server.start();
  // In the background: until then a power cut only loses a database without data.
  if (isNew) void syncTree(directory).catch(() => undefined);
}

function openEngine(directory: string): Promise<PGlite> {
  return PGlite.create({ fs: new DurableFiles(directory), startParams: [...engineParameters] });
}

/**
 * Creates the database in a thread, whose memory ends with it: the memory of an engine that has created one is 400 MiB
 * larger for good.
 */
function createApart(directory: string): Promise<void> {
  const data: PgliteThreadData = { newDatabase: directory };
  return new Promise((resolve, reject) => {
    // By its name, which a build of the sources replaces.
    const thread = startThread(new URL('./pglite-child.ts', import.meta.url), { workerData: data });
    thread.once('error', reject);
    thread.once('exit', () => resolve());
  });
}

interface PgliteThreadData {
  readonly newDatabase: string;
}

async function createDatabase({ newDatabase }: PgliteThreadData): Promise<void> {
  keepModesPrivate();
  const engine = await openEngine(newDatabase);
  await engine.close();
}

const work: ChildWork<PgliteChildOptions> = {
  async start({ options }) {
    try {
      await open(options);
    } catch (error) {
      await lock?.release();
      throw error instanceof DataFolderInUse ? new ChildCannotStart('busy', error) : error;
    }
    return 0;
  },
  async stop() {
    await server?.stop();
    await engine?.close();
    await lock?.release();
  },
};

if (isMainThread) runAsChild(work);
else await createDatabase(workerData as PgliteThreadData);
