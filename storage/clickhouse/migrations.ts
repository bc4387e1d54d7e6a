import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { splitStatements } from './split-statements.ts';
import { fillTemplate, oneServer, type TableLayout } from './table-layout.ts';

/** One numbered step of the schema. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** SHA-256 of the file's text as one server gets it, hexadecimal: the same in every layout and with any line endings. */
  readonly checksum: string;
  /** Each can be run again without harm: two gateways may start at once. */
  readonly statements: readonly string[];
}

const fileName = /^(\d{4})-[a-z0-9-]+\.sql$/;

/** The steps that this build knows, for this layout, in order. Throws when a number is missing or given twice. */
export async function readMigrations(
  layout: TableLayout = oneServer,
  folder = new URL('./migrations/', import.meta.url),
): Promise<Migration[]> {
  const migrations: Migration[] = [];
  for (const name of (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort()) {
    const version = Number(fileName.exec(name)?.[1]);
    if (version !== migrations.length + 1) {
      const expected = String(migrations.length + 1).padStart(4, '0');
      throw new Error(`migration ${name} must be named ${expected}-some-words.sql: numbers have no gaps`);
    }
    migrations.push(migration(version, name, await readFile(new URL(name, folder), 'utf8'), layout));
  }
  return migrations;
}

/** Builds a step from the text of its file. Throws for a marker that `fillTemplate` does not know. */
export function migration(version: number, name: string, text: string, layout = oneServer): Migration {
  const template = text.replaceAll('\r\n', '\n');
  const checksum = createHash('sha256').update(fillTemplate(template, oneServer)).digest('hex');
  return { version, name, checksum, statements: splitStatements(fillTemplate(template, layout)) };
}
