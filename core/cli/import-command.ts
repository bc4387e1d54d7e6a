import path from 'node:path';
import type { ConfigSource } from '../config/config-source.ts';
import { formatProblem } from '../config/problem.ts';
import { readText } from '../config/read-file.ts';
import type { Resources } from '../ports/resources.ts';
import type { ExportedOrganisationData } from '../transfer/export-schema.ts';
import { importOrganisation, UnknownMember } from '../transfer/import-organisation.ts';
import type { ImportReport } from '../transfer/import-tally.ts';
import { maxImportBytes, readImport } from '../transfer/import-text.ts';
import type { AdministrationCommand } from './administration-arguments.ts';
import type { AdministrationTools } from './administration-command.ts';

const mostNamed = 50;

type ImportCommand = Extract<AdministrationCommand, { name: 'import' }>;
type Tools = Pick<AdministrationTools, 'atStore' | 'clock' | 'print' | 'complain'>;

/** Runs `weir import`: nothing is opened before the whole file is valid. Rejects with a sentence for the operator. */
export async function runImportCommand(command: ImportCommand, tools: Tools): Promise<number> {
  const read = await readText(path.resolve(command.file), maxImportBytes);
  if (!read.ok) throw new Error(`${command.file} ${read.message}.`);
  const parsed = readImport(read.text, command.file);
  if (!parsed.ok) {
    for (const problem of parsed.problems) tools.complain(formatProblem(problem));
    return 1;
  }
  const { organisations, source } = parsed;
  return tools.atStore({ ...command, mayBeNew: true }, async (resources) => {
    let code = 0;
    for (const [index, data] of organisations.entries()) {
      const place = { pointer: `/organisations/${index}`, source };
      const report = await importOne(resources, data, place, { command, tools });
      if (report === undefined || report.kept.length > 0) code = 1;
      if (report !== undefined) tools.print(reportText(report));
    }
    return code;
  });
}

async function importOne(
  resources: Pick<Resources, 'write'>,
  data: ExportedOrganisationData,
  { pointer, source }: { readonly pointer: string; readonly source: ConfigSource },
  { command, tools }: { readonly command: ImportCommand; readonly tools: Tools },
): Promise<ImportReport | undefined> {
  const { replace, file } = command;
  try {
    return await importOrganisation(resources, data, {
      ...{ replace, now: tools.clock.now(), file: path.basename(file) },
    });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const at = error instanceof UnknownMember ? pointer + error.pointer : pointer;
    const text = `${message.replace(/\.$/, '')}. Nothing of the organisation "${data.name}" was imported`;
    tools.complain(formatProblem({ ...source.locate(at), path: at, message: text }));
    return undefined;
  }
}

function reportText({ organisation, added, equal, replaced, kept }: ImportReport): string {
  const more = kept.length - mostNamed;
  return [
    `${organisation.id} (${organisation.name}): ${added} added, ${equal} were there already, ${replaced} replaced, ${kept.length} differ and stay`,
    ...kept.slice(0, mostNamed).map((one) => `  differs: ${one}`),
    ...(more > 0 ? [`  … and ${more} more`] : []),
  ].join('\n');
}
