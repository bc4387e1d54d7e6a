import type { Clock } from '../../ports/clock.ts';
import type { DirectorySnapshots, KeyRecord } from '../../ports/directory.ts';
import type { Log } from '../../ports/log.ts';
import type { OrganisationSettings, WorkspaceSettings } from '../../ports/organisation-settings.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { DirectoryWorkspace, KnownMember, KnownUser } from './organisation-table.ts';
import type { Known } from './read-changes.ts';

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
export function restoreRows(rows: Iterable<unknown>, { keys, organisations }: Known): void {
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
export class SnapshotKeeper {
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
