import { readFile } from 'node:fs/promises';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { StoredRows } from '../../core/ports/analytics.ts';
import type { JournalTable } from '../../core/ports/journal.ts';

/** How a `DeduplicatingStore` answers: `lost-answer` stores and then fails, as when a connection breaks late. */
export type StoreMood = 'up' | 'away' | 'lost-answer';

/** Stands in for the analytics store behind a journal: whole blocks, the same token once, bad rows refused. */
export class DeduplicatingStore {
  mood: StoreMood = 'up';
  /** Rows for which this holds make the store refuse their whole block. */
  isBad: (row: string) => boolean = () => false;
  /** Every token that was posted, also those refused, in order. */
  readonly posted: string[] = [];
  readonly rows: Record<JournalTable, string[]> = { requests: [], bodies: [], feedback: [] };
  private readonly blocks = new Map<string, string>();

  /** Rejects or resolves after a turn of the event loop, as a real store would. */
  readonly insert = async (
    table: JournalTable,
    rows: Uint8Array | StoredRows,
    token: string,
  ): Promise<void> => {
    this.posted.push(token);
    await new Promise((resolve) => setImmediate(resolve));
    const bytes = rows instanceof Uint8Array ? rows : await readRows(rows);
    if (this.mood === 'away') throw new GatewayError('store_unavailable', 'The store is away.');
    this.accept(table, Buffer.from(bytes).toString('utf8'), token);
    if (this.mood === 'lost-answer') throw new GatewayError('store_unavailable', 'The answer was lost.');
  };

  private accept(table: JournalTable, text: string, token: string): void {
    if (!text.endsWith('\n')) throw new Error('the last row has no line break');
    const rows = text.slice(0, -1).split('\n');
    if (rows.some(this.isBad)) throw new Error('Cannot parse a row');
    const before = this.blocks.get(token);
    if (before !== undefined && before !== text) throw new Error(`the block ${token} has changed`);
    if (before !== undefined) return;
    this.blocks.set(token, text);
    this.rows[table].push(...rows);
  }
}

/** What the file of a journal holds in a range; as a store that reads it, away when it is gone or too short. */
async function readRows({ path, from, end }: StoredRows): Promise<Uint8Array> {
  const bytes = (await readFile(path)).subarray(from, end);
  if (bytes.length < end - from) throw new GatewayError('store_unavailable', 'The file is too short.');
  return bytes;
}
