import type { RecordKind, StoredRecord } from '../../ports/records.ts';

type Records = readonly StoredRecord[];

/** Lists of the file with those of the store behind them: the same list for as long as both are the same. */
export class JoinedLists {
  readonly #known = new WeakMap<Records, WeakMap<Records, Records>>();

  of<K extends RecordKind>(
    own: readonly StoredRecord<K>[],
    stored: readonly StoredRecord<K>[],
  ): readonly StoredRecord<K>[] {
    let behind = this.#known.get(own);
    if (behind === undefined) this.#known.set(own, (behind = new WeakMap()));
    const known = behind.get(stored) as readonly StoredRecord<K>[] | undefined;
    if (known !== undefined) return known;
    const joined = own.concat(stored);
    behind.set(stored, joined);
    return joined;
  }
}
