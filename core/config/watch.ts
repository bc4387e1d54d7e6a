import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import { type FSWatcher, watch } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import { globs } from './read-file.ts';
import { createHash } from 'node:crypto';
import { messageOf } from '../errors/gateway-error.ts';

/** A larger file is compared by size and times only. */
const maxBytes = 8_388_608;

/** Present state of a watched entry. */
interface Fingerprint {
  /** Equal as long as the content is equal. */
  readonly content: string;
  /** Last change of a file, milliseconds since the epoch; 0 when it is absent. */
  readonly changedAt: number;
}

/** State by entry: a file's name, or a pattern that stands for all its matches. */
type Snapshot = ReadonlyMap<string, Fingerprint>;

const missing: Fingerprint = { content: 'missing', changedAt: 0 };

interface Known {
  readonly identity: string;
  readonly fingerprint: Fingerprint;
}

/** Takes snapshots of files by content. */
export class Fingerprinter {
  #known = new Map<string, Known>();

  /**
   * Present state of the entries. With `trustStatus` a file with unchanged inode, size and times is not read again. An
   * unreadable file counts as missing.
   */
  async snapshot(entries: Iterable<string>, trustStatus: boolean): Promise<Snapshot> {
    const previous = this.#known;
    this.#known = new Map();
    const result = new Map<string, Fingerprint>();
    for (const entry of new Set(entries)) {
      if (!globs.is(entry)) {
        result.set(entry, await this.#file(entry, previous, trustStatus));
        continue;
      }
      const hash = createHash('sha256');
      let changedAt = 0;
      for (const path of await globs.expand(entry)) {
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

/** Read after the content: new content never gets an old time, even when it changes in between. */
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

/** Beyond this number of directories only the poll finds changes. */
const maxDirectories = 200;

interface Watched {
  readonly watcher: FSWatcher;
  readonly identity: string;
}

/**
 * Watches the directories of the files, not the files: an editor or `mv` replaces the watched file. Never keeps the
 * process alive.
 */
class DirectoryWatch {
  readonly #onEvent: () => void;
  readonly #log: Log;
  readonly #watched = new Map<string, Watched>();
  /** Directories that could not be watched; each is logged once. */
  readonly #failed = new Set<string>();
  #entries: readonly string[] = [];
  #closed = false;

  constructor(onEvent: () => void, log: Log) {
    this.#onEvent = onEvent;
    this.#log = log;
  }

  /** Updates the watched directories for these files and patterns. */
  async follow(entries: readonly string[]): Promise<void> {
    this.#entries = entries;
    const wanted = new Map<string, string>();
    for (const entry of entries)
      for (const directory of await directoriesOf(entry)) {
        const existing = await nearestDirectory(directory);
        if (existing !== undefined && wanted.size < maxDirectories)
          wanted.set(existing.path, existing.identity);
      }
    if (this.#closed) return;
    // A directory that was removed and created again has another inode; its old watch is dead.
    for (const [path, { identity }] of this.#watched) if (wanted.get(path) !== identity) this.#drop(path);
    for (const [path, identity] of wanted) if (!this.#watched.has(path)) this.#add(path, identity);
  }

  close(): void {
    this.#closed = true;
    for (const path of [...this.#watched.keys()]) this.#drop(path);
  }

  #add(path: string, identity: string): void {
    try {
      const watcher = watch(path, { persistent: false }, (_event, name) => {
        if (name === null || this.#concerns(path, name)) this.#onEvent();
      });
      watcher.on('error', (error) => this.#fail(path, error));
      this.#watched.set(path, { watcher, identity });
      this.#failed.delete(path);
    } catch (error) {
      this.#fail(path, error);
    }
  }

  #drop(path: string): void {
    this.#watched.get(path)?.watcher.close();
    this.#watched.delete(path);
  }

  #fail(path: string, error: unknown): void {
    this.#drop(path);
    if (this.#failed.has(path) || this.#closed) return;
    this.#failed.add(path);
    this.#log.warn('A directory cannot be watched; changes in it are found by polling, a little later', {
      directory: path,
      error: messageOf(error),
    });
  }

  #concerns(directory: string, name: string): boolean {
    // `..data` is the link that Kubernetes swaps when it updates mounted files.
    if (name.startsWith('..') || name === basename(directory)) return true;
    const path = join(directory, name);
    const leadsTo = (target: string): boolean => target === path || target.startsWith(path + sep);
    return this.#entries.some((entry) =>
      globs.is(entry) ? leadsTo(globs.base(entry)) || globs.concerns(entry, directory, name) : leadsTo(entry),
    );
  }
}

async function directoriesOf(entry: string): Promise<string[]> {
  if (!globs.is(entry)) return [dirname(entry)];
  const matches = await globs.expand(entry);
  return [...new Set([globs.base(entry), ...matches.map((match) => dirname(match))])];
}

/** The directory itself, or its nearest existing parent, where its creation is an event. */
async function nearestDirectory(path: string): Promise<{ path: string; identity: string } | undefined> {
  for (let current = path; ; current = dirname(current)) {
    const status = await stat(current).catch(() => undefined);
    if (status?.isDirectory() === true) return { path: current, identity: `${status.dev}:${status.ino}` };
    if (dirname(current) === current) return undefined;
  }
}

/** Options of watching. */
interface WatchOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Poll interval in milliseconds, since network drives send no events. Default 1000. */
  readonly pollMs?: number;
  /** How long content must stay unchanged before it counts, in milliseconds: files may be half-written. Default 50. */
  readonly settleMs?: number;
  /** When the content in use was read, by `clock.now()`: later changes count at once. Default: the time of the call. */
  readonly since?: number;
}

/** Bound of looks after which a file that keeps changing is taken as it is. */
const maxSettleLooks = 40;

/**
 * Calls `onChange` after a file has changed its content, appeared or gone. `files` gives absolute names and patterns
 * (`*`, `?`, `**`) and is called on every look. Only content counts, not time stamps. Runs never overlap: changes while
 * `onChange` runs (it may return a promise) lead to one more run afterwards. A file that is new in the list counts as
 * changed only if it was modified after the last run began. An error of `onChange` is logged. Keeps no process alive.
 * Returns the function that stops watching.
 */
export function watchFiles(
  files: () => readonly string[],
  onChange: () => void | Promise<void>,
  options: WatchOptions,
): () => void {
  const watch = new FileWatch(files, onChange, options);
  watch.look(false);
  return () => watch.stop();
}

class FileWatch {
  readonly #files: () => readonly string[];
  readonly #onChange: () => void | Promise<void>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #pollMs: number;
  readonly #settleMs: number;
  readonly #fingerprinter = new Fingerprinter();
  readonly #directories: DirectoryWatch;
  #seen: Snapshot = new Map();
  /** Earliest time at which the content in use was read. */
  #since: number;
  #looking = false;
  #lookAgain = false;
  #stopped = false;
  #cancelPoll: () => void = () => {};
  #cancelEvent: (() => void) | undefined;
  #cancelSettle: () => void = () => {};

  constructor(
    files: () => readonly string[],
    onChange: () => void | Promise<void>,
    { clock, log, pollMs = 1000, settleMs = 50, since = clock.now() }: WatchOptions,
  ) {
    this.#files = files;
    this.#onChange = onChange;
    this.#clock = clock;
    this.#log = log;
    this.#pollMs = pollMs;
    this.#settleMs = settleMs;
    this.#since = since;
    this.#directories = new DirectoryWatch(() => this.#event(), log);
  }

  /** Compares the files with the last snapshot. A poll rereads only files whose status has changed. */
  look(isPoll: boolean): void {
    if (this.#stopped) return;
    if (this.#looking) {
      this.#lookAgain = true;
      return;
    }
    this.#looking = true;
    this.#cancelPoll();
    void this.#lookUntilQuiet(isPoll).finally(() => {
      this.#looking = false;
      if (!this.#stopped) this.#cancelPoll = this.#clock.after(this.#pollMs, () => this.look(true));
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelPoll();
    this.#cancelEvent?.();
    this.#cancelSettle();
    this.#directories.close();
  }

  /** Events come in bursts; one delayed look serves them all. */
  #event(): void {
    if (this.#stopped || this.#cancelEvent !== undefined) return;
    this.#cancelEvent = this.#clock.after(this.#settleMs, () => {
      this.#cancelEvent = undefined;
      this.look(false);
    });
  }

  async #lookUntilQuiet(isPoll: boolean): Promise<void> {
    let trustStatus = isPoll;
    do {
      this.#lookAgain = false;
      try {
        await this.#lookOnce(trustStatus);
      } catch (error) {
        this.#log.error('Looking for changed files failed', { error: messageOf(error) });
      }
      trustStatus = false;
    } while (this.#lookAgain && !this.#stopped);
  }

  async #lookOnce(trustStatus: boolean): Promise<void> {
    const entries = this.#files();
    // First the watch, then the look: a change in between sends an event.
    await this.#directories.follow(entries);
    let now = await this.#fingerprinter.snapshot(entries, trustStatus);
    if (this.#differs(now)) now = await this.#settled(now);
    if (this.#stopped) return;
    const changed = this.#differs(now);
    this.#seen = now;
    if (!changed) return;
    this.#since = this.#clock.now();
    // The list may differ afterwards, and files may have changed meanwhile.
    this.#lookAgain = true;
    try {
      await this.#onChange();
    } catch (error) {
      this.#log.error('Reacting to a changed file failed', { error: messageOf(error) });
    }
  }

  /** Repeats snapshots until two in a row are equal. */
  async #settled(first: Snapshot): Promise<Snapshot> {
    let last = first;
    for (let looks = 0; looks < maxSettleLooks && !this.#stopped; looks++) {
      await this.#pause();
      const next = await this.#fingerprinter.snapshot(this.#files(), false);
      const quiet = [...next].every(([entry, { content }]) => last.get(entry)?.content === content);
      last = next;
      if (quiet) break;
    }
    return last;
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(this.#settleMs, resolve);
      this.#cancelSettle = () => {
        cancel();
        resolve();
      };
    });
  }

  #differs(now: Snapshot): boolean {
    for (const [entry, { content, changedAt }] of now) {
      const before = this.#seen.get(entry);
      // Strictly later than the millisecond of reading; otherwise files just written would count.
      if (before === undefined ? changedAt >= this.#since + 1 : before.content !== content) return true;
    }
    return false;
  }
}
