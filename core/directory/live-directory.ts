import { bounded } from '../lifecycle/bounded.ts';
import type { Clock } from '../ports/clock.ts';
import type { Directory, DirectoryUser, KeyRecord } from '../ports/directory.ts';
import type { Log } from '../ports/log.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { OrganisationDefaults, SecuritySettings } from '../ports/organisation-settings.ts';
import type { WorkspaceRole } from '../ports/people.ts';
import type { RecordKind, RecordPlace, StoredRecord } from '../ports/records.ts';
import type { Resources } from '../ports/resources.ts';
import { ensureDefaultRecords, type DefaultOwner } from './default-records.ts';
import { DirectoryReport } from './directory-report.ts';
import { KeyTable } from './key-table.ts';
import { OrganisationTable } from './organisation-table.ts';
import { readAllKeys, readChanged, type Known, type StoreReader } from './read-changes.ts';

/** Notifications may be lost: this often the numbers of changes are read anyway. */
const lookEveryMs = 2000;
/** Between attempts while nothing has been read yet. */
const retryMs = 500;
/** What answers slowly is waited for at the start… */
const startMs = 30_000;
/** …and so long what fails: whoever opened the store has waited for it already. */
const awayMs = 1000;
/** One question to the store. */
const questionTimeoutMs = 10_000;
/** All questions of one look. */
const lookTimeoutMs = 60_000;
/** The store remembers removals for a day; who was away for longer than this reads everything again. */
const forgetsAfterMs = 12 * 3_600_000;

/** What `createDirectory` needs. */
export interface DirectoryOptions {
  /** What is known without a store: the default organisation and workspace, the owner's key. Its keys come first. */
  readonly base: Directory;
  /** Who owns the default organisation when it is made. */
  readonly owner: DefaultOwner;
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
   * Reads everything, and follows the store from then on. Resolves when everything is known, or when the store has
   * failed for a second or been read for 30: the rest is read when the store answers. Never rejects.
   */
  start(): Promise<void>;
  /** Resolves when everything that the store holds now is known, or could not be read. Never rejects. */
  refresh(): Promise<void>;
  /** Why requests with keys of the store cannot be served now, in sentences for anybody; empty when they can. */
  unready(): readonly string[];
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
  readonly #store: StoreReader & Pick<Resources, 'changes'>;
  #known: Known;
  /** The number of each organisation's last change that is known; undefined until everything has been read. */
  #numbers: Map<string, number> | undefined;
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
    const late = (): Error => new Error(`no answer within ${questionTimeoutMs} ms`);
    const bound = { clock, ms: questionTimeoutMs, late };
    this.#store = {
      read: (work) => bounded(() => resources.read(work), bound),
      changes: () => bounded(() => resources.changes(), bound),
    };
    this.#known = this.#nothingKnown();
    this.#report = new DirectoryReport({ clock, log, metrics, keys: () => this.#known.keys.size });
    this.resources = {
      write: async (organisationId, work) => {
        await this.#untilDefaults();
        const result = await resources.write(organisationId, work);
        await this.refresh();
        return result;
      },
      read: async (work) => {
        await this.#untilDefaults();
        return resources.read(work);
      },
      changes: () => resources.changes(),
      onChange: (look) => resources.onChange(look),
      ping: () => resources.ping(),
      close: () => resources.close(),
    };
  }

  keyByHash(sha256: string): KeyRecord | undefined {
    return this.#options.base.keyByHash(sha256) ?? this.#known.keys.find(sha256);
  }

  keyById(id: string): KeyRecord | undefined {
    return this.#options.base.keyById(id) ?? this.#known.keys.findById(id);
  }

  isArchived(workspaceId: string): boolean {
    return this.#known.organisations.isArchived(workspaceId);
  }

  workspaceId(organisationId: string, idOrSlug: string): string | undefined {
    return this.#known.organisations.workspaceId(organisationId, idOrSlug);
  }

  defaultsOf(organisationId: string, workspaceId: string): OrganisationDefaults {
    return this.#known.organisations.defaultsOf(organisationId, workspaceId);
  }

  rateLimitsOf(organisationId: string, workspaceId: string): ReturnType<Directory['rateLimitsOf']> {
    return this.#known.organisations.rateLimitsOf(organisationId, workspaceId);
  }

  settingsIn(organisationId: string, workspaceId: string): SecuritySettings {
    return this.#known.organisations.settingsIn(organisationId, workspaceId);
  }

  user(organisationId: string, idOrEmail: string): DirectoryUser | undefined {
    return this.#known.organisations.user(organisationId, idOrEmail);
  }

  memberRole(workspaceId: string, userId: string): WorkspaceRole | undefined {
    return this.#known.organisations.memberRole(workspaceId, userId);
  }

  record<K extends RecordKind>(kind: K, place: RecordPlace, idOrSlug: string): StoredRecord<K> | undefined {
    return this.#known.organisations.record(kind, place, idOrSlug);
  }

  records<K extends RecordKind>(kind: K, place: RecordPlace): readonly StoredRecord<K>[] {
    return this.#known.organisations.records(kind, place);
  }

  async start(): Promise<void> {
    const { resources, clock, log } = this.#options;
    this.#unsubscribe = resources.onChange(() => void this.refresh());
    // The clock's timers do not keep the process alive, and while the store is away nothing else may.
    const alive = setInterval(() => undefined, startMs);
    const late = (): Error => new Error('no answer');
    await bounded(() => this.#firstLooks(), { clock, ms: startMs, late }).catch(() => undefined);
    clearInterval(alive);
    if (this.#numbers === undefined && !this.#closed)
      log.warn(
        "The store of keys and workspaces cannot be read: started without it. Only the owner's key and those of the configuration work until it is.",
      );
  }

  /** Resolves when everything is known or the store fails; looks go on behind it. */
  async #firstLooks(): Promise<void> {
    const since = this.#options.clock.monotonic();
    for (;;) {
      await this.refresh();
      const { clock } = this.#options;
      if (this.#closed || this.#numbers !== undefined || clock.monotonic() - since >= awayMs) break;
      await new Promise<void>((resolve) => void clock.after(retryMs, resolve));
    }
    this.#scheduleLook();
  }

  unready(): readonly string[] {
    if (this.#numbers !== undefined) return [];
    return [
      'The store of keys and workspaces has not been read since the start: its keys are not known here.',
    ];
  }

  #scheduleLook(): void {
    if (this.#closed) return;
    const ms = this.#numbers === undefined ? retryMs : lookEveryMs;
    this.#cancelLook = this.#options.clock.after(ms, () => {
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

  /** A store that has come this moment may lack the default records, which others refer to and callers expect. */
  async #untilDefaults(): Promise<void> {
    if (!this.#hasDefaults) await this.refresh();
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
    const isWhole = this.#numbers === undefined || startedAt - this.#lookedAt > forgetsAfterMs;
    const late = (): Error => new Error(`no end within ${lookTimeoutMs} ms`);
    const bound = { clock, ms: lookTimeoutMs, late };
    try {
      await bounded(() => (isWhole ? this.#readAll(turn) : this.#readMoved(turn)), bound);
      this.#lookedAt = startedAt;
      this.#report.succeeded();
    } catch (error) {
      this.#turn += 1;
      if (!this.#closed) this.#report.failed(error);
    }
  }

  async #readAll(turn: number): Promise<void> {
    const { base, clock, log, resources, owner } = this.#options;
    if (!this.#hasDefaults) {
      await ensureDefaultRecords(resources, { base, owner, clock, log });
      this.#hasDefaults = true;
    }
    const isWanted = (): boolean => turn === this.#turn;
    // Before the rest: what changes while that is read has a higher number, and is read again.
    const numbers = await this.#store.changes();
    const known = this.#nothingKnown();
    await readAllKeys(this.#store, (key) => known.keys.put(key));
    for (const [organisationId, after] of numbers)
      await readChanged(this.#store, { organisationId, after, known, isWanted });
    if (!isWanted()) return;
    this.#known = known;
    this.#numbers = new Map(numbers);
  }

  async #readMoved(turn: number): Promise<void> {
    const isWanted = (): boolean => turn === this.#turn;
    for (const [organisationId, number] of await this.#store.changes()) {
      const after = this.#numbers?.get(organisationId) ?? 0;
      if (number === after) continue;
      // Numbers only grow: this is another store, or an older state of it. Nothing that is known holds.
      if (number < after) return this.#readAll(turn);
      await readChanged(this.#store, { organisationId, after, known: this.#known, isWanted });
      if (!isWanted()) return;
      this.#numbers?.set(organisationId, number);
    }
  }

  #nothingKnown(): Known {
    const { defaultOrganisationId, defaultWorkspaceId } = this.#options.base;
    const keys = new KeyTable((organisationId) =>
      organisationId === defaultOrganisationId ? defaultWorkspaceId : '',
    );
    return { keys, organisations: new OrganisationTable() };
  }

  close(): void {
    this.#closed = true;
    this.#cancelLook();
    this.#unsubscribe();
    this.#report.close();
  }
}
