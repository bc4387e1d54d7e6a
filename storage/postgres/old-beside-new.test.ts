import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { sql } from 'drizzle-orm';
import { createDirectory } from '../../core/administration/directory/live-directory.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { aKey } from '../../tests/conformance/resources-records.ts';
import { openTestDatabase, startEngine, type TestEngine } from '../../tests/kit/postgres-kit.ts';
import { postgresMissing } from '../../tests/kit/postgres-server.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import type { Database } from './database.ts';
import { type Migration, readMigrations } from './migrate.ts';
import { openDatabase } from './open-database.ts';
import { createResources } from './resources.ts';

/** What the last release reads and writes, as `scripts/record-release-schema.ts` recorded it. */
const lastRelease = JSON.parse(await readFile(new URL('./last-release.json', import.meta.url), 'utf8')) as {
  migrations: number;
  tables: Record<string, Record<string, string>>;
};

describe('the last release on the schema of this version', () => {
  let database: Database;
  const closing: (() => Promise<void>)[] = [];
  before(async () => {
    database = await openTestDatabase({ after: (close) => closing.push(close) });
  });
  after(async () => {
    for (const close of closing) await close();
  });

  type Column = { readonly name: string; readonly type: string; readonly needed: boolean };

  for (const [table, columns] of Object.entries(lastRelease.tables)) {
    test(`${table} has all columns that it names, and needs none that it does not`, async () => {
      const result = await database.query((statements) =>
        statements.execute<Column>(sql`
          SELECT attname AS name, format_type(atttypid, atttypmod) AS type,
            attnotnull AND NOT atthasdef AND attidentity = '' AS needed
          FROM pg_attribute WHERE attrelid = ${table}::regclass AND attnum > 0 AND NOT attisdropped`),
      );
      const found = result.rows;
      const types = Object.fromEntries(found.map(({ name, type }) => [name, type]));
      for (const [name, type] of Object.entries(columns)) assert.equal(types[name], type, name);
      const unknown = found.filter(({ name, needed }) => needed && columns[name] === undefined);
      assert.deepEqual(unknown, [], 'its inserts do not name these');
    });
  }

  test('can be started beside every step behind it', async () => {
    for (const { name, readableFrom } of (await readMigrations()).slice(lastRelease.migrations))
      assert.ok(readableFrom <= lastRelease.migrations, `${name} takes away what the last release reads`);
  });
});

const organisationId = '7c1e2a38-5a0c-4f0e-9a51-3a4f2f6f0c01';
const base = {
  ...withoutStore,
  keyByHash: () => undefined,
  defaultOrganisationId: organisationId,
  defaultWorkspaceId: '7c1e2a38-5a0c-4f0e-9a51-3a4f2f6f0c02',
};
const owner = { id: '7c1e2a38-5a0c-4f0e-9a51-3a4f2f6f0c03', email: 'owner@localhost' };

describe('an old replica beside a new one', { skip: postgresMissing }, () => {
  let engine: TestEngine;
  let ours: readonly Migration[];
  const closing: (() => Promise<void> | void)[] = [];
  before(async () => {
    engine = await startEngine('server');
    ours = await readMigrations();
  });
  after(async () => {
    for (const close of closing.reverse()) await close();
    await engine.close();
  });

  const nextStep = (text: string, readableFrom = 0): Migration => {
    const id = ours.length + 1;
    return { id, name: `000${id}-next.sql`, sha256: 'next', sql: text, readableFrom };
  };

  async function replica(migrations: readonly Migration[]) {
    const log = recordingLog();
    const database = await openDatabase({ place: engine.place, log, clock, migrations });
    closing.push(() => database.close());
    const resources = createResources({ database, clock, log });
    const metrics = new RecordingMetrics();
    const directory = createDirectory({ base, owner, resources, clock, log, metrics });
    closing.push(() => directory.close());
    await directory.start();
    return { database, directory, log };
  }

  const insert = async (resources: Resources): Promise<{ id: string; hash: string }> => {
    const key = aKey(organisationId);
    await resources.write(organisationId, ({ apiKeys }) => apiKeys.insert(key));
    return { id: key.id, hash: key.secrets[0]?.hash ?? '' };
  };

  test('a step that only adds changes nothing for it; what takes something away makes it unready', async () => {
    const old = await replica(ours);
    const before = await insert(old.directory.resources);
    const expand = nextStep(
      "ALTER TABLE api_keys ADD COLUMN budget text NOT NULL DEFAULT ''; CREATE TABLE budgets (id text)",
    );
    const young = await replica([...ours, expand]);
    const made = await insert(young.directory.resources);
    await young.directory.resources.write(organisationId, ({ apiKeys }) =>
      apiKeys.remove(organisationId, before.id),
    );
    await eventually(() => old.directory.keyByHash(made.hash));
    await eventually(() => old.directory.keyByHash(before.hash) === undefined || undefined);
    assert.deepEqual([old.directory.standing(), old.directory.unready()], ['current', []]);
    const back = await insert(old.directory.resources);
    await eventually(() => young.directory.keyByHash(back.hash));

    const again = await replica(ours);
    assert.ok(again.directory.keyByHash(made.hash), 'it can be started again, and rolled back to');
    assert.match(again.log.lines.join('\n'), /extended by a newer version/);

    const rename = (from: string, to: string): Promise<unknown> =>
      young.database.query((statements) =>
        statements.execute(sql.raw(`ALTER TABLE api_keys RENAME COLUMN ${from} TO ${to}`)),
      );
    await rename('scopes', 'rights');
    await young.database.query((statements) =>
      statements.execute(sql`UPDATE organisation_counters SET changes = changes + 1`),
    );
    const reasons = await eventually(() => {
      const found = old.directory.unready();
      return found.length > 0 ? found : undefined;
    });
    assert.match(reasons.join(), /answers, and cannot be read by this version/);
    assert.equal(
      old.directory.standing(),
      'behind',
      'keys that it does not know are refused for another attempt',
    );
    assert.equal(
      old.log.lines.filter((line) => line.includes('was it migrated by another version')).length,
      1,
    );
    await rename('rights', 'scopes');
    await eventually(() => old.directory.unready().length === 0 || undefined);
    assert.equal(old.directory.standing(), 'current');
  });

  test('beside a contract step it is refused when it knows too little, and started when it knows enough', async () => {
    const expand = nextStep(
      "ALTER TABLE api_keys ADD COLUMN budget text NOT NULL DEFAULT ''; CREATE TABLE budgets (id text)",
    );
    const contract = {
      ...nextStep('ALTER TABLE api_keys DROP COLUMN budget', expand.id),
      id: expand.id + 1,
      name: 'contract.sql',
      sha256: 'contract',
    };
    await replica([...ours, expand, contract]);
    await assert.rejects(
      replica(ours),
      /it has migration contract\.sql, which this version does not know and cannot work beside/,
    );
    assert.equal((await replica([...ours, expand])).directory.standing(), 'current');
  });
});
