import { parseArgs } from 'node:util';
import { listWords } from '../../base/did-you-mean.ts';

/** Gateways whose configurations can be imported. */
const importSources = ['litellm', 'portkey', 'bifrost', 'openrouter'] as const;
type ImportSource = (typeof importSources)[number];

/** `weir import litellm FILE` and the like. */
export interface ImportFromCommand {
  readonly name: 'import-from';
  readonly from: ImportSource;
  /** A file, or a folder of them. */
  readonly file: string;
  /** File of the configuration; undefined: standard output. */
  readonly out: string | undefined;
  /** File of the report as JSON; undefined: none. */
  readonly report: string | undefined;
  /** Writes over files that are there. */
  readonly force: boolean;
}

export const importFromUsage = `weir import ${importSources.join('|')}: writes a configuration from that of another gateway

  weir import litellm config.yaml [--out FILE] [--report FILE] [--force]
  weir import portkey config.json|export.json|FOLDER [--out FILE] [--report FILE] [--force]
  weir import bifrost config.json [--out FILE] [--report FILE] [--force]
  weir import openrouter request.json|FOLDER [--out FILE] [--report FILE] [--force]

  Prints the configuration, or writes it to --out. Standard error gets the report: what means the same, what means
  something else, and what has no counterpart, each with file, line, column and JSON pointer, and the environment
  variables to set. --report writes it as JSON, too. Files that are there stay, unless --force. Values of keys and
  passwords are never copied or printed: a variable stands for each.`;

/** The gateway that the arguments of `weir import` name first; undefined for the file of an export. */
export function importSourceOf(args: readonly string[]): ImportSource | undefined {
  return importSources.find((one) => one === args[0]);
}

/** Reads the arguments behind the gateway's name. Throws an error with the reason for unclear input. */
export function readImportFromArguments(from: ImportSource, args: readonly string[]): ImportFromCommand {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { out: { type: 'string' }, report: { type: 'string' }, force: { type: 'boolean' } },
    allowPositionals: true,
  });
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0)
    throw new Error(
      `weir import ${from} takes one file, or a folder. Sources are ${listWords(importSources, 'and')}.`,
    );
  const { out, report, force = false } = values;
  return { name: 'import-from', from, file, out, report, force };
}
