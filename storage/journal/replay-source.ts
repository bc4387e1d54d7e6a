import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { ReplaySource } from '../../core/ports/journal-inspection.ts';
import type { JournalTable } from '../../core/ports/journal.ts';
import { acceptanceOf, ifThere, tableOf } from './inventory.ts';
import { linesOf, readRow } from './row-lines.ts';

/** A row that may go back into the journal. */
export interface ReplayRow {
  readonly table: JournalTable;
  readonly id: string;
  /** Acceptance time, milliseconds. */
  readonly time: number;
  /** As it will stand in the segment, its line break included. */
  readonly bytes: Buffer;
}

/** A line of a file: the row in it, or why there is none. */
export type ReplayLine = { readonly row: ReplayRow } | { readonly offset: number; readonly fault: string };

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Everything in the quarantine of a journal; each file is removed when all of its rows are back. */
export async function quarantineSources(directory: string): Promise<ReplaySource[]> {
  const folder = join(directory, 'quarantine');
  const files = (await ifThere(() => readdir(folder))) ?? [];
  return files.sort().map((file) => ({ path: join(folder, file), table: undefined, remove: true }));
}

/**
 * Reads the rows of a file, in order. A line is a row, or what the quarantine keeps of one (`{"name", "at", "reason",
 * "row"}`, the row as text). Rejects with the system's error.
 */
export async function* replayLines(source: ReplaySource, maxBytes: number): AsyncGenerator<ReplayLine> {
  for await (const line of linesOf(source.path)) {
    const { offset, bytes, isTooLong } = line;
    if (bytes.length === 0 && !isTooLong) continue;
    const kept = isTooLong ? undefined : readKept(bytes);
    const text = kept === undefined ? bytes : Buffer.from(kept.row);
    const table = tableOf(kept?.name ?? '') ?? source.table ?? tableOf(basename(source.path));
    const row = rowOf(text, isTooLong, table);
    if (typeof row === 'string') yield { offset, fault: row };
    else if (row.bytes.length > maxBytes) yield { offset, fault: `is longer than ${maxBytes} bytes` };
    else yield { row };
  }
}

function rowOf(bytes: Buffer, isTooLong: boolean, table: JournalTable | undefined): ReplayRow | string {
  const head = readRow({ bytes, isTooLong });
  if ('fault' in head) return head.fault;
  const { id, value } = head;
  if (!uuid.test(id)) return 'has an id that is no UUID';
  const time = acceptanceOf(value);
  if (time === undefined) return 'has no created_at of the form 2026-01-31 12:34:56.789';
  if (table === undefined) return 'does not say its table: name it with --table';
  // Written on one line, however it was spelled in a file that somebody repaired.
  const line = bytes.includes('\n') ? Buffer.from(JSON.stringify(value)) : bytes;
  return { table, id: id.toLowerCase(), time, bytes: Buffer.concat([line, Buffer.from('\n')]) };
}

function readKept(bytes: Buffer): { name: string; row: string } | undefined {
  // Rows are long and none begins like this, so most are parsed only once.
  if (!bytes.subarray(0, 200).includes('"name"')) return undefined;
  try {
    const kept = JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
    const { name, row, reason } = kept;
    return typeof name === 'string' && typeof row === 'string' && typeof reason === 'string'
      ? { name, row }
      : undefined;
  } catch {
    return undefined;
  }
}
