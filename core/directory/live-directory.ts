import { bounded } from '../lifecycle/bounded.ts';
import type { Clock } from '../ports/clock.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Resources } from '../ports/resources.ts';
import { ensureDefaultRecords } from './default-records.ts';
import { DirectoryReport } from './directory-report.ts';
import { KeyTable } from './key-table.ts';
import { readAllKeys, readChanges, type OrganisationChanges } from './read-changes.ts';

/** Notifications may be lost: this often the numbers of changes are read anyway. */
const lookEveryMs = 2000;
/** Between attempts while nothing has been read yet. */
const retryMs = 500;
const startMs = 30_000;
const lookTimeoutMs = 10_000;
const loadTimeoutMs = 60_000;
/** The store remembers removals for a day; who was away for longer than this reads everything again. */
const forgetsAfterMs = 12 * 3_600_000;

/** What `createDirectory` needs. */
export interface DirectoryOptions {
  /** What is known without a store: the default organisation and workspace, the owner's key. Its keys come first. */
  readonly base: Directory;
  readonly resources: Resources;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** A directory that follows a store. */
export interface LiveDirectory extends Directory {
  /** The store, with writes that resolve when this directory knows of them (unless it cannot read just then). */
  readonly resources: Resources;
  /**
   * Reads everything, and follows the store from then on. Resolves when everything is known, after 30 seconds at
   * the latest: the rest is read when the store answers. Never rejects.
   */
  start(): Promise<void>;
  /** Resolves when everything that the store holds now is known, or could not be read. Never rejects. */
  refresh(): Promise<void>;
  /** Ends following; what is known stays. Does not close the store. */
  close(): void;
}

/**
 * Makes the request path's view of the store: all keys in memory, never a database call. While the store is away it
 * keeps what it knew.
 */
export function createDirectory(options: DirectoryOptions): LiveDirectory {
  return new StoreDirectory(options);
}

class StoreDirectory implements LiveDirectory {
  readonly defaultOrganisationId: string;
  readonly defaultWorkspaceId: string;
  readonly resources: Resources;
  readonly #options: DirectoryOptions;
  readonly #report: DirectoryReport;
  #keys: KeyTable;
  readonly #archived = new Set<string>();
  readonly #archivedOf = new Map<string, readonly string[]>();
  /** The number of each organisation's last change that is known. */
  #known: Map<string, number> | undefined;
  #lookedAt = 0;
  #hasDefaults = false;
  /** Counts looks: one that was given up must not change anything when it ends late. */
  #turn = 0;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #cancelLook: () => void = () => undefined;
  #unsubscribe: () => void = () => undefined;
  #closed = false;

  constructor(options: DirectoryOptions) {
    const { base, resources, clock, log, metrics } = options;
    this.#options = options;
    this.defaultOrganisationId = base.defaultOrganisationId;
    this.defaultWorkspaceId = base.defaultWorkspaceId;
    this.#keys = this.#newTable();
    this.#report = new DirectoryReport({ clock, log, metrics, keys: () => this.#keys.size });
    this.resources = {
      write: async (organisationId, work) => {
        const result = await resources.write(organisationId, work);
        await this.refresh();
        return result;
      },
      read: (work) => resources.read(work),
      changes: () => resources.changes(),
      onChange: (look) => resources.onChange(look),
      ping: () => resources.ping(),
      close: () => resources.close(),
    };
  }

  keyByHash(sha256: string): KeyRecord | undefined {
    return this.#options.base.keyByHash(sha256) ?? this.#keys.find(sha256);
  }

  isArchived(workspaceId: string): boolean {
    return this.#archived.has(workspaceId);
  }

  async start(): Promise<void> {
    const { resources, clock, log } = this.#options;
    this.#unsubscribe = resources.onChange(() => void this.refresh());
    // The clock's timers do not keep the process alive, and while the store is away nothing else may.
    const alive = setInterval(() => undefined, startMs);
    const late = (): Error => new Error('no answer');
    try {
      await bounded(() => this.#firstLook(), { clock, ms: startMs, late });
    } catch {
      log.warn(
        `The store of keys and workspaces has not answered for ${startMs / 1000} s: started without it. Only the owner's key and those of the configuration work until it does.`,
      );
    } finally {
      clearInterval(alive);
    }
  }

  async #firstLook(): Promise<void> {
    await this.refresh();
    while (this.#known === undefined && !this.#closed) {
      await new Promise<void>((resolve) => void this.#options.clock.after(retryMs, resolve));
      await this.refresh();
    }
    this.#scheduleLook();
  }

  #scheduleLook(): void {
    if (this.#closed) return;
    this.#cancelLook = this.#options.clock.after(lookEveryMs, () => {
      void this.refresh().then(() => this.#scheduleLook());
    });
  }

  refresh(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    if (this.#running === undefined) return this.#begin();
    // The look that runs may have read before what the caller wants to see; the one behind it has not begun.
    this.#next = this.#running.then(() => {
      this.#next = undefined;
      return this.#begin();
    });
    return this.#next;
  }

  #begin(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    const running = this.#look().then(() => {
      this.#running = undefined;
    });
    this.#running = running;
    return running;
  }

  async #look(): Promise<void> {
    const { clock } = this.#options;
    this.#turn += 1;
    const turn = this.#turn;
    const startedAt = clock.monotonic();
    const isWhole = this.#known === undefined || startedAt - this.#lookedAt > forgetsAfterMs;
    const ms = isWhole ? loadTimeoutMs : lookTimeoutMs;
    const late = (): Error => new Error(`no answer within ${ms} ms`);
    try {
      await bounded(() => (isWhole ? this.#readAll(turn) : this.#readMoved(turn)), { clock, ms, late });
      this.#lookedAt = startedAt;
      this.#report.succeeded();
    } catch (error) {
      this.#turn += 1;
      if (!this.#closed) this.#report.failed(error);
    }
  }

  async #readAll(turn: number): Promise<void> {
    const { base, clock, resources } = this.#options;
    if (!this.#hasDefaults) {
      await ensureDefaultRecords(resources, base, clock);
      this.#hasDefaults = true;
    }
    // Before the keys: what changes while they are read has a higher number, and is read again.
    const numbers = await resources.changes();
    const keys = this.#newTable();
    await readAllKeys(resources, (key) => keys.put(key));
    const archived = new Map<string, OrganisationChanges>();
    for (const [id, number] of numbers) archived.set(id, await readChanges(resources, id, number));
    if (turn !== this.#turn) return;
    this.#keys = keys;
    this.#known = new Map(numbers);
    for (const [id, changes] of archived) this.#apply(id, changes);
  }

  async #readMoved(turn: number): Promise<void> {
    const { resources } = this.#options;
    for (const [id, number] of await resources.changes()) {
      const known = this.#known?.get(id) ?? 0;
      if (number === known) continue;
      // Numbers only grow: this is another store, or an older state of it. Nothing that is known holds.
      if (number < known) return this.#readAll(turn);
      const changes = await readChanges(resources, id, known);
      if (turn !== this.#turn) return;
      this.#apply(id, changes);
      this.#known?.set(id, number);
    }
  }

  #apply(organisationId: string, { removed, stored, archived }: OrganisationChanges): void {
    for (const id of removed) this.#keys.remove(id);
    for (const key of stored) this.#keys.put(key);
    for (const id of this.#archivedOf.get(organisationId) ?? []) this.#archived.delete(id);
    for (const id of archived) this.#archived.add(id);
    this.#archivedOf.set(organisationId, archived);
  }

  #newTable(): KeyTable {
    const { defaultOrganisationId, defaultWorkspaceId } = this.#options.base;
    return new KeyTable((organisationId) =>
      organisationId === defaultOrganisationId ? defaultWorkspaceId : '',
    );
  }

  close(): void {
    this.#closed = true;
    this.#cancelLook();
    this.#unsubscribe();
    this.#report.close();
  }
}
