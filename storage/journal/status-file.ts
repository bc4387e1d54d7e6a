import { readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/ports/clock.ts';
import type { JournalStatus } from '../../core/ports/journal-inspection.ts';
import { journalTables, shedReasons, type Journal, type JournalTable } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { hasCode, sentenceOf } from './back-off.ts';

const everyMs = 2000;

/** Where the gateway of a data folder tells how its journal is. */
export const statusFile = (data: string): string => path.join(data, 'journal-status.json');

/** Options of `keepStatus`. */
interface StatusParts {
  readonly file: string;
  readonly journal: Pick<Journal, 'state' | 'shedBy' | 'room' | 'lastError'>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Writes how a journal is into a file, now and every two seconds while something changes, for `weir journal status`:
 * counts are known only to the process that counts. Returns what ends it, after a last time. A file that cannot be written
 * is told to the log once.
 */
export function keepStatus({ file, journal, clock, log }: StatusParts): () => Promise<void> {
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

/** What was written last; undefined when there is nothing, or nothing that can be read. */
export async function readStatus(file: string): Promise<JournalStatus | undefined> {
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

/** Only this program writes the file; an older one may have written less. */
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
