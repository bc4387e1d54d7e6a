import { parseArgs } from 'node:util';
import type { StorePlace } from './administration-arguments.ts';

/** `weir backup`, `weir restore`. */
export type BackupCommand =
  | (StorePlace & { readonly name: 'backup'; readonly out: string })
  | (StorePlace & { readonly name: 'restore'; readonly file: string });

const passphrase = `  The passphrase (12 characters or more) comes from WEIR_BACKUP_PASSPHRASE, or is the first line of standard input. Without
  it no backup can be restored: keep it apart from the file.`;

/** The help of both. */
export const backupUsage = {
  backup: `weir backup: everything that is administered, in one file, while the gateway runs

  weir backup --out FILE [--config FILE] [--data DIR]

  Holds every table of the relational store as it is at one moment (organisations, users, keys, records with their
  versions, prompts, settings, audit trails), identity.json and the key file of the data folder. These two are sealed
  with the passphrase. It does not hold logs and analytics, log rows on their way (the journal), files of exports,
  waiting jobs, nor the configuration file.

${passphrase}`,
  restore: `weir restore: makes a data folder from a backup

  weir restore FILE [--config FILE] [--data DIR]

  The folder has to be empty, and so has the database of storage.resources. The whole file is checked before anything is
  written; what fails leaves the folder as it was. weir start then serves with the same keys, secrets and owner.

${passphrase}`,
} as const;

/** Reads what follows the command. Throws an error with the reason for anything unclear. */
export function readBackupArguments(
  name: BackupCommand['name'],
  args: readonly string[],
  defaults: StorePlace,
): BackupCommand {
  const text = { type: 'string' } as const;
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { config: text, data: text, out: text },
    allowPositionals: name === 'restore',
  });
  const place = { config: values.config ?? defaults.config, data: values.data ?? defaults.data };
  if (name === 'backup') {
    if (values.out === undefined) throw new Error('weir backup needs a file to write to: --out FILE.');
    return { name, ...place, out: values.out };
  }
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0 || values.out !== undefined)
    throw new Error('weir restore takes one file.');
  return { name, ...place, file };
}
