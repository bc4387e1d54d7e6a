import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import { DirectoryWatch } from './directory-watch.ts';
import { Fingerprinter, type Snapshot } from './fingerprint.ts';

/** How files are watched. */
export interface WatchOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** How often files are looked at without any event, milliseconds: network drives send none. Default 1000. */
  readonly pollMs?: number;
  /** How long content must stay the same before it counts, milliseconds: files are half-written. Default 50. */
  readonly settleMs?: number;
  /**
   * When the content now in use was read, by `clock.now()`: files changed since then count as changed at once.
   * Default: the time of the call.
   */
  readonly since?: number;
}

/** A file that goes on changing is taken as it is after this many looks. */
const maxSettleLooks = 40;

/**
 * Calls `onChange` after the content of a file has changed, a file has appeared or gone. `files` gives absolute
 * names and patterns (`*`, `?`, `**`) and is asked again on every look. Only content counts, not time stamps.
 * Runs never overlap: whatever changes while `onChange` runs (it may return a promise) leads to one more run
 * afterwards. A file that is new in the list counts as changed only if it was modified after the last run began.
 * A throw of `onChange` is logged. Keeps no process alive. Returns the function that stops watching.
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
  /** When the content in use was read at the earliest. */
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

  /** Compares the files with what was seen. On a poll the files' status decides what is read again. */
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

  /** Events come in bursts; one look a little later serves them all. */
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
        this.#log.error('Looking for changed files failed', { error: describe(error) });
      }
      trustStatus = false;
    } while (this.#lookAgain && !this.#stopped);
  }

  async #lookOnce(trustStatus: boolean): Promise<void> {
    const entries = this.#files();
    // First the watch, then the look: what changes in between sends an event.
    await this.#directories.follow(entries);
    let now = await this.#fingerprinter.snapshot(entries, trustStatus);
    if (this.#differs(now)) now = await this.#settled(now);
    if (this.#stopped) return;
    const changed = this.#differs(now);
    this.#seen = now;
    if (!changed) return;
    this.#since = this.#clock.now();
    // The list may be another one afterwards, and files may have changed meanwhile.
    this.#lookAgain = true;
    try {
      await this.#onChange();
    } catch (error) {
      this.#log.error('Reacting to a changed file failed', { error: describe(error) });
    }
  }

  /** Looks until two snapshots in a row are the same. */
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
      // Strictly later than the millisecond in which it was read, or files just written would count.
      if (before === undefined ? changedAt >= this.#since + 1 : before.content !== content) return true;
    }
    return false;
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
