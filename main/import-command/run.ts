// `weir import litellm|portkey|bifrost|openrouter`: writes a configuration from that of another gateway.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { ImportFromCommand } from '../../core/administration/cli/import-arguments.ts';
import { messageOf } from '../../core/errors/gateway-error.ts';
import { importBifrost } from './bifrost.ts';
import type { Draft } from './draft.ts';
import { importLiteLLM } from './litellm.ts';
import { importOpenRouter } from './openrouter.ts';
import { importPortkey } from './portkey.ts';
import { Report } from './report.ts';
import { readSource, readSources } from './source.ts';

/** Where the command prints. */
interface ImportOutput {
  /** The configuration, when no file is named. */
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}

/** What an import makes. */
export interface Imported {
  readonly yaml: string;
  readonly report: Report;
}

/** Reads the configuration of another gateway. Rejects with a sentence when it cannot be read, or is of another kind. */
export async function importFrom({
  from,
  file,
}: Pick<ImportFromCommand, 'from' | 'file'>): Promise<Imported> {
  const report = new Report();
  const draft = await draftOf(from, file, report);
  const comments = [
    `Imported from ${path.basename(file)} by "weir import ${from}". Check it with "weir check FILE"; docs/config-reference.md lists every key.`,
  ];
  return { yaml: draft.text(comments), report };
}

async function draftOf(from: ImportFromCommand['from'], file: string, report: Report): Promise<Draft> {
  switch (from) {
    case 'litellm':
      return importLiteLLM(await readSource(file), report);
    case 'portkey':
      return importPortkey(await readSources(file), report);
    case 'bifrost':
      return importBifrost(await readSource(file), report);
    case 'openrouter':
      return importOpenRouter(await readSources(file), report);
  }
}

/** Runs the command; the exit code. */
export async function runImportCommand(command: ImportFromCommand, output: ImportOutput): Promise<number> {
  const { print, complain } = output;
  const { out, report: reportFile, force } = command;
  try {
    const { yaml, report } = await importFrom(command);
    const flag = force ? 'w' : 'wx';
    if (out !== undefined) await write(out, yaml, flag);
    if (reportFile !== undefined)
      await write(reportFile, `${JSON.stringify(report.file(), null, 2)}\n`, flag);
    if (out === undefined) print(yaml.trimEnd());
    complain(report.text());
    if (out !== undefined) complain(`${out} is written. Check it with "weir check ${out}".`);
    return 0;
  } catch (error) {
    complain(messageOf(error));
    return 1;
  }
}

async function write(file: string, text: string, flag: 'w' | 'wx'): Promise<void> {
  await writeFile(file, text, { flag }).catch((error: unknown) => {
    const isThere = error instanceof Error && 'code' in error && error.code === 'EEXIST';
    throw isThere ? new Error(`${file} is there already; --force writes over it.`) : error;
  });
}
