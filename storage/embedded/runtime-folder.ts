import { existsSync } from 'node:fs';
import { mkdtemp, open, rm, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ownFolder } from './own-folder.ts';

/**
 * A folder of mode 0700 within a data folder, for what belongs to running processes: the lock, sockets, files that an
 * engine reads at start. Within it and nowhere else, so that every process that sees the data sees the lock, whatever
 * its temporary folder is. Creates both folders. Throws when another user owns one of them.
 */
export async function runtimeFolder(dataDirectory: string): Promise<string> {
  await ownFolder(dataDirectory);
  const folder = join(dataDirectory, '.run');
  await ownFolder(folder);
  return folder;
}

/** Systems bound the path of a socket: 107 bytes on Linux, 103 on macOS. */
const longestSocketPath = 103;

/** A folder for a socket. */
export interface SocketFolder {
  readonly path: string;
  /** Removes what was made for it. */
  remove(): Promise<void>;
}

/**
 * Where a socket of this name can be: the run-time folder of the data folder, or, when that path is too long for a
 * socket, a new private folder in XDG_RUNTIME_DIR or the temporary folder.
 */
export async function socketFolder(dataDirectory: string, name: string): Promise<SocketFolder> {
  const folder = await runtimeFolder(dataDirectory);
  if (fits(join(folder, name))) return { path: folder, remove: () => Promise.resolve() };
  const own = process.env['XDG_RUNTIME_DIR'];
  const roots = [own, tmpdir(), '/tmp'].filter((root) => root !== undefined && existsSync(root));
  const root = roots.find((one) => fits(join(one as string, 'weir-XXXXXX', name))) ?? tmpdir();
  // `mkdtemp` makes it with mode 0700 and a name that no other user can have taken.
  const path = await mkdtemp(join(root, 'weir-'));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

/**
 * A path that a socket can be bound to or reached by, however deep its folder is: Linux leads there through a handle.
 * Undefined where there is none. Close it when the socket is no longer used by this path.
 */
export async function socketPath(
  folder: string,
  name: string,
): Promise<{ readonly path: string; close(): Promise<void> } | undefined> {
  const path = join(folder, name);
  if (process.platform === 'win32') return undefined;
  if (fits(path)) return { path, close: () => Promise.resolve() };
  if (process.platform !== 'linux') return undefined;
  const handle: FileHandle = await open(folder, 'r');
  return { path: `/proc/self/fd/${handle.fd}/${name}`, close: () => handle.close() };
}

function fits(path: string): boolean {
  return Buffer.byteLength(path) <= longestSocketPath;
}
