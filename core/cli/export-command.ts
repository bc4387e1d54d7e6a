import { rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { OrganisationRecord, Resources } from '../ports/resources.ts';
import { countValues, exportText, showOrganisation } from '../transfer/export-text.ts';
import { maxImportBytes, maxImportValues } from '../transfer/import-text.ts';
import { readOrganisation, type StoredOrganisation } from '../transfer/stored-organisation.ts';
import type { AdministrationCommand } from './administration-arguments.ts';
import type { AdministrationTools } from './administration-command.ts';

type Tools = Pick<AdministrationTools, 'atStore' | 'print' | 'complain'>;

/** Runs `weir export`. Rejects with a sentence for the operator. */
export function runExportCommand(
  command: Extract<AdministrationCommand, { name: 'export' }>,
  { atStore, print, complain }: Tools,
): Promise<number> {
  return atStore(command, async (resources) => {
    const organisations: StoredOrganisation[] = [];
    for (const one of await chosenOrganisations(resources, command.organisation))
      organisations.push(await resources.read((reader) => readOrganisation(reader, one)));
    const text = exportText(organisations);
    if (command.out === undefined) print(text.trimEnd());
    else {
      await writeWhole(path.resolve(command.out), text);
      print(`${command.out}: ${organisations.length} organisations`);
    }
    const values = countValues(organisations.map(showOrganisation));
    if (Buffer.byteLength(text) <= maxImportBytes && values <= maxImportValues) return 0;
    complain(
      `This is more than weir import reads at once (${maxImportValues} values, ${maxImportBytes} bytes): split the file, or export with --organisation.`,
    );
    return 1;
  });
}

/** The organisations that a command is about: one by its id, or all. Throws when there is none with this id. */
async function chosenOrganisations(
  resources: Pick<Resources, 'read'>,
  id: string | undefined,
): Promise<readonly OrganisationRecord[]> {
  const all = await resources.read(({ organisations }) => organisations.list());
  const chosen = id === undefined ? all : all.filter((one) => one.id === id);
  if (id === undefined || chosen.length > 0) return chosen;
  const known = all.slice(0, 20).map((one) => `${one.id} (${one.name})`);
  throw new Error(
    `The store has no organisation "${id}". It has: ${known.length === 0 ? 'none' : known.join(', ')}.`,
  );
}

/** Nobody ever sees half of the file, and only this user sees any of it. */
async function writeWhole(file: string, text: string): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    await writeFile(temporary, text, { mode: 0o600 });
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${file} cannot be written: ${reason}. Name another file (--out).`, { cause: error });
  }
}
