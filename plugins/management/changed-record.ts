import type { KeyRecord } from '../../core/ports/directory.ts';
import type { RecordKind, StoredRecord } from '../../core/ports/records.ts';

/** What of a record a change can say. */
export type RecordChange<K extends RecordKind> = Partial<
  Pick<StoredRecord<K>, 'name' | 'slug' | 'status' | 'parentId' | 'data' | 'secrets'>
>;

/** The record after a change that was made with this key, in its next version. */
export function changedRecord<K extends RecordKind>(
  before: StoredRecord<K>,
  change: RecordChange<K>,
  { userId, id }: KeyRecord,
  now: number,
): StoredRecord<K> {
  const stamp = { updatedBy: userId || id, updatedAt: now, version: before.version + 1 };
  return { ...before, ...change, ...stamp };
}
