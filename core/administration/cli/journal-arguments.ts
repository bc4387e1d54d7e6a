import { parseArgs } from 'node:util';
import { journalTables, type JournalTable } from '../../ports/journal.ts';

/** `weir journal …`. */
export type JournalCommand =
  | {
      readonly name: 'journal';
      readonly action: 'status' | 'verify';
      readonly data: string;
      readonly json: boolean;
    }
  | {
      readonly name: 'journal';
      readonly action: 'replay';
      readonly data: string;
      readonly json: boolean;
      readonly config: string | undefined;
      /** Everything in the journal's quarantine, instead of files. */
      readonly quarantine: boolean;
      readonly files: readonly string[];
      readonly table: JournalTable | undefined;
    };

export const journalUsage = `weir journal: the log rows on disk that wait for the analytics store

  weir journal status [--data DIR] [--json]    segments, rows, bytes, the oldest row, quarantine, the bound and what
                                               came of it (shed rows, blocked requests); changes nothing
  weir journal verify [--data DIR] [--json]    read every row, name each bad one as FILE:OFFSET; changes nothing
  weir journal replay --quarantine             put the rows of the quarantine back
  weir journal replay FILE...                  put rows of files back, one JSON object in each line
      [--table requests|bodies|feedback] [--data DIR] [--config FILE] [--json]

  status and verify work beside a running gateway and without one. verify ends with 1 when a row is bad.

  replay is for rows that the store refused, once the cause is gone: the schema is up to date, or somebody repaired
  the rows in the files of the quarantine. It refuses while a gateway runs on the folder, since only one process may
  write there. The rows become new segments, which the next start of the gateway ships.

  No row is stored twice: the store is asked for every id first, whatever its deduplication remembers, and ids that
  wait in the journal already are left out too, so a replay that was interrupted is simply repeated. A file of the
  quarantine is removed when all its rows are back or known; your own files stay. A row that cannot go back (no JSON,
  no UUID as id, no created_at) is named as FILE:OFFSET and stays where it is; replay then ends with 1.

  The table of a row comes from its quarantine entry, from --table, or from a file name that begins with requests-,
  bodies- or feedback-. WEIR_DATA and WEIR_CONFIG name the data folder and the configuration.`;

/** Reads what follows `journal`. Throws an error with the reason for anything unclear. */
export function readJournalArguments(
  args: readonly string[],
  defaults: { readonly data: string; readonly config: string | undefined },
): JournalCommand {
  const [action, ...rest] = args;
  const shared = { data: { type: 'string' }, json: { type: 'boolean' } } as const;
  if (action === 'status' || action === 'verify') {
    const { values } = parseArgs({ args: rest, options: shared });
    return { name: 'journal', action, data: values.data ?? defaults.data, json: values.json ?? false };
  }
  if (action !== 'replay') throw new Error(`There is no command "journal ${action}".`);
  const { values, positionals: files } = parseArgs({
    args: rest,
    options: {
      ...shared,
      config: { type: 'string' },
      quarantine: { type: 'boolean' },
      table: { type: 'string' },
    },
    allowPositionals: true,
  });
  const { quarantine = false, table } = values;
  if (quarantine === files.length > 0) {
    throw new Error('weir journal replay takes either --quarantine or files.');
  }
  const known = journalTables.find((one) => one === table);
  if (table !== undefined && known === undefined) {
    throw new Error(`There is no table "${table}": it is requests, bodies or feedback.`);
  }
  return {
    ...{ name: 'journal', action, data: values.data ?? defaults.data, json: values.json ?? false },
    ...{ config: values.config ?? defaults.config, quarantine, files, table: known },
  };
}
