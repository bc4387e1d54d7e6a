import { randomUUID } from 'node:crypto';
import { chown, mkdir, open, realpath, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import path from 'node:path';

/**
 * Writes a file atomically with respect to a power failure: under another name first, synced, renamed, and the folder
 * synced. Mode 0600. Rejects with the system's error and then leaves nothing behind.
 */
export async function writeDurably(file: string, content: string | Uint8Array): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    const handle = await open(temporary, 'w', 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
  await syncFolder(path.dirname(file));
}

/**
 * Replaces a file of somebody else's by one rename, so that no reader sees half of it; its mode and owner stay. Follows
 * symbolic links. Rejects with the system's error and then leaves nothing behind.
 */
export async function replaceText(file: string, text: string): Promise<void> {
  const target = await realpath(file);
  const { mode, uid, gid } = await stat(target);
  // Hidden, so that no pattern of an include takes it for a part of a configuration.
  const temporary = path.join(path.dirname(target), `.${path.basename(target)}.${randomUUID()}.tmp`);
  try {
    const handle = await open(temporary, 'wx', mode & 0o777);
    try {
      await handle.writeFile(text, 'utf8');
      await handle.chmod(mode & 0o7777);
      await handle.sync();
    } finally {
      await handle.close();
    }
    // Only root may give files away; the mode decides who reads it.
    await chown(temporary, uid, gid).catch(() => undefined);
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Creates a folder and its parents (mode 0700) so that they survive a power failure. */
export async function makeFolderDurably(directory: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = path.resolve(directory); ; made = path.dirname(made)) {
    await syncFolder(path.dirname(made));
    if (made === path.resolve(first) || made === path.dirname(made)) return;
  }
}

/** Makes creations, renames and removals within a folder durable. Rejects on a disk failure. */
export async function syncFolder(directory: string): Promise<void> {
  let handle: FileHandle;
  try {
    handle = await open(directory, 'r');
  } catch (error) {
    // Some systems cannot open a folder; their file systems order such changes themselves.
    if (hasCode(error, 'EISDIR', 'EPERM')) return;
    throw error;
  }
  try {
    await handle.sync();
  } catch (error) {
    if (!hasCode(error, 'EINVAL', 'ENOTSUP', 'EPERM')) throw error;
  } finally {
    await handle.close();
  }
}

function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
