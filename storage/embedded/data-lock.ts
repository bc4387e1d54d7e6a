import { randomBytes, randomInt } from 'node:crypto';
import { mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../core/ports/clock.ts';
import { processIdentity } from './process-identity.ts';
import { runtimeFolder } from './runtime-folder.ts';

/** Thrown by `lockData` when another process (or another part of this one) uses the folder. */
export class DataFolderInUse extends Error {
  readonly directory: string;
  readonly pid: number;

  constructor(directory: string, pid: number) {
    super(
      `the data folder ${directory} is in use by process ${pid}: stop that process, or give this one a data folder of its own`,
    );
    this.name = 'DataFolderInUse';
    this.directory = directory;
    this.pid = pid;
  }
}

/** A data folder that is ours alone until `release`, or until this process ends, however it ends. */
export interface DataLock {
  release(): Promise<void>;
}

const attempts = 40;
const refreshMs = 60 * 60 * 1000;
const holding = 'held';

/**
 * Takes the folder for this process; take it before anything in the folder is opened. Throws `DataFolderInUse`.
 *
 * Everybody who wants the folder puts a file named after itself (process id, start time, a random word) beside the
 * others and only then looks at them: of two, at least one sees the other. A file whose process is gone can be
 * removed by anybody, because its name never comes back, so a `kill -9` leaves nothing that must be cleaned up and
 * two starts cannot both break the same stale lock. Files are never renamed: a listing may miss one that is.
 * The lock covers the processes of one user on one machine, and not other containers that share the folder.
 */
export async function lockData(directory: string, options: { clock: Clock }): Promise<DataLock> {
  const folder = join(await runtimeFolder(directory), 'lock');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const identity = (await processIdentity(process.pid)) ?? 'unknown';
  const own = join(folder, `${process.pid}_${identity}_${randomBytes(8).toString('hex')}`);
  let rival = 0;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const others = await standBesideOthers(folder, own);
    if (others.length === 0) return keep(own, options.clock);
    const holder = others.find((other) => other.holds);
    if (holder !== undefined) throw new DataFolderInUse(directory, holder.pid);
    rival = others[0]?.pid ?? 0;
    // Two that arrived together both stepped back; chance decides who comes first next time.
    await delay(randomInt(5, 60));
  }
  throw new DataFolderInUse(directory, rival);
}

/** The process that holds a folder now, or undefined when nobody does. Takes nothing; the folder must exist. */
export async function dataFolderHolder(directory: string): Promise<number | undefined> {
  const folder = join(await runtimeFolder(directory), 'lock');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return (await livingOthers(folder, '')).find((other) => other.holds)?.pid;
}

/** Puts our file down and names the living others. Alone, the file stays and says that we hold the folder. */
async function standBesideOthers(folder: string, own: string): Promise<Other[]> {
  try {
    await writeFile(own, '', { flag: 'wx', mode: 0o600 });
    const others = await livingOthers(folder, own);
    if (others.length === 0) await writeFile(own, holding);
    else await rm(own, { force: true });
    return others;
  } catch (error) {
    await rm(own, { force: true });
    throw error;
  }
}

interface Other {
  readonly pid: number;
  readonly holds: boolean;
}

async function livingOthers(folder: string, own: string): Promise<Other[]> {
  const living: Other[] = [];
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const [pid, identity] = name.split('_');
    if (path === own || pid === undefined) continue;
    const found = await processIdentity(Number(pid));
    const alive =
      found !== undefined && (found === identity || found === 'unknown' || identity === 'unknown');
    if (!alive) await rm(path, { force: true });
    else {
      const content = await readFile(path, 'utf8').catch(() => undefined);
      if (content !== undefined) living.push({ pid: Number(pid), holds: content === holding });
    }
  }
  return living;
}

/** Programs that tidy up temporary folders go by age, so the file is kept young. */
function keep(own: string, clock: Clock): DataLock {
  let released = false;
  let cancel = clock.after(refreshMs, refresh);

  function refresh(): void {
    const now = new Date(clock.now());
    utimes(own, now, now)
      .catch(() => writeFile(own, holding, { mode: 0o600 }))
      .catch(() => undefined)
      .finally(() => {
        if (released) void rm(own, { force: true });
        else cancel = clock.after(refreshMs, refresh);
      });
  }

  return {
    async release() {
      released = true;
      cancel();
      await rm(own, { force: true });
    },
  };
}
