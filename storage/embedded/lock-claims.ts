import { randomBytes } from 'node:crypto';
import { open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, connect, type Server } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../core/ports/clock.ts';
import { ownSystem, processIdentity, type System } from './process-identity.ts';
import { socketPath } from './runtime-folder.ts';

/** A claim that cannot be proved and has not moved for so long is dead. */
export const staleMs = 10_000;

/** One process that wants or has the folder; what stands in its file. */
export interface Claim {
  readonly id: string;
  readonly holds: boolean;
  readonly pid: number;
  readonly identity: string;
  readonly host: string;
  readonly system: System;
  /** Of the folder, and of the socket that the process listens on; 0 for none. */
  readonly device: number;
  readonly socket: number;
  /** Counts up while the process lives; always as long, so that the file can be written in place. */
  readonly beat: string;
}

/** Claims of this process: their sockets need not be asked. */
const ours = new Set<string>();

/** The folder of the claims, and from where it is seen. */
export interface Place {
  readonly folder: string;
  readonly device: number;
  readonly system: System;
}

/** Throws when the folder is not there. */
export async function placeOf(folder: string): Promise<Place> {
  const [{ dev }, system] = await Promise.all([stat(folder), ownSystem()]);
  return { folder, device: dev, system };
}

/** Whether process numbers there mean the same here. */
export function isNear(theirs: System, own: System): boolean {
  return own.kernel !== '' && theirs.kernel === own.kernel && own.space !== '' && theirs.space === own.space;
}

const fileOf = (id: string): string => `${id}.claim`;
const socketOf = (id: string): string => `${id}.sock`;

/** Our own claim. */
export interface OwnClaim {
  readonly claim: Claim;
  /** Says in the file that we hold the folder; false when the file is gone. */
  hold(): Promise<boolean>;
  /** Counts up; false when the file is gone. */
  beat(): Promise<boolean>;
  isThere(): Promise<boolean>;
  /** Puts the file back where it was. */
  restore(): Promise<void>;
  remove(): Promise<void>;
  undoOnError<T>(work: () => Promise<T>): Promise<T>;
}

/** Puts down a claim of this process, which wants the folder. */
export async function put(place: Place): Promise<OwnClaim> {
  const id = randomBytes(8).toString('hex');
  const file = join(place.folder, fileOf(id));
  const listening = await listen(place.folder, socketOf(id));
  let beats = 0;
  const beat = (): string => String(beats).padStart(12, '0');
  let claim: Claim = {
    ...{ id, holds: false, pid: process.pid, host: hostname() },
    identity: (await processIdentity(process.pid)) ?? 'unknown',
    ...{ system: place.system, device: place.device, socket: listening?.inode ?? 0, beat: beat() },
  };
  /** Never makes the file: one that is gone was taken for dead. */
  const rewrite = async (next: Claim): Promise<boolean> => {
    try {
      const handle = await open(file, 'r+');
      try {
        await handle.write(textOf(next), 0);
      } finally {
        await handle.close();
      }
      claim = next;
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  };
  const mine: OwnClaim = {
    get claim() {
      return claim;
    },
    hold: () => rewrite({ ...claim, holds: true }),
    beat() {
      beats += 1;
      return rewrite({ ...claim, beat: beat() });
    },
    isThere: () =>
      stat(file)
        .then(() => true)
        .catch(() => false),
    restore: () => writeFile(file, textOf(claim), { flag: 'wx', mode: 0o600 }),
    async remove() {
      await rm(file, { force: true });
      await listening?.close();
      ours.delete(id);
    },
    async undoOnError(work) {
      try {
        return await work();
      } catch (error) {
        await mine.remove();
        throw error;
      }
    },
  };
  ours.add(id);
  await mine.undoOnError(() => mine.restore());
  return mine;
}

/** `holds` is as long either way, so that a file is always written over in full. */
function textOf(claim: Claim): string {
  return `${JSON.stringify({ ...claim, holds: claim.holds ? 'yes' : 'no ' })}\n`;
}

function readClaim(id: string, text: string): Claim {
  try {
    const value = JSON.parse(text) as Omit<Claim, 'holds'> & { readonly holds: string };
    if (value.id === id && typeof value.pid === 'number' && typeof value.system === 'object')
      return { ...value, holds: value.holds === 'yes' };
  } catch {
    // Being written just now, or damaged: it is watched, and dead when it does not change.
  }
  const nowhere = { kernel: '', space: '' };
  return {
    id,
    holds: true,
    pid: 0,
    identity: '',
    host: '',
    system: nowhere,
    device: 0,
    socket: 0,
    beat: text,
  };
}

/** A claim of another process. */
export interface Other {
  readonly claim: Claim;
  /** Whether it is known to live; else it is only not known to be dead. */
  readonly certain: boolean;
}

/** The claims of others that are not dead; those that are, are removed. */
export async function livingOthers(
  place: Place,
  watched: Watched | undefined,
  own: string,
): Promise<Other[]> {
  const living: Other[] = [];
  for (const name of await readdir(place.folder)) {
    const id = /^([0-9a-f]{16})\.claim$/.exec(name)?.[1];
    if (id === undefined || id === own) continue;
    const file = join(place.folder, name);
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const claim = readClaim(id, text);
    const lives = (await proof(claim, place)) ?? watched?.lives(claim);
    if (lives !== false) living.push({ claim, certain: lives === true });
    else {
      await rm(file, { force: true });
      await rm(join(place.folder, socketOf(id)), { force: true });
    }
  }
  return living;
}

/** Whether a claim's process lives; undefined where that cannot be told at once. */
async function proof(claim: Claim, { folder, device, system }: Place): Promise<boolean | undefined> {
  if (ours.has(claim.id)) return true;
  if (
    system.kernel !== '' &&
    claim.system.kernel === system.kernel &&
    claim.device === device &&
    claim.socket !== 0
  ) {
    const answer = await asked(folder, socketOf(claim.id), claim.socket);
    if (answer !== undefined) return answer;
  }
  if (!isNear(claim.system, system)) return undefined;
  const found = await processIdentity(claim.pid);
  if (found === undefined) return false;
  return found === 'unknown' || claim.identity === 'unknown' ? true : found === claim.identity;
}

async function asked(folder: string, name: string, inode: number): Promise<boolean | undefined> {
  const status = await stat(join(folder, name)).catch(() => undefined);
  if (status?.ino !== inode) return undefined;
  const reached = await socketPath(folder, name);
  if (reached === undefined) return undefined;
  try {
    return await new Promise((resolve) => {
      const socket = connect(reached.path);
      socket.once('connect', () => {
        socket.destroy();
        resolve(true);
      });
      socket.once('error', (error: NodeJS.ErrnoException) =>
        resolve(error.code === 'ECONNREFUSED' ? false : error.code === 'EAGAIN' ? true : undefined),
      );
    });
  } finally {
    await reached.close();
  }
}

/** A socket that says by being there that this process lives; undefined where the file system takes none. */
async function listen(
  folder: string,
  name: string,
): Promise<{ readonly inode: number; close(): Promise<void> } | undefined> {
  const place = await socketPath(folder, name);
  if (place === undefined) return undefined;
  const server: Server = createServer((socket) => socket.destroy());
  const bound = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(place.path, () => resolve(true));
  });
  if (!bound) {
    await place.close();
    return undefined;
  }
  server.unref();
  return {
    inode: (await stat(join(folder, name))).ino,
    async close() {
      await new Promise<void>((resolve) => server.close(() => resolve()));
      await rm(join(folder, name), { force: true });
      await place.close();
    },
  };
}

/** Claims that cannot be proved, and since when they have not changed. */
export class Watched {
  readonly #clock: Clock;
  readonly #seen = new Map<string, { beat: string; since: number; moved: boolean }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** True when it moved while it was watched, false when it stood still for too long, undefined until then. */
  lives({ id, beat }: Claim): boolean | undefined {
    const now = this.#clock.monotonic();
    const seen = this.#seen.get(id);
    if (seen === undefined) this.#seen.set(id, { beat, since: now, moved: false });
    else if (seen.beat !== beat) this.#seen.set(id, { beat, since: now, moved: true });
    else if (now - seen.since >= staleMs) return false;
    return this.#seen.get(id)?.moved === true ? true : undefined;
  }
}
