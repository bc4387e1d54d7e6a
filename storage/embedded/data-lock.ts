import { execFile } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rm, stat, writeFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { privateFolders } from './own-folder.ts';
import { connect, createServer, type Server } from 'node:net';
import { hostname } from 'node:os';

/**
 * A text that, together with the process id, identifies one process forever: ids are reused, start times are not.
 * Undefined when no such process lives; `unknown` where the system does not report start times.
 */
export async function processIdentity(pid: number): Promise<string | undefined> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return undefined;
  }
  if (process.platform === 'linux') return linuxIdentity(pid);
  if (process.platform === 'win32') return 'unknown';
  return startTimeFromPs(pid);
}

async function linuxIdentity(pid: number): Promise<string | undefined> {
  try {
    const [stat, boot] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile('/proc/sys/kernel/random/boot_id', 'utf8'),
    ]);
    // The command in parentheses may hold any character, so the fields are counted from behind it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    return `${boot.slice(0, 8)}.${fields[19]}`;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    return 'unknown';
  }
}

async function startTimeFromPs(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'lstart=', '-p', String(pid)], {
      env: { ...process.env, LC_ALL: 'C', TZ: 'UTC' },
    });
    return stdout.trim().replaceAll(/[^A-Za-z0-9]+/g, '.') || undefined;
  } catch {
    return 'unknown';
  }
}

/** System of a process, as far as it is known; unknown texts are empty. */
interface System {
  /** Equal for all processes of one kernel since its boot, and for no others. */
  readonly kernel: string;
  /** Equal for all processes that share process numbers. */
  readonly space: string;
}

/** System of this process. */
export async function ownSystem(): Promise<System> {
  if (process.platform !== 'linux') return { kernel: `${process.platform} ${hostname()}`, space: 'host' };
  const [kernel, space] = await Promise.all([
    readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => ''),
    readlink('/proc/self/ns/pid').catch(() => ''),
  ]);
  return { kernel: kernel.trim(), space };
}

/** A claim without proof that has not changed for this long is dead. */
const staleMs = 10_000;

/** Content of a claim file: one process that requests or holds the folder. */
interface Claim {
  readonly id: string;
  readonly holds: boolean;
  readonly pid: number;
  readonly identity: string;
  readonly host: string;
  readonly system: System;
  /** Device of the folder, and inode of the socket that the process listens on; 0 for none. */
  readonly device: number;
  readonly socket: number;
  /** Counts up while the process lives; of fixed length, so that the file can be written in place. */
  readonly beat: string;
}

/** Claims of this process: their sockets need no check. */
const ours = new Set<string>();

/** The folder of the claims, with the system of this process. */
interface Place {
  readonly folder: string;
  readonly device: number;
  readonly system: System;
}

/** Throws when the folder does not exist. */
async function placeOf(folder: string): Promise<Place> {
  const [{ dev }, system] = await Promise.all([stat(folder), ownSystem()]);
  return { folder, device: dev, system };
}

/** True when process numbers there are valid here. */
function isSameSystem(theirs: System, own: System): boolean {
  return own.kernel !== '' && theirs.kernel === own.kernel && own.space !== '' && theirs.space === own.space;
}

const fileOf = (id: string): string => `${id}.claim`;
const socketOf = (id: string): string => `${id}.sock`;

/** Claim of this process. */
interface OwnClaim {
  readonly claim: Claim;
  /** Writes that this process holds the folder; false when the file is gone. */
  hold(): Promise<boolean>;
  /** Counts up; false when the file is gone. */
  beat(): Promise<boolean>;
  isThere(): Promise<boolean>;
  /** Recreates the removed file. */
  restore(): Promise<void>;
  remove(): Promise<void>;
  undoOnError<T>(work: () => Promise<T>): Promise<T>;
}

/** Writes a claim of this process for the folder. */
async function writeClaim(place: Place): Promise<OwnClaim> {
  const id = randomBytes(8).toString('hex');
  const file = join(place.folder, fileOf(id));
  const listening = await listen(place.folder, socketOf(id));
  let beats = 0;
  const beat = (): string => String(beats).padStart(12, '0');
  let claim: Claim = {
    id,
    holds: false,
    pid: process.pid,
    host: hostname(),
    identity: (await processIdentity(process.pid)) ?? 'unknown',
    system: place.system,
    device: place.device,
    socket: listening?.inode ?? 0,
    beat: beat(),
  };
  /** Never creates the file: a missing one was considered dead. */
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

/** `holds` has the same length either way, so that a file is always fully overwritten. */
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
  const unread = { holds: true, pid: 0, identity: '', host: '', system: nowhere, device: 0, socket: 0 };
  return { id, ...unread, beat: text };
}

/** A claim of another process. */
interface Other {
  readonly claim: Claim;
  /** True when it is known to live; otherwise it is only not known to be dead. */
  readonly certain: boolean;
}

/** The claims of others that are not dead; dead ones are removed. */
async function liveClaims(place: Place, watched: Watched | undefined, own: string): Promise<Other[]> {
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

/** True when a claim's process lives; undefined when that cannot be decided at once. */
async function proof(claim: Claim, { folder, device, system }: Place): Promise<boolean | undefined> {
  if (ours.has(claim.id)) return true;
  const found = isSameSystem(claim.system, system) ? await processIdentity(claim.pid) : 'unknown';
  const isKnown = found !== 'unknown' && claim.identity !== 'unknown';
  // Before the socket, which outlives its process when a runtime passes it to child processes, as Deno does.
  if (found === undefined || (isKnown && found !== claim.identity)) return false;
  if (
    system.kernel !== '' &&
    claim.system.kernel === system.kernel &&
    claim.device === device &&
    claim.socket !== 0
  ) {
    const answer = await askHolder(folder, socketOf(claim.id), claim.socket);
    if (answer !== undefined) return answer;
  }
  return isSameSystem(claim.system, system) ? true : undefined;
}

async function askHolder(folder: string, name: string, inode: number): Promise<boolean | undefined> {
  const status = await stat(join(folder, name)).catch(() => undefined);
  if (status?.ino !== inode) return undefined;
  const reached = await privateFolders.socketPath(folder, name);
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

/** A socket whose existence proves that this process lives; undefined when the file system supports none. */
async function listen(
  folder: string,
  name: string,
): Promise<{ readonly inode: number; close(): Promise<void> } | undefined> {
  const place = await privateFolders.socketPath(folder, name);
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

/** Claims without proof, with the time of their last change. */
class Watched {
  readonly #clock: Clock;
  readonly #seen = new Map<string, { beat: string; since: number; moved: boolean }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** True when it changed while it was watched, false when it stood still for too long, undefined until then. */
  lives({ id, beat }: Claim): boolean | undefined {
    const now = this.#clock.monotonic();
    const seen = this.#seen.get(id);
    if (seen === undefined) this.#seen.set(id, { beat, since: now, moved: false });
    else if (seen.beat !== beat) this.#seen.set(id, { beat, since: now, moved: true });
    else if (now - seen.since >= staleMs) return false;
    return this.#seen.get(id)?.moved === true ? true : undefined;
  }
}

/** Thrown by `lockData` when another process (or another part of this one) uses the folder. */
export class DataFolderInUse extends Error {
  readonly directory: string;
  /** Its process number on its own system. */
  readonly pid: number;

  constructor(directory: string, { pid, host, near }: Holder) {
    const where = near ? '' : ` of another container or machine (its host name is ${host})`;
    super(
      `the data folder ${directory} is in use by process ${pid}${where}: stop that process, or give this one a data folder of its own`,
    );
    this.name = 'DataFolderInUse';
    this.directory = directory;
    this.pid = pid;
  }
}

/** The process that holds a folder. */
interface Holder {
  readonly pid: number;
  readonly host: string;
  /** True when its number denotes the same process here. */
  readonly near: boolean;
}

/** An exclusive data folder, until `release` or any end of this process. */
export interface DataLock {
  release(): Promise<void>;
}

/** Options of taking a folder. */
interface LockOptions {
  readonly clock: Clock;
  /** Logs when another process must be watched to see whether it lives. */
  readonly log?: Log;
  /**
   * Called when the folder was lost: another process took it while this one, or its file system, stood still for longer
   * than ten seconds. The process must stop writing and must end.
   */
  readonly onLost?: (reason: string) => void;
}

const beatMs = 2000;
const lookAgainMs = 250;
const rivalAttempts = 40;

/**
 * Locks the folder for this process; call it before anything in the folder is opened. Throws `DataFolderInUse`.
 *
 * A process that requests the folder writes a claim, a file with a random name, beside the others in `.run/lock` and
 * only then reads them: of two, at least one sees the other. Any process can remove dead claims, because their names
 * never come back, so two starts cannot both break the same stale lock. The claims are in the data folder itself, and
 * hold across containers, process numbers, networks and temporary folders:
 *
 * - Where its number is valid here, a process that is gone, or whose number another one has now, holds nothing.
 * - On one kernel and one file system a claim is proved by its socket beside it: the kernel accepts connections as long
 *   as the process exists, also while it is stopped or busy, and refuses them from the moment of its end. Sockets with
 *   a path are found in every namespace that sees the folder. A restart after `kill -9` does not wait.
 * - Without a socket, the process is searched by number and start time, if its number is valid here.
 * - Otherwise (another machine on a network file system, or the machine was rebooted) the claim is watched: it counts
 *   up every two seconds, and one that has stood still for ten is dead. No clocks are compared. A holder that stood
 *   still for longer finds its claim gone when it continues, and `onLost` ends it.
 */
export async function lockData(directory: string, options: LockOptions): Promise<DataLock> {
  const { clock, log } = options;
  const folder = await lockFolder(directory);
  const place = await placeOf(folder);
  const watched = new Watched(clock);
  let told = false;
  for (let rivals = 0; ;) {
    const mine = await writeClaim(place);
    const others = await mine.undoOnError(() => liveClaims(place, watched, mine.claim.id));
    // After the second read, every process that arrived meanwhile has seen the claim.
    if (others.length === 0 && (await mine.hold())) {
      const late = await mine.undoOnError(() => liveClaims(place, watched, mine.claim.id));
      if (late.length === 0 && (await mine.isThere())) return keepClaim(mine, place, options);
    }
    await mine.remove();
    const holder = others.find(({ claim, certain }) => certain && claim.holds);
    if (holder !== undefined) throw new DataFolderInUse(directory, holderOf(holder.claim, place.system));
    const unproved = others.find(({ certain }) => !certain);
    if (unproved === undefined) {
      rivals += 1;
      if (rivals >= rivalAttempts) {
        const rival = others[0]?.claim ?? mine.claim;
        throw new DataFolderInUse(directory, holderOf(rival, place.system));
      }
      // Two that arrived together both stepped back; a random delay decides the next round.
      await delay(randomInt(5, 60));
      continue;
    }
    if (!told) {
      told = true;
      log?.warn(
        `The data folder was last used by a process that cannot be seen from here; whether it still runs shows within ${staleMs / 1000} s`,
        { folder: directory, pid: unproved.claim.pid, host: unproved.claim.host },
      );
    }
    await delay(lookAgainMs);
  }
}

/** The process that holds a folder now, or undefined when none does. Takes and creates nothing. */
export async function dataFolderHolder(directory: string): Promise<FoundHolder | undefined> {
  const folder = join(directory, '.run', 'lock');
  if (!existsSync(folder)) return undefined;
  const place = await placeOf(folder);
  const others = await liveClaims(place, undefined, '');
  const found = others.find(({ claim }) => claim.holds);
  return found && { ...holderOf(found.claim, place.system), certain: found.certain };
}

/** A process that was found to hold a folder. */
interface FoundHolder extends Holder {
  /** True when it is known to live; otherwise that shows only while it is watched, as `lockData` does. */
  readonly certain: boolean;
}

async function lockFolder(directory: string): Promise<string> {
  const folder = join(await privateFolders.runtime(directory), 'lock');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}

function holderOf({ pid, host, system }: Claim, own: System): Holder {
  return { pid, host, near: isSameSystem(system, own) };
}

/** Counts up, and checks that the folder is still held. */
function keepClaim(mine: OwnClaim, place: Place, { clock, log, onLost }: LockOptions): DataLock {
  let released = false;
  let failing = false;
  let running: Promise<void> = Promise.resolve();
  let cancel = clock.after(beatMs, step);

  function step(): void {
    running = beat().then(
      () => {
        failing = false;
        if (!released) cancel = clock.after(beatMs, step);
      },
      (error: unknown) => {
        if (!failing) log?.warn('The lock of the data folder cannot be renewed', { error });
        failing = true;
        if (!released) cancel = clock.after(beatMs, step);
      },
    );
  }

  async function beat(): Promise<void> {
    const there = await mine.beat();
    const others = await liveClaims(place, undefined, mine.claim.id);
    const holder = others.find(({ claim }) => claim.holds);
    if (released) return;
    // Two holders are possible only after a file system showed them old listings: one of them ends.
    if (holder !== undefined && (!there || holder.claim.id < mine.claim.id)) {
      released = true;
      onLost?.(
        `the data folder was taken over by process ${holder.claim.pid} of ${holder.claim.host}, because this one stood still for too long`,
      );
    } else if (!there) await mine.restore();
  }

  return {
    async release() {
      released = true;
      cancel();
      await running;
      await mine.remove();
    },
  };
}
