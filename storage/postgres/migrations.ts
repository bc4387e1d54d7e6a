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
  /**
   * Number of the migration that a version has to know at the least to work on what this step leaves. 0 for a step that
   * only adds (expand): older versions go on beside it.
   */
  readonly readableFrom: number;
}

const fileName = /^(\d{4})-[a-z0-9-]+\.sql$/;
/** Steps up to this one are from before the rule, and older versions cannot work beside them. */
const lastWithoutRule = 4;
const contractMark = /^-- contract (\d{4})\b/m;
/** What takes away or changes what another version may read or write. */
const takesAway =
  /\bDROP\s+(?:TABLE|COLUMN|VIEW|SCHEMA)\b|\bRENAME\b|\bALTER\s+(?:COLUMN\s+)?\S+\s+(?:SET\s+DATA\s+)?TYPE\b|\bSET\s+NOT\s+NULL\b|\bDROP\s+DEFAULT\b/i;

/**
 * The steps that this version knows, in order. Throws when a number is missing or given twice, and for a step that takes
 * something away without a mark: first a release adds what is new (expand), a later one takes the old away (contract).
 */
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
    const sha256 = createHash('sha256').update(sql).digest('hex');
    migrations.push({ id, name, sha256, sql, readableFrom: readableFrom(id, name, sql) });
  }
  return migrations;
}

function readableFrom(id: number, name: string, sql: string): number {
  if (id <= lastWithoutRule) return id;
  const marked = contractMark.exec(sql)?.[1];
  const statements = sql.replaceAll(/--.*$|\/\*[\s\S]*?\*\//gm, ' ').replaceAll(/'(?:[^']|'')*'/g, "''");
  const found = takesAway.exec(statements)?.[0];
  if (marked === undefined) {
    if (found === undefined) return 0;
    throw new Error(
      `migration ${name} says "${found}": gateways of the last release, which run beside this one, may read what it takes away. Add what is new in this step, and take the old away in one of a later release, marked "-- contract NNNN" with the number of the newest migration that the first release knew which does without it`,
    );
  }
  const from = Number(marked);
  if (from >= 1 && from < id) return from;
  throw new Error(`migration ${name} is marked "-- contract ${marked}": name a migration before this one`);
}
