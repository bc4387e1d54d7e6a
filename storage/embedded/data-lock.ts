import { randomInt } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import {
  isNear,
  livingOthers,
  placeOf,
  put,
  staleMs,
  Watched,
  type Claim,
  type OwnClaim,
  type Place,
} from './lock-claims.ts';
import type { System } from './process-identity.ts';
import { runtimeFolder } from './runtime-folder.ts';

/** Thrown by `lockData` when another process (or another part of this one) uses the folder. */
export class DataFolderInUse extends Error {
  readonly directory: string;
  /** Its number, as it is known where it runs. */
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
export interface Holder {
  readonly pid: number;
  readonly host: string;
  /** Whether its number means the same process here. */
  readonly near: boolean;
}

/** A data folder that is ours alone until `release`, or until this process ends, however it ends. */
export interface DataLock {
  release(): Promise<void>;
}

/** What taking a folder takes. */
export interface LockOptions {
  readonly clock: Clock;
  /** Is told when it has to be watched whether another process lives. */
  readonly log?: Log;
  /**
   * Called when the folder was lost: another process took it while this one, or its file system, stood still for
   * longer than ten seconds. Whoever gets this may write nothing more: end the process.
   */
  readonly onLost?: (reason: string) => void;
}

const beatMs = 2000;
const lookAgainMs = 250;
const rivalAttempts = 40;

/**
 * Takes the folder for this process; take it before anything in the folder is opened. Throws `DataFolderInUse`.
 *
 * Whoever wants the folder puts a claim, a file of a random name, beside the others in `.run/lock` and only then looks
 * at them: of two, at least one sees the other. Claims that are dead can be removed by anybody, because their names
 * never come back, so two starts cannot both break the same stale lock. The claims lie in the data folder itself, and
 * hold across containers, process numbers, networks and temporary folders:
 *
 * - On one kernel and one file system a claim is proved by its socket beside it: the kernel takes connections as long
 *   as the process is there, also while it is stopped or busy, and refuses them from the moment of its end. Sockets with
 *   a path are found in every namespace that sees the folder. A restart after `kill -9` does not wait.
 * - Where there is no socket, the process is looked for by number and start time, if its number means the same here.
 * - Else (another machine on a network file system, or the machine was started anew) the claim is watched: it counts up
 *   every two seconds, and one that has stood still for ten is dead. No clocks are compared. A holder that stood still
 *   for longer finds its claim gone when it goes on, and `onLost` ends it.
 */
export async function lockData(directory: string, options: LockOptions): Promise<DataLock> {
  const { clock, log } = options;
  const folder = await lockFolder(directory);
  const place = await placeOf(folder);
  const watched = new Watched(clock);
  let told = false;
  for (let rivals = 0; ;) {
    const mine = await put(place);
    const others = await mine.undoOnError(() => livingOthers(place, watched, mine.claim.id));
    // After the second look nobody who came meanwhile can have missed it.
    if (others.length === 0 && (await mine.hold())) {
      const late = await mine.undoOnError(() => livingOthers(place, watched, mine.claim.id));
      if (late.length === 0 && (await mine.isThere())) return keep(mine, place, options);
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
      // Two that arrived together both stepped back; chance decides who comes first next time.
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

/** The process that holds a folder now, or undefined when none does. Takes and makes nothing. */
export async function dataFolderHolder(directory: string): Promise<FoundHolder | undefined> {
  const folder = join(directory, '.run', 'lock');
  if (!existsSync(folder)) return undefined;
  const place = await placeOf(folder);
  const others = await livingOthers(place, undefined, '');
  const found = others.find(({ claim }) => claim.holds);
  return found && { ...holderOf(found.claim, place.system), certain: found.certain };
}

/** A process that was found to hold a folder. */
export interface FoundHolder extends Holder {
  /** Whether it is known to live; else that shows only while it is watched, as `lockData` does. */
  readonly certain: boolean;
}

async function lockFolder(directory: string): Promise<string> {
  const folder = join(await runtimeFolder(directory), 'lock');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}

function holderOf({ pid, host, system }: Claim, own: System): Holder {
  return { pid, host, near: isNear(system, own) };
}

/** Counts up, and looks whether the folder is still ours. */
function keep(mine: OwnClaim, place: Place, { clock, log, onLost }: LockOptions): DataLock {
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
    const others = await livingOthers(place, undefined, mine.claim.id);
    const holder = others.find(({ claim }) => claim.holds);
    if (released) return;
    // Two that both hold it can only be after a file system showed them old listings: one of them goes.
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
