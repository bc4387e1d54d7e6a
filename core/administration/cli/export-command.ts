import { open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { OrganisationRecord, Resources } from '../../ports/resources.ts';
import {
  countValues,
  exportText,
  readOrganisation,
  showOrganisation,
  type StoredOrganisation,
} from '../transfer/stored-organisation.ts';
import { maxImportBytes, maxImportValues } from '../transfer/import-text.ts';
import { takeRecordLines } from '../transfer/record-lines.ts';
import type { AdministrationCommand } from './command-arguments.ts';
import type { AdministrationTools } from './administration-tools.ts';

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
    if (command.out === undefined) {
      print(text.trimEnd());
      await eachRecordLine(resources, organisations, print);
    } else {
      await writeWhole(path.resolve(command.out), async (write) => {
        await write(text);
        await eachRecordLine(resources, organisations, (line) => write(`${line}\n`));
      });
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

/** Organisations of a command: one by its id, or all. Throws when none has this id. */
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

/** Lines of the records of these organisations, each as soon as it is read; one transaction per page. */
async function eachRecordLine(
  resources: Pick<Resources, 'read'>,
  organisations: readonly StoredOrganisation[],
  take: (line: string) => void | Promise<void>,
): Promise<void> {
  for (const { organisation, workspaces } of organisations) {
    const owner = { organisationId: organisation.id, workspaces: new Set(workspaces.map(({ id }) => id)) };
    for (let next: string | undefined = ''; next !== undefined;) {
      const afterId: string = next;
      next = await resources.read((reader) => takeRecordLines(reader, owner, afterId, take));
    }
  }
}

/** Writes the file atomically, readable by this user only. */
async function writeWhole(
  file: string,
  content: (write: (text: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    const handle = await open(temporary, 'w', 0o600);
    try {
      // One write at a time: memory holds one line.
      await content(async (text) => void (await handle.appendFile(text)));
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    if (!(error instanceof Error) || !('syscall' in error)) throw error;
    throw new Error(`${file} cannot be written: ${error.message}. Name another file (--out).`, {
      cause: error,
    });
  }
}
