import { createHash } from 'node:crypto';
import { open, stat } from 'node:fs/promises';
import { expandGlob, isGlob } from './glob.ts';

/** A larger file is told apart by size and times alone. */
const maxBytes = 8_388_608;

/** What a watched entry holds now. */
export interface Fingerprint {
  /** Equal as long as the content is. */
  readonly content: string;
  /** When a file was last changed, milliseconds since the epoch; 0 when there is none. */
  readonly changedAt: number;
}

/** Content by entry: a file's name, or a pattern that stands for all files that match. */
export type Snapshot = ReadonlyMap<string, Fingerprint>;

const missing: Fingerprint = { content: 'missing', changedAt: 0 };

interface Known {
  readonly identity: string;
  readonly fingerprint: Fingerprint;
}

/** Takes snapshots of files by content. */
export class Fingerprinter {
  #known = new Map<string, Known>();

  /**
   * The entries as they are now. With `trustStatus` a file whose inode, size and times are as before is not
   * read again. A file that cannot be read counts as missing.
   */
  async snapshot(entries: Iterable<string>, trustStatus: boolean): Promise<Snapshot> {
    const previous = this.#known;
    this.#known = new Map();
    const result = new Map<string, Fingerprint>();
    for (const entry of new Set(entries)) {
      if (!isGlob(entry)) {
        result.set(entry, await this.#file(entry, previous, trustStatus));
        continue;
      }
      const hash = createHash('sha256');
      let changedAt = 0;
      for (const path of await expandGlob(entry)) {
        const fingerprint = await this.#file(path, previous, trustStatus);
        hash.update(`${path}\0${fingerprint.content}\0`);
        changedAt = Math.max(changedAt, fingerprint.changedAt);
      }
      result.set(entry, { content: hash.digest('hex'), changedAt });
    }
    return result;
  }

  async #file(
    path: string,
    previous: ReadonlyMap<string, Known>,
    trustStatus: boolean,
  ): Promise<Fingerprint> {
    try {
      const status = await stat(path);
      if (!status.isFile()) return missing;
      const identity = `${status.dev}:${status.ino}:${status.size}:${status.mtimeMs}:${status.ctimeMs}`;
      const before = this.#known.get(path) ?? (trustStatus ? previous.get(path) : undefined);
      const fingerprint =
        before?.identity === identity
          ? before.fingerprint
          : {
              content: status.size > maxBytes ? identity : await contentHash(path),
              changedAt: await changeTime(path),
            };
      this.#known.set(path, { identity, fingerprint });
      return fingerprint;
    } catch {
      return missing;
    }
  }
}

/** Asked after the content was read: new content never goes with an old time, also when it came in between. */
async function changeTime(path: string): Promise<number> {
  const { ctimeMs, mtimeMs } = await stat(path);
  return Math.max(ctimeMs, mtimeMs);
}

async function contentHash(path: string): Promise<string> {
  const handle = await open(path, 'r');
  try {
    const hash = createHash('sha256');
    const buffer = Buffer.alloc(65_536);
    for (let total = 0; total <= maxBytes;) {
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) break;
      hash.update(buffer.subarray(0, bytesRead));
      total += bytesRead;
    }
    return hash.digest('hex');
  } finally {
    await handle.close();
  }
}
