import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { lstat, mkdir, realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * A folder of mode 0700 for what belongs to a data folder but not into it: its lock, sockets, files that an engine
 * reads at start. Its name is a hash of the data folder's real path, so every spelling of that path leads to it.
 * Creates both folders. Throws when somebody else owns the place.
 */
export async function runtimeFolder(dataDirectory: string): Promise<string> {
  await mkdir(dataDirectory, { recursive: true });
  const hash = createHash('sha256')
    .update(await realpath(dataDirectory))
    .digest('hex');
  const user = process.getuid?.() ?? 'user';
  // Not XDG_RUNTIME_DIR or TMPDIR: two starts with different environments have to meet at the same lock.
  const root = join(existsSync('/tmp') ? '/tmp' : tmpdir(), `weir-${user}`);
  await privateFolder(root);
  const folder = join(root, hash.slice(0, 32));
  await privateFolder(folder);
  return folder;
}

async function privateFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const status = await lstat(path);
  const foreign = process.getuid !== undefined && status.uid !== process.getuid();
  const open = process.platform !== 'win32' && (status.mode & 0o077) !== 0;
  if (!status.isDirectory() || foreign || open) {
    throw new Error(
      `${path} must be a folder that only this user can open: remove it, or chmod it to 700, and start again`,
    );
  }
}
