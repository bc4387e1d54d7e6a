import fs, { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { settle } from '../conformance/manual-clock.ts';

type Files = typeof fs.promises;
type Handle = Awaited<ReturnType<Files['open']>>;

/** What a power cut leaves of what was never synced: nothing, or names and lengths without the bytes. */
export type Unsynced = 'lost' | 'zeros';

/** A file as the disk has it: what was there at the last sync. */
interface Inode {
  synced: Buffer;
}

/**
 * A folder on a disk with a power switch. While it is watched, this process's `node:fs/promises` works on real files and
 * notes what was synced: the bytes of a file by a sync of the file, its name by a sync of the folder. `cut` builds a
 * folder that holds only that. Ends with the test. Renaming a folder is not played.
 */
export class PowerLoss {
  readonly root: string;
  /** Syncs of files and of folders, by what was synced: paths from the root. */
  readonly syncs: string[] = [];
  /** Set by a test: runs before each sync. */
  beforeSync: (file: string) => Promise<void> = () => Promise.resolve();
  private readonly original: Files;
  private readonly live = new Map<string, Inode | 'folder'>();
  private readonly durable = new Map<string, Inode | 'folder'>();
  private readonly copies: string[] = [];
  /** Calls of the watched files and folders that the disk has not answered, without syncs that a test holds. */
  private unanswered = 0;

  private constructor(root: string) {
    this.root = root;
    this.original = { ...fs.promises };
  }

  /** Makes the folder and begins to watch it. */
  static async watch(t: TestContext): Promise<PowerLoss> {
    const power = new PowerLoss(await mkdtemp(path.join(tmpdir(), 'weir-power-')));
    Object.assign(fs.promises, power.counted({ ...power.original, ...power.layer() }));
    syncBuiltinESMExports();
    t.after(async () => {
      Object.assign(fs.promises, power.original);
      syncBuiltinESMExports();
      for (const folder of [power.root, ...power.copies]) await rm(folder, { recursive: true, force: true });
    });
    return power;
  }

  /** The folder as it is after a power cut at this moment, in a new place; this one goes on as if nothing had been. */
  async cut(unsynced: Unsynced): Promise<string> {
    const { original, durable, live } = this;
    const entries = new Map(durable);
    if (unsynced === 'zeros') for (const [file, entry] of live) entries.set(file, entry);
    // All at one moment: the files change while the copy is written.
    const found = [...entries]
      .sort(([a], [b]) => a.length - b.length)
      .map(([file, entry]) => ({
        file,
        bytes: entry === 'folder' ? undefined : this.bytesOf(file, entry, unsynced),
      }));
    const target = await original.mkdtemp(path.join(tmpdir(), 'weir-power-after-'));
    this.copies.push(target);
    for (const { file, bytes } of found) {
      const place = path.join(target, path.relative(this.root, file));
      // Without its folder's name nobody finds a file.
      if (!fs.existsSync(path.dirname(place))) continue;
      if (bytes === undefined) await original.mkdir(place, { recursive: true, mode: 0o700 });
      else await original.writeFile(place, bytes, { mode: 0o600 });
    }
    return target;
  }

  /** Resolves when the disk has answered everything, and what that led to. */
  async idle(): Promise<void> {
    do await settle();
    while (this.unanswered > 0);
  }

  /** The same functions, counted while they run. */
  private counted<Calls extends object>(calls: Calls, self?: unknown): Calls {
    const entries = Object.entries(calls).map(([name, call]: [string, unknown]) => {
      if (typeof call !== 'function') return [name, call];
      const counting = (...args: unknown[]): unknown => {
        const answer: unknown = call.apply(self, args);
        if (!(answer instanceof Promise)) return answer;
        this.unanswered += 1;
        return answer.finally(() => (this.unanswered -= 1));
      };
      return [name, counting];
    });
    return Object.fromEntries(entries) as Calls;
  }

  /** Lets a test hold a sync. */
  private async held(file: string): Promise<void> {
    this.unanswered -= 1;
    await this.beforeSync(file).finally(() => (this.unanswered += 1));
  }

  private bytesOf(file: string, entry: Inode, unsynced: Unsynced): Buffer {
    if (unsynced === 'lost' || this.live.get(file) !== entry) return entry.synced;
    // A file may be gone before its removal is noted here.
    const { size } = fs.statSync(file, { throwIfNoEntry: false }) ?? { size: 0 };
    const missing = Math.max(0, size - entry.synced.length);
    return Buffer.concat([entry.synced, Buffer.alloc(missing)]);
  }

  private layer(): Partial<Files> {
    const { original, live } = this;
    const within = (file: unknown): string | undefined => {
      const full = typeof file === 'string' ? path.resolve(file) : '';
      return full.startsWith(this.root + path.sep) || full === this.root ? full : undefined;
    };
    const created = (file: unknown): void => {
      const full = within(file);
      if (full !== undefined && !live.has(full)) live.set(full, { synced: Buffer.alloc(0) });
    };
    return {
      open: async (file, flags, mode) => {
        const handle = await original.open(file, flags, mode);
        const full = within(file);
        if (full === undefined) return handle;
        if ((await handle.stat()).isDirectory()) return this.watchFolder(handle, full);
        created(full);
        return this.watchFile(handle, full);
      },
      writeFile: async (file, ...rest) => {
        await original.writeFile(file, ...rest);
        created(file);
      },
      copyFile: async (from, to, mode) => {
        await original.copyFile(from, to, mode);
        created(to);
      },
      mkdir: (async (file: string, options: object) => {
        const first = await original.mkdir(file, options);
        for (let made = within(file); made !== undefined && made !== this.root; made = path.dirname(made))
          live.set(made, 'folder');
        return first;
      }) as Files['mkdir'],
      rename: async (from, to) => {
        await original.rename(from, to);
        this.move(within(from), within(to));
      },
      link: async (from, to) => {
        await original.link(from, to);
        const entry = live.get(within(from) ?? '');
        if (entry !== undefined) live.set(within(to) ?? '', entry);
      },
      unlink: async (file) => {
        await original.unlink(file);
        live.delete(within(file) ?? '');
      },
      rm: async (file, options) => {
        await original.rm(file, options);
        live.delete(within(file) ?? '');
      },
    };
  }

  private move(from: string | undefined, to: string | undefined): void {
    const entry = this.live.get(from ?? '');
    this.live.delete(from ?? '');
    if (entry !== undefined && to !== undefined) this.live.set(to, entry);
  }

  private watchFile(handle: Handle, file: string): Handle {
    const entry = this.live.get(file);
    const sync = async (): Promise<void> => {
      this.syncs.push(path.relative(this.root, file));
      // By the handle: the file may have another name by now. Writes from here on are not promised.
      const bytes = readFileSync(`/proc/self/fd/${handle.fd}`);
      await this.held(file);
      if (entry !== undefined && entry !== 'folder') entry.synced = bytes;
    };
    return this.watchHandle(handle, sync);
  }

  private watchFolder(handle: Handle, folder: string): Handle {
    const sync = async (): Promise<void> => {
      this.syncs.push(path.relative(this.root, folder) || '.');
      const now = [...this.live].filter(([file]) => path.dirname(file) === folder);
      await this.held(folder);
      for (const file of this.durable.keys()) if (path.dirname(file) === folder) this.durable.delete(file);
      for (const [file, entry] of now) this.durable.set(file, entry);
    };
    return this.watchHandle(handle, sync);
  }

  private watchHandle(handle: Handle, sync: () => Promise<void>): Handle {
    const { read, readFile, write, writeFile, stat, truncate, close } = handle;
    const calls = { read, readFile, write, writeFile, stat, truncate, close, sync, datasync: sync };
    return Object.assign(handle, this.counted(calls, handle));
  }
}
