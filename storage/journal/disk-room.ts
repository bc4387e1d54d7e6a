import { statfs } from 'node:fs/promises';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Bounds } from './bounds.ts';
import { sentenceOf } from './back-off.ts';

const mebibyte = 1024 * 1024;
/** The bound of a journal whose disk says nothing, or whose rows no store ever takes. */
export const fixedBound = 2048 * mebibyte;
/** What a journal may hold on a disk that is all but full: the store takes rows away all the time. */
const least = 64 * mebibyte;
const mostReserved = 1024 * mebibyte;
const lookEveryMs = 5000;

/** A disk, bytes. */
export interface Disk {
  readonly total: number;
  /** What a program without privileges may still write. */
  readonly free: number;
}

/** Asks the system about the disk under a folder. */
export async function diskUnder(directory: string): Promise<Disk> {
  const { blocks, bavail, bsize } = await statfs(directory);
  return { total: blocks * bsize, free: bavail * bsize };
}

/**
 * How many bytes a journal that holds `held` may hold: all but what is to stay free for others on the disk. `minFree`
 * defaults to a tenth of the disk, 1 GiB at most. Never less than 64 MiB, or half of what there is.
 */
export function boundOn(disk: Disk, held: number, minFree?: number): number {
  const room = held + disk.free;
  const reserved = minFree ?? Math.min(mostReserved, disk.total / 10);
  return Math.floor(Math.max(room - reserved, Math.min(least, room / 2), 1));
}

/** Options of `followDisk`. */
interface DiskRoomParts {
  readonly bounds: Bounds;
  readonly disk: () => Promise<Disk>;
  readonly minFreeBytes: number | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** Has a bound follow what is free on the disk, every five seconds. Returns what ends it. */
export function followDisk({ bounds, disk, minFreeBytes, clock, log }: DiskRoomParts): () => void {
  let cancel = (): void => undefined;
  let isEnded = false;
  let failed = false;
  const look = async (): Promise<void> => {
    try {
      bounds.resize(boundOn(await disk(), bounds.onDiskBytes, minFreeBytes));
      failed = false;
    } catch (error) {
      if (!failed)
        log.warn(`journal: the system does not say what is free on the disk (${sentenceOf(error)})`);
      failed = true;
    }
    if (!isEnded) cancel = clock.after(lookEveryMs, () => void look());
  };
  cancel = clock.after(lookEveryMs, () => void look());
  return () => {
    isEnded = true;
    cancel();
  };
}
