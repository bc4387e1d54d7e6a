import type { ClientBase } from 'pg';
import type { Log } from '../../core/ports/log.ts';
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { messageOf } from '../../core/errors/gateway-error.ts';

/** One numbered step of the schema. */
export interface Migration {
  readonly id: number;
  readonly name: string;
  /** Hash of the file's text with Unix line endings, hexadecimal. */
  readonly sha256: string;
  /** Statements that run together in one transaction. */
  readonly sql: string;
  /**
   * Oldest migration number that a version must know to work after this step. 0 for a step that only adds (expand):
   * older versions continue to work.
   */
  readonly readableFrom: number;
}

const fileName = /^(\d{4})-[a-z0-9-]+\.sql$/;
/** Steps up to this one precede the rule, and older versions cannot work with them. */
const lastWithoutRule = 4;
const contractMark = /^-- contract (\d{4})\b/m;
/** Statements that remove or change a structure that another version may use. */
const takesAway =
  /\bDROP\s+(?:TABLE|COLUMN|VIEW|SCHEMA)\b|\bRENAME\b|\bALTER\s+(?:COLUMN\s+)?\S+\s+(?:SET\s+DATA\s+)?TYPE\b|\bSET\s+NOT\s+NULL\b|\bDROP\s+DEFAULT\b/i;

/**
 * The steps that this version knows, in order. Throws when a number is missing or repeated, and for a step that removes
 * something without a mark: first a release adds the new structure (expand), a later one removes the old one
 * (contract).
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

/** Options of `migrate`. */
interface MigrateOptions {
  /** A connection without other users. */
  readonly client: ClientBase;
  readonly migrations: readonly Migration[];
  readonly log: Log;
  /** The embedded engine has one session and no other clients, hence no lock. */
  readonly embedded: boolean;
  /** Applies nothing: a missing step is a mismatch. Default false. */
  readonly onlyReads?: boolean;
}

/** The database and this version are incompatible; nothing was changed. */
export class SchemaMismatch extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'SchemaMismatch';
  }
}

/** A failed step, fully rolled back. `cause` is the database's error. */
export class MigrationFailed extends Error {
  constructor(migration: Migration, cause: unknown) {
    super(`migration ${migration.name} failed: ${messageOf(cause)}`, {
      cause,
    });
    this.name = 'MigrationFailed';
  }
}

const createTable = `CREATE TABLE IF NOT EXISTS weir_migrations
(
    id integer PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    readable_from integer
)`;
/** Tables of older versions lack this column. */
const extendTable = 'ALTER TABLE weir_migrations ADD COLUMN IF NOT EXISTS readable_from integer';
const readTable = `SELECT id, name, sha256, coalesce((to_jsonb(step) ->> 'readable_from')::integer, id) AS "readableFrom"
FROM weir_migrations AS step ORDER BY id`;
/** Number of the advisory lock; the same in all versions. */
const lockNumber = '7310579625114301';
const lockTimeout = '60s';

type Applied = Pick<Migration, 'id' | 'name' | 'sha256' | 'readableFrom'>;

/**
 * Migrates the schema: each step in a transaction of its own, in order, exactly once, with any number of concurrent
 * gateway starts. A database that a newer version has only added to is used unchanged. Throws `SchemaMismatch` for a
 * step that was applied with other contents and for a database from which a newer version has removed structures that
 * this one needs, `MigrationFailed` for a step that the database refuses.
 */
export async function migrate({
  client,
  migrations,
  log,
  embedded,
  onlyReads = false,
}: MigrateOptions): Promise<void> {
  if (onlyReads) return check(client, migrations, log);
  if (embedded) return run(client, migrations, log);
  await client.query(`SET lock_timeout = '${lockTimeout}'`);
  await client.query(`SELECT pg_advisory_lock(${lockNumber})`);
  try {
    await run(client, migrations, log);
  } finally {
    await client.query(`SELECT pg_advisory_unlock(${lockNumber})`).catch(() => undefined);
  }
}

async function run(client: ClientBase, migrations: readonly Migration[], log: Log): Promise<void> {
  // Checked first: a user without the right to create tables may use an up-to-date database.
  if (!(await hasTable(client))) await client.query(createTable);
  const missing = await missingSteps(client, migrations, log);
  if (missing.length > 0) await client.query(extendTable);
  for (const migration of missing) await apply(client, migration);
  if (missing.length === 0) return;
  const names = missing.map(({ name }) => name).join(', ');
  log.info('Schema of the resources store brought up to date', { migrations: names });
}

/** Compares without a change. */
async function check(client: ClientBase, migrations: readonly Migration[], log: Log): Promise<void> {
  const [missing] = (await hasTable(client)) ? await missingSteps(client, migrations, log) : migrations;
  if (missing !== undefined)
    throw new SchemaMismatch(
      `it lacks migration ${missing.name}, and this command only reads: start a gateway of this version on it first`,
    );
}

async function hasTable(client: ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ exists: boolean }>(
    `SELECT to_regclass('weir_migrations') IS NOT NULL AS exists`,
  );
  return rows[0]?.exists === true;
}

async function missingSteps(
  client: ClientBase,
  migrations: readonly Migration[],
  log: Log,
): Promise<readonly Migration[]> {
  const { rows } = await client.query<Applied>(readTable);
  compare(rows, migrations);
  const newer = rows.slice(migrations.length);
  if (newer.length > 0)
    log.warn('The resources store was extended by a newer version, beside which this one goes on', {
      migrations: newer.map(({ name }) => name).join(', '),
    });
  return migrations.slice(rows.length);
}

/** The applied migrations must be the first ones that this version knows, file for file; later ones only add. */
function compare(applied: readonly Applied[], migrations: readonly Migration[]): void {
  for (const [index, row] of applied.entries()) {
    const known = migrations[index];
    if (known === undefined) {
      if (row.readableFrom <= migrations.length) continue;
      throw new SchemaMismatch(
        `it has migration ${row.name}, which this version does not know and cannot work beside: start the newer version that made it, or restore a backup from before`,
      );
    }
    if (row.id !== known.id || row.sha256 !== known.sha256)
      throw new SchemaMismatch(
        `migration ${known.name} was applied with other contents (then ${row.name}, SHA-256 ${row.sha256.slice(0, 12)}…, now ${known.sha256.slice(0, 12)}…): restore the file, and put changes into a new one`,
      );
  }
}

async function apply(client: ClientBase, migration: Migration): Promise<void> {
  try {
    await client.query('BEGIN');
    // Without parameters a whole file is one message, which the database itself splits into its statements.
    await client.query(migration.sql);
    await client.query({
      text: 'INSERT INTO weir_migrations (id, name, sha256, readable_from) VALUES ($1, $2, $3, $4)',
      values: [migration.id, migration.name, migration.sha256, migration.readableFrom],
    });
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw new MigrationFailed(migration, error);
  }
}
