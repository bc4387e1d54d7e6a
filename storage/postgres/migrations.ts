import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';

/** One numbered step of the schema. */
export interface Migration {
  readonly id: number;
  readonly name: string;
  /** Of the file's text with line ends as on Unix, hexadecimal. */
  readonly sha256: string;
  /** Statements that run together in one transaction. */
  readonly sql: string;
}

const fileName = /^(\d{4})-[a-z0-9-]+\.sql$/;

/** The steps that this version knows, in order. Throws when a number is missing or given twice. */
export async function readMigrations(
  folder = new URL('./migrations/', import.meta.url),
): Promise<readonly Migration[]> {
  const migrations: Migration[] = [];
  for (const name of (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort()) {
    const id = Number(fileName.exec(name)?.[1]);
    if (id !== migrations.length + 1) {
      const expected = String(migrations.length + 1).padStart(4, '0');
      throw new Error(`migration ${name} must be named ${expected}-some-words.sql: numbers have no gaps`);
    }
    const sql = (await readFile(new URL(name, folder), 'utf8')).replaceAll('\r\n', '\n');
    migrations.push({ id, name, sha256: createHash('sha256').update(sql).digest('hex'), sql });
  }
  return migrations;
}
