import { escapeIdentifier, type ClientBase } from 'pg';

/** Reads and writes a snapshot of every table. */
export const snapshots = { read: readSnapshot, requireEmpty, write: writeSnapshot };

/** Receiver of a store's rows. */
interface RowSink {
  table(name: string): Promise<void>;
  /** JSON objects, one per line. */
  addRows(rows: readonly string[]): Promise<void>;
}

/** Metadata of a snapshot. */
interface SnapshotHead {
  readonly migrations: readonly { readonly name: string; readonly sha256: string }[];
}

/** The snapshot exceeded its time limit. */
export class SnapshotTooLong extends Error {}

const rowsAtOnce = 500;
const migrationsTable = 'weir_migrations';

/**
 * Reads every table at one moment, referenced tables first. `begin` gets the metadata before the first row. `isLate` is
 * called between the parts; when it returns true, reading stops and the promise rejects with `SnapshotTooLong`. No
 * other code may use the connection.
 */
async function readSnapshot(
  client: ClientBase,
  begin: (head: SnapshotHead) => Promise<RowSink>,
  isLate: () => boolean,
): Promise<void> {
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  try {
    const { rows: migrations } = await client.query<SnapshotHead['migrations'][number]>(
      `SELECT name, sha256 FROM ${migrationsTable} ORDER BY id`,
    );
    const sink = await begin({ migrations });
    for (const table of await tablesOf(client)) {
      await sink.table(table);
      await client.query(
        `DECLARE backup NO SCROLL CURSOR FOR SELECT row_to_json(one)::text AS row FROM ${escapeIdentifier(table)} AS one`,
      );
      for (let count = rowsAtOnce; count === rowsAtOnce;) {
        if (isLate()) throw new SnapshotTooLong();
        const { rows } = await client.query<{ row: string }>(`FETCH ${rowsAtOnce} FROM backup`);
        count = rows.length;
        // A row stored with line breaks between its members, as `json` keeps them, becomes one line here.
        await sink.addRows(rows.map(({ row }) => row.replace(/[\r\n]+/g, ' ')));
      }
      await client.query('CLOSE backup');
    }
  } finally {
    await client.query('ROLLBACK').catch(() => undefined);
  }
}

/** Tables of the store, each after the tables that it references. */
async function tablesOf(client: ClientBase): Promise<readonly string[]> {
  const { rows: tables } = await client.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname <> '${migrationsTable}'
     ORDER BY 1`,
  );
  const { rows: references } = await client.query<{ from: string; to: string }>(
    `SELECT a.relname AS from, b.relname AS to FROM pg_constraint k
     JOIN pg_class a ON a.oid = k.conrelid JOIN pg_class b ON b.oid = k.confrelid
     WHERE k.contype = 'f' AND a.relnamespace = current_schema()::regnamespace AND a.oid <> b.oid`,
  );
  const left = new Set(tables.map(({ name }) => name));
  const sorted: string[] = [];
  while (left.size > 0) {
    const next = [...left].filter(
      (name) => !references.some(({ from, to }) => from === name && left.has(to)),
    );
    if (next.length === 0) throw new Error('Tables of the store refer to each other in a circle.');
    for (const name of next) left.delete(name);
    sorted.push(...next);
  }
  return sorted;
}

/** Throws one sentence when a newly opened store already has organisations. */
async function requireEmpty(client: ClientBase): Promise<void> {
  const { rows } = await client.query<{ name: string }>('SELECT name FROM organisations LIMIT 1');
  const [found] = rows;
  if (found === undefined) return;
  throw new Error(
    `the store has the organisation "${found.name}" already: restore into an empty one, or use weir import to add to it`,
  );
}

/** Columns that number their rows themselves go on behind the numbers that were restored. */
async function continueNumbers(client: ClientBase): Promise<void> {
  const { rows } = await client.query<{ table: string; column: string }>(
    `SELECT c.relname AS table, a.attname AS column FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
     WHERE a.attidentity <> '' AND c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace`,
  );
  for (const { table, column } of rows) {
    const [target, numbers] = [escapeIdentifier(table), escapeIdentifier(column)];
    await client.query(
      `SELECT setval(pg_get_serial_sequence($1, $2), max(${numbers})) FROM ${target} HAVING max(${numbers}) IS NOT NULL`,
      [target, column],
    );
  }
}

/** Writes the rows of a snapshot into empty tables, in one transaction; resolves to their number. */
async function writeSnapshot(
  client: ClientBase,
  lines: AsyncIterable<{ readonly table: string } | { readonly row: string }>,
): Promise<number> {
  const known = new Set(await tablesOf(client));
  let table = '';
  let batch: string[] = [];
  let rows = 0;
  const store = async (): Promise<void> => {
    if (batch.length === 0) return;
    const target = escapeIdentifier(table);
    await client.query(
      `INSERT INTO ${target} OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::${target}, $1::json)`,
      [`[${batch.join(',')}]`],
    );
    rows += batch.length;
    batch = [];
  };
  await client.query('BEGIN');
  try {
    // Totals come with the other rows; nothing is counted twice.
    for (const name of known)
      await client.query(`ALTER TABLE ${escapeIdentifier(name)} DISABLE TRIGGER USER`);
    for await (const line of lines) {
      if ('table' in line) {
        await store();
        ({ table } = line);
        if (!known.has(table)) throw new Error(`the backup has a table "${table}" that the store has not`);
      } else {
        batch.push(line.row);
        if (batch.length === rowsAtOnce) await store();
      }
    }
    await store();
    await continueNumbers(client);
    // At the end: tables changed in a transaction cannot be altered while constraint checks are pending.
    await client.query('SET CONSTRAINTS ALL IMMEDIATE');
    for (const name of known) await client.query(`ALTER TABLE ${escapeIdentifier(name)} ENABLE TRIGGER USER`);
    await client.query('COMMIT');
    return rows;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}
