import fs from 'node:fs';
import { open, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { NodeFS } from '@electric-sql/pglite/nodefs';

/**
 * Start parameters of the engine. Its own page cache would take 128 MiB, which a gateway fills over time: the process
 * would seem to grow without end; the system caches the same files. By default it syncs nothing, and its files support
 * only `fsync`.
 */
export const engineParameters: readonly string[] = [
  ...PGlite.defaultStartParams,
  ...['-c', 'shared_buffers=16MB', '-c', 'fsync=on', '-c', 'wal_sync_method=fsync'],
];

interface OpenFile {
  /** The descriptor of the system; folders have none. */
  readonly nfd?: number;
}

interface NodeFiles {
  readonly stream_ops: { fsync?: (file: OpenFile) => number };
}

/**
 * The engine's files, which reach the disk when the engine requires it: an acknowledged commit survives a power cut.
 */
export class DurableFiles extends NodeFS {
  override async init(...args: Parameters<NodeFS['init']>): ReturnType<NodeFS['init']> {
    const { emscriptenOpts } = await super.init(...args);
    const preRun = emscriptenOpts.preRun ?? [];
    const sync = ({ FS }: { readonly FS: { readonly filesystems: { readonly NODEFS: unknown } } }): void => {
      const { NODEFS: files } = FS.filesystems;
      if (isNodeFiles(files)) files.stream_ops.fsync = syncFile;
    };
    return { emscriptenOpts: { ...emscriptenOpts, preRun: [...preRun, sync] } };
  }
}

function isNodeFiles(value: unknown): value is NodeFiles {
  return typeof value === 'object' && value !== null && 'stream_ops' in value;
}

function syncFile({ nfd }: OpenFile): number {
  if (nfd !== undefined) fs.fdatasyncSync(nfd);
  return 0;
}

/** The engine sets the mode 0666 on its files explicitly, regardless of the umask. */
export function keepModesPrivate(): void {
  const { chmodSync } = fs;
  fs.chmodSync = (path, mode) => chmodSync(path, typeof mode === 'number' ? mode & 0o700 : mode);
}

/** Syncs everything in a folder, for a new database: creating it syncs nothing. */
export async function syncTree(directory: string): Promise<void> {
  for await (const entry of await opendir(directory)) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) await syncTree(path);
    else if (entry.isFile()) await syncPath(path);
  }
  await syncPath(directory);
}

async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
