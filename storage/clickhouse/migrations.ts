import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { splitStatements } from './split-statements.ts';

/** One numbered step of the schema. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** SHA-256 of the file's text, hexadecimal; line endings do not count. */
  readonly checksum: string;
  /** Each can be run again without harm: two gateways may start at once. */
  readonly statements: readonly string[];
}

const fileName = /^(\d{4})-[a-z0-9-]+\.sql$/;

/** The steps that this build knows, in order. Throws when a number is missing or given twice. */
export async function readMigrations(
  folder = new URL('./migrations/', import.meta.url),
): Promise<Migration[]> {
  const migrations: Migration[] = [];
  for (const name of (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort()) {
    const version = Number(fileName.exec(name)?.[1]);
    if (version !== migrations.length + 1) {
      const expected = String(migrations.length + 1).padStart(4, '0');
      throw new Error(`migration ${name} must be named ${expected}-some-words.sql: numbers have no gaps`);
    }
    migrations.push(migration(version, name, await readFile(new URL(name, folder), 'utf8')));
  }
  return migrations;
}

/** Builds a step from the text of its file. */
export function migration(version: number, name: string, text: string): Migration {
  const sql = text.replaceAll('\r\n', '\n');
  const checksum = createHash('sha256').update(sql).digest('hex');
  return { version, name, checksum, statements: splitStatements(sql) };
}
