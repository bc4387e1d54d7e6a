import type { OrganisationRecord } from '../../ports/resources.ts';

/** How an organisation is imported. */
export interface ImportOptions {
  /** Overwrite what differs. */
  readonly replace: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Name of the file, for the audit trail. */
  readonly file: string;
}

/** What became of a record of the file. `kept`: it differs, and the stored one stays. */
type ImportOutcome = 'added' | 'equal' | 'replaced' | 'kept';

/** How the import of an organisation ended. */
export interface ImportReport {
  readonly organisation: OrganisationRecord;
  readonly added: number;
  readonly equal: number;
  readonly replaced: number;
  /** What differs and stays, in words: `key 4f2a…`. */
  readonly kept: readonly string[];
}

/** Counts what an import does. */
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

  /** Counts what another one counted, too. */
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

/** A record without what says when it was made and changed: two that say the same may differ in that. */
export function undated(shown: object): object {
  return Object.fromEntries(Object.entries(shown).filter(([name]) => !dates.has(name)));
}

const dates: ReadonlySet<string> = new Set([
  ...['created_at', 'updated_at', 'version', 'created_by', 'updated_by'],
]);
