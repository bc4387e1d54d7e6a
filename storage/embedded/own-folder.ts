import {
  access,
  chmod,
  constants,
  type FileHandle,
  lstat,
  mkdir,
  mkdtemp,
  open,
  opendir,
  rm,
  stat,
} from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { syncFolder } from '../../core/base/durable-file.ts';
import type { Log } from '../../core/ports/log.ts';
import { existsSync } from 'node:fs';

/** Folders that only the owner of the gateway reads. */
export const privateFolders = {
  runtime: runtimeFolder,
  socket: socketFolder,
  socketPath,
  writePrivately,
  own: ownFolder,
  fault: folderFault,
  closeToOthers,
  describeCause,
};

/**
 * A folder of mode 0700 within a data folder, for files of running processes: the lock, sockets, files that an engine
 * reads at its start. It is inside the data folder, so that every process that sees the data sees the lock, whatever
 * its temporary folder is. Creates both folders. Throws when another user owns one of them.
 */
async function runtimeFolder(dataDirectory: string): Promise<string> {
  await ownFolder(dataDirectory);
  const folder = join(dataDirectory, '.run');
  await ownFolder(folder);
  return folder;
}

/** Systems bound the path of a socket: 107 bytes on Linux, 103 on macOS. */
const longestSocketPath = 103;

/** A folder for a socket. */
interface SocketFolder {
  readonly path: string;
  /** Removes the created files. */
  remove(): Promise<void>;
}

/**
 * Folder for a socket of this name: the run-time folder of the data folder, or, when that path is too long for a
 * socket, a new private folder in XDG_RUNTIME_DIR or the temporary folder.
 */
async function socketFolder(dataDirectory: string, name: string): Promise<SocketFolder> {
  const folder = await runtimeFolder(dataDirectory);
  if (fitsSocketPath(join(folder, name))) return { path: folder, remove: () => Promise.resolve() };
  const own = process.env['XDG_RUNTIME_DIR'];
  const roots = [own, tmpdir(), '/tmp'].filter((root) => root !== undefined && existsSync(root));
  const root = roots.find((one) => fitsSocketPath(join(one as string, 'weir-XXXXXX', name))) ?? tmpdir();
  // `mkdtemp` uses mode 0700 and a name that no other user can have taken.
  const path = await mkdtemp(join(root, 'weir-'));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

/**
 * A path for binding or connecting a socket in a folder of any depth: Linux provides it through a handle. Undefined
 * where there is none. Close it when the socket is no longer used by this path.
 */
async function socketPath(
  folder: string,
  name: string,
): Promise<{ readonly path: string; close(): Promise<void> } | undefined> {
  const path = join(folder, name);
  if (process.platform === 'win32') return undefined;
  if (fitsSocketPath(path)) return { path, close: () => Promise.resolve() };
  if (process.platform !== 'linux') return undefined;
  const handle: FileHandle = await open(folder, 'r');
  return { path: `/proc/self/fd/${handle.fd}/${name}`, close: () => handle.close() };
}

function fitsSocketPath(path: string): boolean {
  return Buffer.byteLength(path) <= longestSocketPath;
}

const hasModes = process.platform !== 'win32';
const forOthers = 0o077;
/** Upper bound of entries that a start checks; the folder's own mode protects the rest. */
const maxEntries = 200_000;
/** The reader of the key file refuses a wide mode with a remedy: other users may have read it. */
const keyFile = 'secret.key';

/**
 * Makes the files of this process, and of its children, readable for this user alone, regardless of the umask. Call it
 * first. Shared files get their modes explicitly.
 */
function writePrivately(): void {
  process.umask(forOthers);
}

/**
 * Creates a private folder of this user, or restricts the existing one (mode 0700). Throws one sentence with the remedy
 * when another user owns it: that user could replace its contents.
 */
async function ownFolder(directory: string): Promise<void> {
  await makeFolder(directory).catch((cause: NodeJS.ErrnoException) => {
    throw new Error(
      `The data folder cannot be made: ${describeCause(cause)}. Name another one (--data, WEIR_DATA).`,
      {
        cause,
      },
    );
  });
  if (!hasModes) return;
  const { uid, mode } = await stat(directory);
  if (uid !== ownId()) {
    throw new Error(
      `the data folder ${directory} belongs to user ${uid}, and this process runs as ${ownName()}: run it as the owner, ` +
        `name a folder of your own (one within it will do, where you may make one), or hand it over with "chown -R ${ownId()} ${directory}"`,
    );
  }
  if ((mode & forOthers) === 0) return;
  await chmod(directory, 0o700).catch((cause: NodeJS.ErrnoException) => {
    throw new Error(
      `the folder ${directory} cannot be closed to other users: ${describeCause(cause)}. Name another data folder (--data, WEIR_DATA)`,
      { cause },
    );
  });
  if (((await stat(directory)).mode & forOthers) === 0) return;
  throw new Error(
    `the folder ${directory} cannot be closed to other users: its file system keeps no modes. Mount it with umask=077, or use another one`,
  );
}

/**
 * Reason why a start could not use a data folder, in a sentence; undefined when it could. Creates and changes nothing.
 */
async function folderFault(directory: string): Promise<string | undefined> {
  const status = await stat(directory).catch((error: NodeJS.ErrnoException) => error);
  if (status instanceof Error) {
    const parent = dirname(directory);
    if (status.code === 'ENOENT' && parent !== directory) return folderFault(parent);
    return `the data folder cannot be used: ${describeCause(status)}. Name another one (--data, WEIR_DATA)`;
  }
  if (!status.isDirectory()) return 'the data folder is no folder. Name another one (--data, WEIR_DATA)';
  const error = await access(directory, constants.R_OK | constants.W_OK | constants.X_OK).catch(
    (cause: NodeJS.ErrnoException) => cause,
  );
  return error instanceof Error
    ? `the data folder cannot be used: ${describeCause(error)}. Name another one (--data, WEIR_DATA)`
    : undefined;
}

/**
 * Folder by folder: with `recursive`, Node 20 loops forever below /proc, where a folder exists but accepts no entries.
 */
async function makeFolder(directory: string, isRepeated = false): Promise<void> {
  try {
    await mkdir(directory, { mode: 0o700 });
    // A power cut that loses its name loses everything synced in it.
    await syncFolder(dirname(directory));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && (await stat(directory)).isDirectory()) return;
    const parent = dirname(directory);
    if (code !== 'ENOENT' || parent === directory || isRepeated) throw error;
    // It is there now when another process, such as another worker, has made it meanwhile.
    if ((await stat(parent).catch(() => undefined)) === undefined) await makeFolder(parent);
    await makeFolder(directory, true);
  }
}

/**
 * Removes access of other users that an older version, another umask or a copy left in the folder: folders get 0700,
 * files 0600. Symbolic links are not followed. Logs when something was accessible. Throws one sentence when an entry
 * belongs to another user.
 */
async function closeToOthers(directory: string, log: Log): Promise<void> {
  if (!hasModes) return;
  const wasOpen = ((await stat(directory).catch(() => undefined))?.mode ?? 0) & forOthers;
  await ownFolder(directory);
  const found = { seen: 0, changed: 0 };
  await closeWithin(directory, found, directory);
  if (wasOpen === 0 && found.changed === 0) return;
  if (found.seen >= maxEntries)
    log.warn(
      `Only the first ${maxEntries} entries of ${directory} were closed one by one; its own mode closes the rest`,
    );
  log.warn(
    'The data folder, or files in it, could be read by other users of this machine; it was closed to them (0700 and 0600). If one of them is not to be trusted, change the keys of the gateway and of its providers',
    { folder: directory, entries: found.changed },
  );
}

async function closeWithin(
  folder: string,
  found: { seen: number; changed: number },
  root: string,
): Promise<void> {
  for await (const entry of await opendir(folder)) {
    if (found.seen >= maxEntries) return;
    found.seen += 1;
    const path = join(folder, entry.name);
    if (entry.isSymbolicLink() || (folder === root && entry.name === keyFile)) continue;
    const status = await lstat(path).catch(ignoreMissing);
    if (status === undefined || status.isSymbolicLink()) continue;
    if (status.uid !== ownId()) {
      throw new Error(
        `${path} in the data folder belongs to user ${status.uid}, and this process runs as ${ownName()} (was it started by another user before?): ` +
          `hand it over with "chown -R ${ownId()} ${root}", or remove it if it is not yours`,
      );
    }
    if ((status.mode & forOthers) !== 0) {
      found.changed += 1;
      await chmod(path, status.mode & 0o700).catch(ignoreMissing);
    }
    if (status.isDirectory()) await closeWithin(path, found, root);
  }
}

const inWords: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EFBIG: 'files may not become as long as is needed (the limit of this process on the size of files)',
  EDQUOT: 'the quota of this user is used up',
  EROFS: 'the file system is mounted read-only',
};

/** The system's reason for a failure, with its cause in words when the bare code says little to an operator. */
function describeCause(error: Error & { readonly code?: string | undefined }): string {
  const words = inWords[error.code ?? ''];
  return words === undefined ? error.message : `${words} (${error.message})`;
}

/** Running journals and engines remove files meanwhile. */
function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

function ownId(): number {
  return process.getuid?.() ?? 0;
}

function ownName(): string {
  try {
    return `${userInfo().username} (${ownId()})`;
  } catch {
    return `user ${ownId()}`;
  }
}
