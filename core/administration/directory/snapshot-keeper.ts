import type { Clock } from '../../ports/clock.ts';
import type { DirectorySnapshots, KeyRecord } from '../../ports/directory.ts';
import type { Log } from '../../ports/log.ts';
import type { OrganisationSettings, WorkspaceSettings } from '../../ports/organisation-settings.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { DirectoryWorkspace, KnownMember, KnownUser } from './organisation-table.ts';
import type { Known } from './read-changes.ts';

/** An unchanged snapshot is confirmed so often. */
const confirmEveryMs = 5000;
/** Between two snapshots at the least… */
const pauseMs = 1000;
/** …and so many times as long as the last one took: a large directory that changes all the time costs a tenth of a core. */
const pauseFactor = 10;

/** One row of a snapshot. Its shapes may only grow by optional members, or the format of the snapshots gets a new number. */
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

/** What is known as rows. What changes after the call is not in them: the records themselves never change. */
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

/** Puts rows that `snapshotRows` made into what is known. Only what a sealed snapshot gives is given to it. */
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

/** Writes a snapshot when the directory has changed, and confirms the last one while it has not. */
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

  /** Something is known that the last snapshot does not hold. */
  changed(): void {
    this.#hasChanged = true;
  }

  /** A look that began at `at` (wall clock) has succeeded. Called after every one: nothing here has a timer of its own. */
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
