import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'drizzle-orm';
import { postgresMissing } from '../../tests/kit/postgres-server.ts';
import {
  openTestDatabase,
  startEngine,
  type EngineKind,
  type TestEngine,
} from '../../tests/kit/postgres-kit.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { recordingLog, testClock } from '../embedded/chdb-fixture.ts';
import { type Database, databaseErrors } from './database.ts';
import { count, failure, hastyClock, insert, keepAlive, migrations } from './database.test-support.ts';
import { openDatabase, type EmbeddedPlace } from './open-database.ts';

keepAlive();

for (const kind of ['embedded', 'server'] as const satisfies readonly EngineKind[]) {
  describe(`the relational store, ${kind}`, { skip: kind === 'server' && postgresMissing }, () => {
    let engine: TestEngine;
    let database: Database;
    const open = (): Promise<Database> =>
      openDatabase({ place: engine.place, log: recordingLog(), clock: testClock, migrations });
    before(async () => {
      engine = await startEngine(kind);
      database = await open();
    });
    after(async () => {
      await database.close();
      await engine.close();
    });

    test('opens again without applying anything twice, and answers', async () => {
      const second = await open();
      await second.ping();
      await second.close();
      assert.equal(second.embedded, kind === 'embedded');
      const refused = await failure(second.ping());
      assert.equal(refused.code, 'store_unavailable');
      const result = await database.query((statements) => statements.execute(sql`SELECT twice(21) AS n`));
      assert.deepEqual(result.rows, [{ n: 42 }]);
    });

    test('a transaction is all or nothing', async () => {
      const before = await count(database);
      const own = new Error('the caller changed its mind');
      const thrown = database.transaction(async (statements) => {
        await insert('never')(statements);
        throw own;
      });
      await assert.rejects(thrown, (error) => error === own);
      assert.equal(await count(database), before);
      assert.equal(
        await database.transaction(async (statements) => (await insert('kept')(statements)).rowCount),
        1,
      );
      assert.equal(await count(database), Number(before) + 1);
    });

    test('a transaction in which a statement failed is never taken for a committed one', async () => {
      const before = await count(database);
      const error = await failure(
        database.transaction(async (statements) => {
          await insert('swallowed')(statements);
          await insert('swallowed')(statements).catch(() => undefined);
        }),
      );
      assert.equal(error.code, 'internal');
      assert.match(error.message, /kept nothing of it/);
      assert.equal(await count(database), before);
    });

    test('a read-only transaction takes no writes and says so', async () => {
      const error = await failure(database.transaction(insert('never'), { readOnly: true }));
      assert.equal(error.code, 'store_unavailable');
      assert.match(error.message, /error 25006/);
    });

    test('a unique violation is already_exists with the name of the index and without the value', async () => {
      await database.query(insert('secret-value'));
      for (const run of [
        () => database.query(insert('secret-value')),
        () => database.transaction(insert('secret-value')),
      ]) {
        const error = await failure(run());
        assert.deepEqual([error.code, error.status, error.adminCode], ['already_exists', 409, 'AB07']);
        assert.equal(databaseErrors.violatedConstraint(error), 'things_name_taken');
        assert.doesNotMatch(
          `${error.message} ${String(error.cause)} ${JSON.stringify(error.cause)}`,
          /secret-value/,
        );
      }
    });

    test('a statement that the database refuses is internal and quotes no value', async () => {
      const error = await failure(database.query(insert('secret-name', -5)));
      assert.equal(error.code, 'internal');
      assert.match(
        error.message,
        /^The resources store refused a statement: error 23514 at public\.things\.$/,
      );
      assert.doesNotMatch(`${String(error.cause)} ${JSON.stringify(error.cause)}`, /secret-name/);
      assert.equal(databaseErrors.violatedConstraint(error), undefined);
    });

    test('many callers at once each get their answer', async () => {
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          database.transaction(
            async (statements) => (await statements.execute(sql`SELECT twice(${n}) AS n`)).rows[0]?.['n'],
          ),
        ),
      );
      assert.deepEqual(
        answers,
        Array.from({ length: 40 }, (_, n) => 2 * n),
      );
    });

    test('committed rows are there after a kill -9, and a use in between is store_unavailable', async () => {
      const before = Number(await count(database));
      for (let row = 0; row < 30; row += 1) await database.query(insert(`row ${row}`));
      const cut = failure(
        database.transaction(async (statements) => {
          await insert('uncommitted')(statements);
          await engine.crash();
          await insert('after the crash')(statements);
        }),
      );
      const error = await cut;
      assert.equal(error.code, 'store_unavailable');
      assert.equal(await count(database), before + 30);
    });

    test('a statement is sent once, however its result is awaited', async () => {
      await database.query((statements) => statements.execute(sql`CREATE SEQUENCE uses`));
      await database.query((statements) => statements.execute(sql`SELECT nextval('uses')`));
      await database.transaction((statements) => statements.execute(sql`SELECT nextval('uses')`));
      const next = await database.query((statements) =>
        statements.execute(sql`SELECT nextval('uses')::int AS n`),
      );
      assert.deepEqual(next.rows, [{ n: 3 }]);
    });

    test('whoever listens hears of a committed change and not of one that was rolled back', async () => {
      let looks = 0;
      const end = database.listen('weir_test', () => (looks += 1));
      const endRolledBack = database.listen('weir_rolled_back', () => (looks += 1));
      database.listen('weir_other', () => assert.fail('told of a change after the end'))();
      await database.transaction(insert('told'), { notify: 'weir_test' });
      await database.transaction(insert('other'), { notify: 'weir_other' });
      assert.ok(looks >= 1);
      end();
      endRolledBack();
      const before = looks;
      await database.transaction(insert('told again'), { notify: 'weir_test' });
      await failure(database.transaction(insert('told'), { notify: 'weir_rolled_back' }));
      assert.equal(looks, before);
    });
  });
}

test('an embedded engine that answers nothing is replaced, and what was committed is there', async (t) => {
  const engine = await startEngine('embedded');
  t.after(() => engine.close());
  let replaced = 0;
  const place = engine.place as EmbeddedPlace;
  const watched: EmbeddedPlace = {
    socketFolder: place.socketFolder,
    replace() {
      replaced += 1;
      place.replace();
    },
  };
  const log = recordingLog();
  const database = await openDatabase({
    place: watched,
    log,
    clock: testClock,
    migrations,
    // Longer than a busy machine needs to start the new engine and to answer: else that one is replaced in its turn.
    answerTimeoutMs: 3000,
  });
  t.after(() => database.close());
  await database.query(insert('kept'));
  engine.pause();
  const error = await failure(database.ping());
  assert.deepEqual(
    [error.code, error.message],
    ['store_unavailable', 'The resources store is not available: it did not answer in time.'],
  );
  assert.ok(replaced >= 1);
  assert.match(log.lines.join('\n'), /answers nothing and is replaced/);
  await eventually(
    () =>
      database
        .query((statements) => statements.execute(sql`SELECT name FROM things`))
        .then(
          ({ rows }) => rows.length === 1 || undefined,
          () => undefined,
        ),
    () => 'the new engine',
  );
});

test('work that does not end is cut off, rolled back, and lets go of the connection', async (t) => {
  const database = await openTestDatabase(t, { migrations, clock: hastyClock(150) });
  let late: unknown;
  const error = await failure(
    database.transaction(async (statements) => {
      await insert('never')(statements);
      await new Promise((resolve) => setTimeout(resolve, 400));
      late = await failure(insert('late')(statements).then(() => undefined)).catch(
        (thrown: unknown) => thrown,
      );
    }),
  );
  assert.match(error.message, /took longer than 30 seconds/);
  assert.equal(await count(database), 0);
  await eventually(
    () => (late === undefined ? undefined : true),
    () => 'the late statement to fail',
  );
  assert.equal(await count(database), 0);
});
