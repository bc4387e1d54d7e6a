import { open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { privateFolders } from './own-folder.ts';

const probeBytes = 256 * 1024;
/** An engine writes files of 16 MiB when it opens; less free space than this may have been too little. */
const minFreeBytes = 48 * 1024 * 1024;
const remedies: Readonly<Record<string, string>> = {
  ENOSPC: 'Free some of it, or name a data folder on another disk (--data, WEIR_DATA)',
  EDQUOT: 'Free some of it, or name a data folder on another disk (--data, WEIR_DATA)',
  EROFS: 'Mount it for writing, or name another data folder (--data, WEIR_DATA)',
};
const otherRemedy = 'Check its owner and its modes, or name another data folder (--data, WEIR_DATA)';

/**
 * Reason why a folder is not writable, with the remedy, in one sentence; undefined when it is. Writes a small file and
 * removes it: a full disk still creates empty ones.
 */
async function writeFault(directory: string): Promise<string | undefined> {
  const probe = join(directory, `.weir-${process.pid}.tmp`);
  try {
    const handle = await open(probe, 'w', 0o600);
    try {
      await handle.writeFile(Buffer.alloc(probeBytes, 1));
      await handle.datasync();
    } finally {
      await handle.close();
    }
    return undefined;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const code = 'code' in error ? String(error.code) : '';
    return `nothing can be written to ${directory}: ${privateFolders.describeCause(error)}. ${remedies[code] ?? otherRemedy}`;
  } finally {
    await rm(probe, { force: true }).catch(() => undefined);
  }
}

/** Throws one sentence with the remedy when a folder is not writable. */
export async function checkWritable(directory: string): Promise<void> {
  const fault = await writeFault(directory);
  if (fault !== undefined) throw new Error(`The gateway cannot start: ${fault}.`);
}

/**
 * Fault of the disk under a folder that an engine could not open, with the remedy; undefined when the disk is fine.
 * Call it after a failure: no amount of free space suffices for every engine.
 */
export async function diskFault(directory: string): Promise<string | undefined> {
  const fault = await writeFault(directory);
  if (fault !== undefined) return fault;
  const { bavail, bsize } = await statfs(directory);
  const free = bavail * bsize;
  if (free >= minFreeBytes) return undefined;
  const mebibytes = Math.floor(free / 1024 / 1024);
  return `its disk is full (${mebibytes} MiB are free, and an engine needs ${minFreeBytes / 1024 / 1024}). ${remedies['ENOSPC']}`;
}
