import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Blobs, StoredBlob } from '../../core/ports/exports.ts';
import { syncFolder } from '../../core/base/durable-file.ts';
import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

/** Folders may be shared between machines, whose process numbers are independent. */
const machine = createHash('sha256').update(hostname()).digest('hex').slice(0, 12);
const mark = /^([0-9a-f]{12})-(\d+)-[0-9a-f-]{36}\.tmp$/;
const inUse = new Set<string>();

/** A temporary name beside the file, for incomplete content; in use until `release`. */
function temporaryName(target: string): string {
  const name = `${target}.${machine}-${process.pid}-${randomUUID()}.tmp`;
  inUse.add(name);
  return name;
}

/** Ends the use of a temporary name. */
function release(name: string): void {
  inUse.delete(name);
}

/** Removes files that killed processes of this machine left beside the file. */
async function removeAbandoned(target: string): Promise<void> {
  const [folder, prefix] = [path.dirname(target), `${path.basename(target)}.`];
  for (const name of await readdir(folder)) {
    const [, where, pid] = mark.exec(name.startsWith(prefix) ? name.slice(prefix.length) : '') ?? [];
    if (where !== machine || isAlive(Number(pid), path.join(folder, name))) continue;
    await rm(path.join(folder, name), { force: true });
  }
}

function isAlive(pid: number, name: string): boolean {
  // A process in a container often has the same number as its predecessor.
  if (pid === process.pid) return inUse.has(name);
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

const segment = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}$/;

/** The parts of a name. Throws `TypeError` for one that could lead to another place. */
export function nameParts(name: string): readonly string[] {
  const parts = name.split('/');
  if (parts.every((part) => segment.test(part))) return parts;
  throw new TypeError(`"${name.slice(0, 64)}" is no name of a blob.`);
}

const readBytes = 256 * 1024;
/** Bytes between syncs, so that the end does not have to wait for all of them. */
const syncBytes = 64 * 1024 * 1024;

/**
 * Files in a folder that only this user may read; created with the first file. A file appears complete: it is written
 * under another name, synced and renamed.
 */
export function createFileBlobs(directory: string): Blobs {
  const pathOf = (name: string): string => path.join(directory, ...nameParts(name));
  return {
    async write(name, content, { signal } = {}) {
      const target = pathOf(name);
      return onDisk(directory, async () => {
        await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
        await removeAbandoned(target);
        const temporary = temporaryName(target);
        const handle = await open(temporary, 'wx', 0o600);
        try {
          const bytes = await writeAll(handle, content, signal);
          await handle.sync();
          await handle.close();
          await rename(temporary, target);
          await syncFolder(path.dirname(target));
          return bytes;
        } catch (error) {
          await handle.close().catch(() => undefined);
          await rm(temporary, { force: true }).catch(() => undefined);
          throw error;
        } finally {
          release(temporary);
        }
      });
    },
    async read(name) {
      return onDisk(directory, async () => {
        const handle = await openForReading(pathOf(name));
        return handle && storedBlob(handle);
      });
    },
    async removeFolder(folder) {
      const target = pathOf(folder);
      await onDisk(directory, () => rm(target, { recursive: true, force: true }));
    },
    link: () => undefined,
    async ping() {
      await onDisk(directory, () => mkdir(directory, { recursive: true, mode: 0o700 }));
    },
    close: () => Promise.resolve(),
  };
}

async function writeAll(
  handle: FileHandle,
  content: AsyncIterable<Uint8Array> | Uint8Array,
  signal: AbortSignal | undefined,
): Promise<number> {
  let bytes = 0;
  let unsynced = 0;
  for await (const chunk of content instanceof Uint8Array ? [content] : content) {
    signal?.throwIfAborted();
    await handle.writeFile(chunk);
    bytes += chunk.length;
    unsynced += chunk.length;
    if (unsynced < syncBytes) continue;
    unsynced = 0;
    await handle.datasync();
  }
  return bytes;
}

async function openForReading(name: string): Promise<FileHandle | undefined> {
  try {
    return await open(name, 'r');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function storedBlob(handle: FileHandle): Promise<StoredBlob> {
  try {
    const { size } = await handle.stat();
    return { bytes: size, content: chunksOf(handle, size) };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function* chunksOf(handle: FileHandle, size: number): AsyncGenerator<Buffer> {
  try {
    for (let at = 0; at < size;) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(Math.min(readBytes, size - at)), {
        position: at,
      });
      if (bytesRead === 0) throw new Error('The file is shorter than it was.');
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}

/** A full or broken disk may be repaired while the work waits: it is retried. */
async function onDisk<T>(directory: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error);
    if (code === undefined) throw error;
    throw new GatewayError(
      'store_unavailable',
      `Files of exports cannot be kept in ${directory} (${code}). Free the disk or mend the folder.`,
      { cause: error },
    );
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && 'syscall' in error ? String(error.code) : undefined;
}
