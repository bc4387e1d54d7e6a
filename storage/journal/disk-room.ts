import { statfs } from 'node:fs/promises';

const mebibyte = 1024 * 1024;
/** Bound of a journal without information about its disk, or without a store. */
const fixedBound = 2048 * mebibyte;

/** Room on the disk of a journal. */
export const diskRoom = { fixedBound, under: diskUnder, boundFor: boundForDisk };

/** Bound on an almost full disk: the store drains rows continuously. */
const minBytes = 64 * mebibyte;
const maxReservedBytes = 1024 * mebibyte;

/** A disk, bytes. */
export interface Disk {
  readonly total: number;
  /** Bytes available to an unprivileged program. */
  readonly free: number;
}

/** Size and free space of the disk under a folder. */
async function diskUnder(directory: string): Promise<Disk> {
  const { blocks, bavail, bsize } = await statfs(directory);
  return { total: blocks * bsize, free: bavail * bsize };
}

/**
 * Bound in bytes of a journal that holds `held`: all space except the part reserved for others on the disk. `minFree`
 * defaults to a tenth of the disk, at most 1 GiB. Never less than 64 MiB, or half of the available space.
 */
function boundForDisk(disk: Disk, held: number, minFree?: number): number {
  const room = held + disk.free;
  const reserved = minFree ?? Math.min(maxReservedBytes, disk.total / 10);
  return Math.floor(Math.max(room - reserved, Math.min(minBytes, room / 2), 1));
}
