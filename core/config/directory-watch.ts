import { watch, type FSWatcher } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import type { Log } from '../ports/log.ts';
import { expandGlob, globBase, globConcerns, isGlob } from './glob.ts';

/** Beyond this many directories the poll alone must find changes. */
const maxDirectories = 200;

interface Watched {
  readonly watcher: FSWatcher;
  readonly identity: string;
}

/**
 * Watches the directories in which files stand, not the files: an editor or `mv` puts a new file in place of
 * the watched one. Never keeps the process alive.
 */
export class DirectoryWatch {
  readonly #onEvent: () => void;
  readonly #log: Log;
  readonly #watched = new Map<string, Watched>();
  /** Directories that could not be watched, so that each is logged once. */
  readonly #failed = new Set<string>();
  #entries: readonly string[] = [];
  #closed = false;

  constructor(onEvent: () => void, log: Log) {
    this.#onEvent = onEvent;
    this.#log = log;
  }

  /** Brings the watched directories in line with these files and patterns. */
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
    // A directory that was removed and made again has another inode; its old watch is dead.
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
      error: error instanceof Error ? error.message : String(error),
    });
  }

  #concerns(directory: string, name: string): boolean {
    // `..data` is the link that Kubernetes swaps when it updates mounted files.
    if (name.startsWith('..') || name === basename(directory)) return true;
    const path = join(directory, name);
    const leadsTo = (target: string): boolean => target === path || target.startsWith(path + sep);
    return this.#entries.some((entry) =>
      isGlob(entry) ? leadsTo(globBase(entry)) || globConcerns(entry, directory, name) : leadsTo(entry),
    );
  }
}

async function directoriesOf(entry: string): Promise<string[]> {
  if (!isGlob(entry)) return [dirname(entry)];
  const matches = await expandGlob(entry);
  return [...new Set([globBase(entry), ...matches.map((match) => dirname(match))])];
}

/** The directory itself, or what is left of the way to it: its creation is an event there. */
async function nearestDirectory(path: string): Promise<{ path: string; identity: string } | undefined> {
  for (let current = path; ; current = dirname(current)) {
    const status = await stat(current).catch(() => undefined);
    if (status?.isDirectory() === true) return { path: current, identity: `${status.dev}:${status.ino}` };
    if (dirname(current) === current) return undefined;
  }
}
