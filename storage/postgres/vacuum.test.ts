import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'drizzle-orm';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { openTestDatabase } from '../../tests/kit/postgres-kit.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import type { Database } from './database.ts';
import { keepAlive, migrations } from './database.test-support.ts';
import { startVacuum } from './vacuum.ts';

keepAlive();

describe('vacuum of the embedded engine', () => {
  let database: Database;
  const closing: (() => Promise<void>)[] = [];
  before(async () => {
    database = await openTestDatabase({ after: (close) => void closing.push(close) }, { migrations });
  });
  after(async () => {
    for (const close of closing) await close();
  });
  const ask = async (text: string): Promise<readonly Record<string, unknown>[]> =>
    (await database.query((statements) => statements.execute(sql.raw(text)))).rows;

  test('every table is vacuumed a minute after the start, and one that was within the last day is left alone', async () => {
    await ask(`INSERT INTO things SELECT 'thing ' || g, 1 FROM generate_series(1, 10000) g`);
    for (let round = 0; round < 2; round += 1) await ask('UPDATE things SET size = size + 1');
    const size = async (): Promise<unknown> =>
      (await ask(`SELECT pg_relation_size('things')::int AS n`))[0]?.['n'];
    const grown = await size();
    const clock = new ManualClock();
    const log = recordingLog();
    const stop = startVacuum({ database, log, clock });
    await clock.pass(59_999);
    assert.equal(log.lines.length, 0);
    const vacuumed = async (count: number): Promise<void> => {
      await eventually(async () => {
        await clock.pass(250);
        return log.lines.length === count ? true : undefined;
      });
    };
    await vacuumed(2);
    assert.deepEqual(
      log.lines.map((line) => /was vacuumed \{"table":"(\w+)"/.exec(line)?.[1]),
      ['things', 'weir_migrations'],
    );
    // The space of the old rows is used again.
    await ask('UPDATE things SET size = size + 1');
    assert.equal(await size(), grown);

    await ask('CREATE TABLE later (a int)');
    await clock.pass(3_590_000);
    assert.equal(log.lines.length, 2);
    await vacuumed(3);
    assert.match(log.lines[2] ?? '', /"table":"later"/);
    await stop();
    assert.equal(clock.waiting, 0);
  });
});

/** A database with two tables to vacuum, which says what it was asked. */
function fake() {
  const asked: string[] = [];
  const state = { isBusy: false, away: false, refused: false };
  const execute = (statement: { queryChunks: readonly unknown[] }): unknown => {
    const text = JSON.stringify(statement.queryChunks);
    const table = /"(first|second)"/.exec(text)?.[1];
    if (state.away) throw new Error('away');
    if (table === undefined) return { rows: [{ name: 'first' }, { name: 'second' }] };
    asked.push(table);
    if (state.refused && table === 'first') throw new Error('refused');
    return { rows: [] };
  };
  const query = (async (work: (statements: unknown) => unknown) =>
    work({ execute })) as unknown as Database['query'];
  const database = {
    query,
    get isBusy() {
      return state.isBusy;
    },
  };
  const clock = new ManualClock();
  const log = recordingLog();
  return { asked, state, clock, log, stop: startVacuum({ database, log, clock }) };
}

test('it waits for a quiet moment, a minute at the most', async () => {
  const { asked, state, clock, stop } = fake();
  state.isBusy = true;
  await clock.pass(60_000 + 30_000);
  assert.deepEqual(asked, []);
  state.isBusy = false;
  await clock.pass(250);
  assert.deepEqual(asked, ['first']);
  state.isBusy = true;
  await clock.pass(59_000);
  assert.deepEqual(asked, ['first']);
  await clock.pass(1000);
  assert.deepEqual(asked, ['first', 'second']);
  await stop();
});

test('what fails is a warning, keeps nobody from the other tables, and is tried again', async () => {
  const { asked, state, clock, log, stop } = fake();
  state.refused = true;
  await clock.pass(61_000);
  assert.deepEqual(asked, ['first', 'second']);
  assert.match(log.lines.join('\n'), /could not be vacuumed.*"table":"first"/);
  state.away = true;
  await clock.pass(3_600_000);
  assert.match(log.lines.at(-1) ?? '', /is not known; it is asked again in an hour/);
  Object.assign(state, { away: false, refused: false });
  await clock.pass(3_600_000);
  assert.deepEqual(asked, ['first', 'second', 'first', 'second']);
  await stop();
});

test('stopped, it vacuums nothing more and waits for nothing', async () => {
  const { asked, state, clock, stop } = fake();
  state.isBusy = true;
  await clock.pass(61_000);
  await stop();
  await settle();
  assert.deepEqual([asked, clock.waiting], [[], 0]);
});
