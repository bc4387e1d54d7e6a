import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { getTableColumns, is, sql } from 'drizzle-orm';
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { aKey, anEntry, newOrganisation } from '../../tests/conformance/resources-records.ts';
import { openTestDatabase } from '../../tests/kit/postgres-kit.ts';
import { recordingLog, testClock } from '../embedded/chdb-fixture.ts';
import type { Database } from './database.ts';
import { createResources } from './resources.ts';
import * as schema from './schema.ts';

const tables = Object.values(schema).filter((value) => is(value, PgTable));

describe('schema', () => {
  let database: Database;
  const closing: (() => Promise<void>)[] = [];
  before(async () => {
    database = await openTestDatabase({ after: (close) => closing.push(close) });
  });
  after(async () => {
    for (const close of closing) await close();
  });

  async function rows<Row>(statement: ReturnType<typeof sql>): Promise<readonly Row[]> {
    const result = await database.query((statements) => statements.execute(statement));
    return result.rows as unknown as readonly Row[];
  }

  test('the tables of the migrations are those that the statements know', async () => {
    const found = await rows<{ name: string }>(
      sql`SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1`,
    );
    const known = tables.map((table) => getTableConfig(table).name);
    assert.deepEqual(
      found.map(({ name }) => name).filter((name) => name !== 'weir_migrations'),
      known.sort(),
    );
  });

  for (const table of tables) {
    const { name, primaryKeys } = getTableConfig(table);
    test(`${name} has the columns, types, nullability and primary key that the statements know`, async () => {
      const found = await rows<{ name: string; type: string; required: boolean; key: boolean }>(sql`
        SELECT attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS required,
          coalesce(attnum = ANY (conkey), false) AS key
        FROM pg_attribute LEFT JOIN pg_constraint ON conrelid = attrelid AND contype = 'p'
        WHERE attrelid = ${name}::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`);
      const key = new Set(primaryKeys.flatMap(({ columns }) => columns.map((column) => column.name)));
      const known = Object.values(getTableColumns(table)).map((column) => ({
        name: column.name,
        type: column.getSQLType(),
        required: column.notNull,
        key: column.primary || key.has(column.name),
      }));
      assert.deepEqual(found, known);
    });
  }

  test('the audit log takes entries, and refuses to change, remove or empty them', async () => {
    const resources = createResources({ database, clock: testClock, log: recordingLog() });
    const id = await newOrganisation(resources);
    await resources.write(id, (writer) => writer.audit.append(anEntry(id)));
    const stored = await resources.read(({ audit }) => audit.chain(id, 0));
    const attempts = {
      UPDATE: "UPDATE audit_logs SET actor_id = 'nobody'",
      DELETE: 'DELETE FROM audit_logs',
      TRUNCATE: 'TRUNCATE organisations CASCADE; TRUNCATE audit_logs',
    };
    for (const [operation, statement] of Object.entries(attempts))
      assert.equal(await refusal(statement), `audit_logs is append-only: ${operation} is refused`);
    assert.deepEqual(await resources.read(({ audit }) => audit.chain(id, 0)), stored);
  });

  test('what was removed is remembered for a day at least, and not for ever', async () => {
    const clock = new ManualClock();
    const resources = createResources({ database, clock, log: recordingLog() });
    const id = await newOrganisation(resources);
    const keys = [aKey(id), aKey(id), aKey(id)];
    const hours = [30, 30, 0];
    await resources.write(id, async (writer) => {
      for (const key of keys) await writer.apiKeys.insert(key);
    });
    const remembered: number[] = [];
    for (const [index, key] of keys.entries()) {
      await resources.write(id, (writer) => writer.apiKeys.remove(id, key.id));
      remembered.push((await resources.read(({ apiKeys }) => apiKeys.removedSince(id, 0))).length);
      clock.advance((hours[index] ?? 0) * 3_600_000);
    }
    assert.deepEqual(remembered, [1, 2, 2]);
  });

  /** What the database says to a statement. */
  async function refusal(statement: string): Promise<string> {
    return database.transaction(async (statements) => {
      const block = `BEGIN ${statement}; PERFORM set_config('weir.said', 'allowed', true);
        EXCEPTION WHEN insufficient_privilege THEN PERFORM set_config('weir.said', SQLERRM, true); END`;
      await statements.execute(sql.raw(`DO $$ ${block} $$`));
      const { rows: said } = await statements.execute(sql`SELECT current_setting('weir.said') AS text`);
      return (said[0] as { text: string }).text;
    });
  }
});
