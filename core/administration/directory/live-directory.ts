import { GatewayError } from '../../errors/gateway-error.ts';
import { bounded } from '../../base/deadline.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Directory, DirectorySnapshots, DirectoryStanding, KeyRecord } from '../../ports/directory.ts';
import type { Log } from '../../ports/log.ts';
import type { Metrics } from '../../ports/metrics.ts';
import type { OrganisationSettings, WorkspaceSettings } from '../../ports/organisation-settings.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';
import { type DefaultOwner, ensureDefaultRecords } from './default-records.ts';
import { DirectoryReport, type DirectoryStatus } from './directory-report.ts';
import { KnownDirectory, nothingKnown } from './file-records-directory.ts';
import type { DirectoryWorkspace, KnownMember, KnownUser } from './organisation-table.ts';
import { type Known, readAllKeys, readChanged, type StoreReader } from './read-changes.ts';

/** Interval of reading the change numbers: notifications may be lost. */
const lookEveryMs = 2000;
/** Wait between attempts before the first successful read. */
const retryMs = 500;
/** Bound of the wait at the start for a slow store… */
const startMs = 30_000;
/** …and for a failing one: its opening has waited already. */
const awayMs = 1000;
/** Time limit of one query to the store. */
const questionTimeoutMs = 10_000;
/** Time limit of all queries of one look. */
const lookTimeoutMs = 60_000;
/** The store remembers removals for a day; after a longer outage than this the directory reads everything again. */
const forgetsAfterMs = 12 * 3_600_000;

/** Options of `createDirectory`. */
interface DirectoryOptions {
  /** Runs once, before the default records are made and anything is read from the store. Default: nothing. */
  readonly prepareStore?: () => Promise<void>;
  /** Records that need no store: the default organisation and workspace, the owner's key. Its keys come first. */
  readonly base: Directory;
  /** Owner of the default organisation when it is created. */
  readonly owner: DefaultOwner;
  readonly resources: Resources;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Milliseconds after which unrefreshed data are no longer relied on. Default: never. */
  readonly maxAgeMs?: number;
  /** Storage of snapshots for a start without the store; undefined for a store that starts with the gateway. */
  readonly snapshots?: DirectorySnapshots | undefined;
}

/** A directory that follows a store. */
export interface LiveDirectory extends Directory {
  /** The store; its writes resolve when this directory has read them (unless it cannot read just then). */
  readonly resources: Resources;
  /**
   * Reads everything, then follows the store. Resolves when everything is known, or when the store has failed for 1
   * second or been read for 30: then the snapshot serves until the store answers. Never rejects.
   */
  start(): Promise<void>;
  /** Resolves when the present content of the store is known, or could not be read. Never rejects. */
  refresh(): Promise<void>;
  /**
   * Reasons why requests with keys of the store cannot be served now, in sentences for anybody; empty when they can.
   */
  unready(): readonly string[];
  status(): DirectoryStatus;
  /** Changes `maxAgeMs` from now on. */
  limitAge(maxAgeMs: number): void;
  /** Stops following; keeps the present data. Does not close the store. */
  close(): void;
}

/**
 * Makes the request path's view of the store: all keys in memory, no database calls. During an outage of the store it
 * keeps its data.
 */
export function createDirectory(options: DirectoryOptions): LiveDirectory {
  return new StoreDirectory(options);
}

class StoreDirectory extends KnownDirectory implements LiveDirectory {
  readonly resources: Resources;
  readonly #options: DirectoryOptions;
  readonly #report: DirectoryReport;
  readonly #keeper: SnapshotKeeper | undefined;
  readonly #store: StoreReader & Pick<Resources, 'changes'>;
  /** Last known change number of each organisation; undefined until everything has been read. */
  #numbers: Map<string, number> | undefined;
  #lookedAt = 0;
  #hasDefaults = false;
  /** Counts looks: an abandoned look must not change anything when it ends late. */
  #turn = 0;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #cancelLook: () => void = () => undefined;
  #unsubscribe: () => void = () => undefined;
  #closed = false;

  constructor(options: DirectoryOptions) {
    const { base, resources, clock, log, metrics, snapshots } = options;
    const { maxAgeMs = Infinity } = options;
    super(base);
    this.#options = options;
    const bound = { clock, ms: questionTimeoutMs, late: () => storeTimeoutError(questionTimeoutMs) };
    this.#store = {
      read: (work) => bounded(() => resources.read(work), bound),
      changes: () => bounded(() => resources.changes(), bound),
    };
    this.#report = new DirectoryReport({ clock, log, metrics, maxAgeMs, keys: () => this.known.keys.size });
    this.#keeper = snapshots && new SnapshotKeeper({ snapshots, clock, log, known: () => this.known });
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

  override standing(): DirectoryStanding {
    return this.#report.standing();
  }

  status(): DirectoryStatus {
    return this.#report.status();
  }

  async start(): Promise<void> {
    const { resources, clock, log } = this.#options;
    this.#unsubscribe = resources.onChange(() => void this.refresh());
    // The clock's timers do not keep the process alive, and during an outage of the store nothing else may.
    const alive = setInterval(() => undefined, startMs);
    const bound = { clock, ms: startMs, late: () => storeTimeoutError(startMs) };
    await bounded(() => this.#firstLooks(), bound).catch(() => undefined);
    if (this.#numbers === undefined) await this.#restore();
    clearInterval(alive);
    if (this.#report.knowsNothing && !this.#closed)
      log.warn(
        "The store of keys and workspaces cannot be read, and there is no snapshot of it: only the owner's key and those of the configuration work; others are refused with 503 until it can.",
      );
  }

  /** Resolves when everything is known or the store fails; further looks are scheduled. */
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

  /** Restores the snapshot, unless the store has answered meanwhile. The store is still read in full afterwards. */
  async #restore(): Promise<void> {
    const snapshot = await this.#options.snapshots?.read();
    if (snapshot === undefined || this.#numbers !== undefined || this.#closed) return;
    const known = nothingKnown(this.#options.base);
    restoreRows(snapshot.rows, known);
    this.known = known;
    this.#report.restored(Math.max(0, this.#options.clock.now() - snapshot.at));
  }

  unready(): readonly string[] {
    return this.#report.unready();
  }

  limitAge(maxAgeMs: number): void {
    this.#report.limitAge(maxAgeMs);
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
    // The running look may have read before the caller's change; the next one has not begun.
    this.#next = this.#running.then(() => {
      this.#next = undefined;
      return this.#begin();
    });
    return this.#next;
  }

  /** A store that has just become available may lack the default records, which others refer to and callers expect. */
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
    const at = clock.now();
    const isWhole = this.#numbers === undefined || startedAt - this.#lookedAt > forgetsAfterMs;
    const bound = { clock, ms: lookTimeoutMs, late: () => storeTimeoutError(lookTimeoutMs) };
    try {
      await bounded(() => (isWhole ? this.#readAll(turn) : this.#readMoved(turn)), bound);
      this.#lookedAt = startedAt;
      this.#report.succeeded(startedAt);
      this.#keeper?.looked(at);
    } catch (error) {
      this.#turn += 1;
      if (!this.#closed) this.#report.failed(error);
    }
  }

  async #readAll(turn: number): Promise<void> {
    const { base, clock, log, resources, owner, prepareStore } = this.#options;
    if (!this.#hasDefaults) {
      await prepareStore?.();
      await ensureDefaultRecords(resources, { base, owner, clock, log });
      this.#hasDefaults = true;
    }
    const isWanted = (): boolean => turn === this.#turn;
    // Read first: later changes have higher numbers and are read again.
    const numbers = await this.#store.changes();
    const known = nothingKnown(this.#options.base);
    await readAllKeys(this.#store, (key) => known.keys.put(key));
    for (const [organisationId, after] of numbers)
      await readChanged(this.#store, { organisationId, after, known, isWanted });
    if (!isWanted()) return;
    this.known = known;
    this.#numbers = new Map(numbers);
    this.#keeper?.changed();
  }

  async #readMoved(turn: number): Promise<void> {
    const isWanted = (): boolean => turn === this.#turn;
    for (const [organisationId, number] of await this.#store.changes()) {
      const after = this.#numbers?.get(organisationId) ?? 0;
      if (number === after) continue;
      // Numbers only grow: this is another store, or an older state of it. The present data are invalid.
      if (number < after) return this.#readAll(turn);
      await readChanged(this.#store, { organisationId, after, known: this.known, isWanted });
      if (!isWanted()) return;
      this.#numbers?.set(organisationId, number);
      this.#keeper?.changed();
    }
  }

  close(): void {
    this.#closed = true;
    this.#cancelLook();
    this.#unsubscribe();
    this.#report.close();
  }
}

/** A store that does not answer in time counts as away, like one that refuses connections. */
function storeTimeoutError(ms: number): Error {
  return new GatewayError('store_unavailable', `The resources store has not answered within ${ms} ms.`);
}

/** Interval at which an unchanged snapshot is confirmed. */
const confirmEveryMs = 5000;
/** Shortest pause between two snapshots… */
const pauseMs = 1000;
/** …and its multiple of the last one's duration: a large directory under constant change costs a tenth of a core. */
const pauseFactor = 10;

/** One row of a snapshot. Shapes may only gain optional members; any other change needs a new format number. */
type SnapshotRow = KeyRow | OrganisationRow | RecordRow;

interface KeyRow {
  readonly type: 'key';
  readonly hash: string;
  readonly key: KeyRecord;
}

interface OrganisationRow {
  readonly type: 'organisation';
  readonly id: string;
  readonly workspaces: readonly DirectoryWorkspace[];
  readonly settings: OrganisationSettings;
  readonly overriding: readonly WorkspaceSettings[];
  readonly users: readonly KnownUser[];
  readonly members: readonly KnownMember[];
}

interface RecordRow {
  readonly type: 'record';
  readonly record: StoredRecord;
}

/** The present data as rows. Later changes are not in them: the records themselves are immutable. */
function snapshotRows({ keys, organisations }: Known): Iterable<SnapshotRow> {
  const secrets = keys.entries();
  const views = organisations.all().map(([id, view]) => ({
    organisation: {
      type: 'organisation' as const,
      id,
      members: organisations.members(id),
      ...view.contents(),
    },
    records: view.records.all(),
  }));
  return (function* () {
    for (const { organisation, records } of views) {
      yield organisation;
      for (const record of records) yield { type: 'record', record } as const;
    }
    for (const [hash, key] of secrets) yield { type: 'key', hash, key } as const;
  })();
}

/** Adds the rows of `snapshotRows` to the data. Only rows of a sealed snapshot come here. */
function restoreRows(rows: Iterable<unknown>, { keys, organisations }: Known): void {
  for (const row of rows as Iterable<SnapshotRow>) {
    if (row.type === 'key') keys.restore(row.hash, row.key);
    else if (row.type === 'record') organisations.view(row.record.organisationId).records.put(row.record);
    else {
      organisations.putWorkspaces(row.id, row.workspaces);
      organisations.view(row.id).putSettings(row.settings, row.overriding);
      organisations.putPeople(row.id, row.users, row.members);
    }
  }
}

/** Options of `SnapshotKeeper`. */
interface SnapshotKeeperOptions {
  readonly snapshots: DirectorySnapshots;
  readonly clock: Clock;
  readonly log: Log;
  readonly known: () => Known;
}

/** Writes a snapshot when the directory has changed; confirms the last one otherwise. */
class SnapshotKeeper {
  readonly #options: SnapshotKeeperOptions;
  #hasChanged = false;
  #confirmedAt = 0;
  #nextWriteAt = -Infinity;
  #isBusy = false;
  #hasFailed = false;

  constructor(options: SnapshotKeeperOptions) {
    this.#options = options;
  }

  /** The directory has changed since the last snapshot. */
  changed(): void {
    this.#hasChanged = true;
  }

  /**
   * A look that began at `at` (wall clock) has succeeded. Called after every one: this class has no timer of its own.
   */
  looked(at: number): void {
    if (this.#isBusy) return;
    const { clock, snapshots, known } = this.#options;
    if (this.#hasChanged) {
      if (clock.monotonic() < this.#nextWriteAt) return;
      this.#hasChanged = false;
      void this.#keep(at, () => snapshots.write({ at, rows: snapshotRows(known()) }));
    } else if (Math.abs(at - this.#confirmedAt) >= confirmEveryMs) {
      void this.#keep(at, () => snapshots.confirm(at));
    }
  }

  async #keep(at: number, work: () => Promise<void>): Promise<void> {
    const { clock, log } = this.#options;
    const since = clock.monotonic();
    this.#isBusy = true;
    try {
      await work();
      this.#confirmedAt = at;
      if (this.#hasFailed) log.info('The snapshot of keys and workspaces can be written again');
      this.#hasFailed = false;
    } catch (error) {
      this.#hasChanged = true;
      if (!this.#hasFailed)
        log.warn(
          'The snapshot of keys and workspaces cannot be written: a start without their store would not know them. It is tried again.',
          { error },
        );
      this.#hasFailed = true;
    } finally {
      const now = clock.monotonic();
      this.#nextWriteAt = now + Math.max(pauseMs, (now - since) * pauseFactor);
      this.#isBusy = false;
    }
  }
}
