import fs from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { systemClock } from '../../core/ports/clock.ts';
import { ChildCannotStart, runAsChild } from './child-side.ts';
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
  engine = await PGlite.create({ fs: new DurableFiles(directory), startParams: [...engineParameters] });
  // This process holds the lock, so this is a remnant of a killed engine.
  await rm(socket, { force: true });
  server = new PGLiteSocketServer({ db: engine, path: socket, maxConnections });
  await server.start();
  // In the background: until then a power cut only loses a database without data.
  if (isNew) void syncTree(directory).catch(() => undefined);
}

runAsChild<PgliteChildOptions>({
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
});
