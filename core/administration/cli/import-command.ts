import path from 'node:path';
import type { ConfigSource } from '../../config/config-source.ts';
import { formatProblem } from '../../config/problem.ts';
import type { Resources } from '../../ports/resources.ts';
import type { ExportedOrganisationData } from '../transfer/export-schema.ts';
import {
  indexRecords,
  type LinePlace,
  readHead,
  type RecordSection,
  recordsFrom,
} from '../transfer/export-file.ts';
import { importOrganisation, UnknownMember } from '../transfer/import-organisation.ts';
import { type ImportedRecords, RecordMistake, requireOpenable } from '../transfer/import-records.ts';
import type { ImportReport } from '../transfer/import-tally.ts';
import { maxImportBytes, readImport } from '../transfer/import-text.ts';
import type { AdministrationCommand } from './command-arguments.ts';
import type { AdministrationTools } from './administration-tools.ts';

const maxNamed = 50;

type ImportCommand = Extract<AdministrationCommand, { name: 'import' }>;
type Tools = Pick<AdministrationTools, 'atStore' | 'secretBox' | 'clock' | 'print' | 'complain'>;

/** Runs `weir import`: opens nothing before the whole file is valid. Rejects with a sentence for the operator. */
export async function runImportCommand(command: ImportCommand, tools: Tools): Promise<number> {
  const file = path.resolve(command.file);
  const { head, lines } = await readHead(file, maxImportBytes).catch((error: unknown) => {
    throw new Error(`${command.file} ${textOf(error)}.`, { cause: error });
  });
  const parsed = readImport(head, command.file);
  const problems = parsed.ok ? [] : [...parsed.problems];
  const organisations = parsed.ok ? parsed.organisations : [];
  const known = new Set(organisations.map(({ id }) => id));
  const records = parsed.ok && lines !== undefined ? await indexRecords(file, lines, known) : undefined;
  for (const problem of records?.problems ?? []) problems.push({ ...problem, file: command.file });
  for (const problem of problems) tools.complain(formatProblem(problem));
  if (!parsed.ok || problems.length > 0) return 1;
  const work: ImportWork = { command, tools, file, source: parsed.source, sections: records?.sections };
  return tools.atStore({ ...command, mayBeNew: true }, async (resources) => {
    let code = 0;
    for (const [index, data] of organisations.entries()) {
      const report = await importOne(resources, data, `/organisations/${index}`, work);
      if (report === undefined || report.kept.length > 0) code = 1;
      if (report !== undefined) tools.print(reportText(report));
    }
    return code;
  });
}

interface ImportWork {
  readonly command: ImportCommand;
  readonly tools: Tools;
  /** Absolute path. */
  readonly file: string;
  readonly source: ConfigSource;
  /** By organisation id. */
  readonly sections: ReadonlyMap<string, RecordSection> | undefined;
}

async function importOne(
  resources: Pick<Resources, 'write'>,
  data: ExportedOrganisationData,
  pointer: string,
  work: ImportWork,
): Promise<ImportReport | undefined> {
  const { command, tools, source } = work;
  const { replace, file } = command;
  const start = work.sections?.get(data.id)?.start.number;
  try {
    const records = await recordsOf(data.id, work);
    const options = { replace, now: tools.clock.now(), file: path.basename(file) };
    return await importOrganisation(resources, data, options, records);
  } catch (error) {
    const at = error instanceof UnknownMember ? pointer + error.pointer : pointer;
    const isLine = error instanceof RecordMistake;
    const place = isLine ? { file, line: error.line, column: 1 } : source.locate(at);
    const outcome =
      isLine && error.first !== start
        ? `What stands before line ${error.first} was imported, and nothing from there on: correct it, and import the file again`
        : `Nothing of the organisation "${data.name}" was imported`;
    const message = `${textOf(error).replace(/\.$/, '')}. ${outcome}`;
    tools.complain(formatProblem({ ...place, path: at, message }));
    return undefined;
  }
}

/** Records of an organisation. Rejects when their secrets cannot be opened here. */
async function recordsOf(
  organisationId: string,
  { command, tools, file, sections }: ImportWork,
): Promise<ImportedRecords | undefined> {
  const section = sections?.get(organisationId);
  if (section === undefined) return undefined;
  const { start, hasSecrets } = section;
  const lines = (from: LinePlace) => recordsFrom(file, organisationId, from);
  if (!hasSecrets) return { start, lines, box: undefined };
  const records = { start, lines, box: await tools.secretBox(command) };
  await requireOpenable(records);
  return records;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function reportText({ organisation, added, equal, replaced, kept }: ImportReport): string {
  const more = kept.length - maxNamed;
  return [
    `${organisation.id} (${organisation.name}): ${added} added, ${equal} were there already, ${replaced} replaced, ${kept.length} differ and stay`,
    ...kept.slice(0, maxNamed).map((one) => `  differs: ${one}`),
    ...(more > 0 ? [`  … and ${more} more`] : []),
  ].join('\n');
}
