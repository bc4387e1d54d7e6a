import { readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/ports/clock.ts';
import {
  type Journal,
  type JournalStatus,
  type JournalTable,
  journalTables,
  shedReasons,
} from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { hasCode, sentenceOf } from './back-off.ts';

const everyMs = 2000;

/** File with the journal status of a data folder's gateway. */
const statusFile = (data: string): string => path.join(data, 'journal-status.json');

/** The status that a journal keeps in a file. */
export const journalStatus = { file: statusFile, keep: keepStatus, read: readStatus };

/** Options of `keepStatus`. */
interface StatusParts {
  readonly file: string;
  readonly journal: Pick<Journal, 'state' | 'shedBy' | 'room' | 'lastError'>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Writes the status of a journal into a file, now and every two seconds while it changes, for `weir journal status`:
 * only the counting process knows the counts. Returns a function that writes once more and stops. A failed write is
 * logged once.
 */
function keepStatus({ file, journal, clock, log }: StatusParts): () => Promise<void> {
  let written = '';
  let failed = false;
  let cancel = (): void => undefined;
  let running = Promise.resolve();
  const write = async (): Promise<void> => {
    const told = describe(journal);
    const text = JSON.stringify(told);
    if (text === written) return;
    try {
      const whole = { at: new Date(clock.now()).toISOString(), pid: process.pid, ...told };
      await writeFile(`${file}.new`, `${JSON.stringify(whole)}\n`, { mode: 0o600 });
      await rename(`${file}.new`, file);
      written = text;
      failed = false;
    } catch (error) {
      if (!failed) log.warn(`journal: its status cannot be written to ${file} (${sentenceOf(error)})`);
      failed = true;
    }
  };
  const step = (): void => {
    running = write().then(() => {
      cancel = clock.after(everyMs, step);
    });
  };
  step();
  return async () => {
    await running;
    cancel();
    await write();
  };
}

/** The last written status; undefined when there is none, or none that can be read. */
async function readStatus(file: string): Promise<JournalStatus | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(file, 'utf8'));
    return isStatus(value) ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

function describe(journal: StatusParts['journal']): Omit<JournalStatus, 'at' | 'pid'> {
  const table = (one: JournalTable) => {
    const counts = journal.shedBy(one);
    const shedBy = Object.fromEntries(
      shedReasons.filter((reason) => counts[reason] > 0).map((reason) => [reason, counts[reason]]),
    );
    return { ...journal.state(one), shedBy };
  };
  return {
    ...journal.room(),
    lastError: journal.lastError ?? null,
    tables: { requests: table('requests'), bodies: table('bodies'), feedback: table('feedback') },
  };
}

/** Only this program writes the file; an older version may have written fewer members. */
function isStatus(value: unknown): value is JournalStatus {
  if (typeof value !== 'object' || value === null) return false;
  if (!('at' in value && 'pid' in value && 'policy' in value && 'maxBytes' in value && 'bytes' in value))
    return false;
  const tables: unknown = 'tables' in value ? value.tables : undefined;
  if (typeof tables !== 'object' || tables === null) return false;
  return journalTables.every((table) => {
    const one: unknown = (tables as Partial<Record<JournalTable, unknown>>)[table];
    return typeof one === 'object' && one !== null && 'shedBy' in one;
  });
}
