import fs from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { systemClock } from '../../core/ports/clock.ts';
import { ChildCannotStart, runAsChild } from './child-side.ts';
import { DataFolderInUse, lockData, type DataLock } from './data-lock.ts';
import { DurableFiles, engineParameters, keepModesPrivate, syncTree } from './pglite-files.ts';

/** What the parent says at start. */
export interface PgliteChildOptions {
  readonly directory: string;
  /** Path of the Unix socket, in a folder that only this user can open. */
  readonly socket: string;
}

/** One is in use. The engine has one session, so further ones only bridge the moments when a lost one is replaced. */
const maxConnections = 4;

let lock: DataLock | undefined;
let engine: PGlite | undefined;
let server: PGLiteSocketServer | undefined;

async function open({ directory, socket }: PgliteChildOptions): Promise<void> {
  // Held by this process and not by its parent: of a gateway that was killed the engine may live for a moment
  // longer, and two engines in one folder destroy each other's data without a word.
  lock = await lockData(directory, { clock: systemClock, onLost: () => process.exit(1) });
  keepModesPrivate();
  const isNew = !fs.existsSync(join(directory, 'PG_VERSION'));
  engine = await PGlite.create({ fs: new DurableFiles(directory), startParams: [...engineParameters] });
  // The lock is ours, so this is what a killed engine left.
  await rm(socket, { force: true });
  server = new PGLiteSocketServer({ db: engine, path: socket, maxConnections });
  await server.start();
  // Beside what is served: until then a power cut takes a database in which there is nothing yet.
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
