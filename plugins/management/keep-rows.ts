import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { Journal, JournalTable } from '../../core/ports/journal.ts';

/** A row on its way to the analytics store. */
export interface KeptRow {
  readonly table: JournalTable;
  readonly line: string;
}

/**
 * Puts rows where a crash does not lose them; `owner` is their workspace. Throws `store_unavailable` when the journal has
 * no room for all of them.
 */
export async function keepRows(journal: Journal, rows: readonly KeptRow[], owner: string): Promise<void> {
  const tables = [...new Set(rows.map(({ table }) => table))];
  const shed = (): number => tables.reduce((sum, table) => sum + journal.state(table).shed, 0);
  const before = shed();
  for (const { table, line } of rows) journal.append(table, line, owner);
  await journal.flush();
  if (shed() === before) return;
  throw new GatewayError(
    'store_unavailable',
    'The journal has no room, and not all of it was kept. Try again when the analytics store takes rows.',
    { headers: ['retry-after', '5'] },
  );
}
