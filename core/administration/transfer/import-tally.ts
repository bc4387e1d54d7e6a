import type { OrganisationRecord } from '../../ports/resources.ts';

/** Options of an organisation's import. */
export interface ImportOptions {
  /** Overwrite different records. */
  readonly replace: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Name of the file, for the audit trail. */
  readonly file: string;
}

/** Outcome for a record of the file. `kept`: it differs, and the stored one stays. */
type ImportOutcome = 'added' | 'equal' | 'replaced' | 'kept';

/** Result of an organisation's import. */
export interface ImportReport {
  readonly organisation: OrganisationRecord;
  readonly added: number;
  readonly equal: number;
  readonly replaced: number;
  /** Different records that stay, in words: `key 4f2a…`. */
  readonly kept: readonly string[];
}

/** Counts the outcomes of an import. */
export class ImportTally {
  readonly #kept: string[] = [];
  readonly #totals: Record<ImportOutcome, number> = { added: 0, equal: 0, replaced: 0, kept: 0 };
  readonly #byName = new Map<string, Record<ImportOutcome, number>>();

  note(name: string, id: string, outcome: ImportOutcome): void {
    this.#totals[outcome] += 1;
    let counts = this.#byName.get(name);
    if (counts === undefined) this.#byName.set(name, (counts = { added: 0, equal: 0, replaced: 0, kept: 0 }));
    counts[outcome] += 1;
    if (outcome === 'kept') this.#kept.push(`${name} ${id}`);
  }

  /** Adds the counts of another tally. */
  add(other: ImportTally): void {
    for (const outcome of ['added', 'equal', 'replaced', 'kept'] as const)
      this.#totals[outcome] += other.#totals[outcome];
    this.#kept.push(...other.#kept);
  }

  /** Whether anything was stored. */
  get isChange(): boolean {
    return this.#totals.added + this.#totals.replaced > 0;
  }

  /** By kind, for the audit trail. */
  get counts(): Readonly<Record<string, Readonly<Record<ImportOutcome, number>>>> {
    return Object.fromEntries(this.#byName);
  }

  report(organisation: OrganisationRecord): ImportReport {
    const { added, equal, replaced } = this.#totals;
    return { organisation, added, equal, replaced, kept: this.#kept };
  }
}

/** A record without its dates of creation and change, for comparison. */
export function withoutDates(shown: object): object {
  return Object.fromEntries(Object.entries(shown).filter(([name]) => !dates.has(name)));
}

const dates: ReadonlySet<string> = new Set([
  ...['created_at', 'updated_at', 'version', 'created_by', 'updated_by'],
]);
