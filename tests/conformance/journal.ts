import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Journal, JournalTable } from '../../core/ports/journal.ts';
import { DeduplicatingStore } from './deduplicating-store.ts';

/** A place for one journal. `open` may be called again after `close`, and finds what was left there. */
interface JournalPlace {
  open(insert: DeduplicatingStore['insert'] | undefined): Promise<Journal>;
}

/** Makes a place for one test; it cleans up after itself, and closes what the test left open. */
type MakePlace = (t: TestContext) => JournalPlace | Promise<JournalPlace>;

const row = (n: number): string => JSON.stringify({ n, text: 'ä\n🌊' });
const rows = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => row(from + index));

/** The equation of the port, for both tables. */
export function assertBalanced(journal: Journal): void {
  for (const table of ['requests', 'bodies', 'feedback'] as const) {
    const state = journal.state(table);
    assert.equal(
      state.accepted,
      state.stored + state.pending + state.shed,
      `${table} ${JSON.stringify(state)}`,
    );
    for (const count of Object.values(state) as number[]) assert.ok(count >= 0);
  }
}

/** What every implementation of `Journal` promises. */
export function journalConformance(name: string, makePlace: MakePlace): void {
  describe(`${name}: delivery`, () => delivers(makePlace));
  describe(`${name}: a store in trouble`, () => survives(makePlace));
  describe(`${name}: closing`, () => closes(makePlace));
}

function appendAll(journal: Journal, table: JournalTable, lines: readonly string[]): void {
  for (const line of lines) journal.append(table, line);
}

function delivers(makePlace: MakePlace): void {
  test('every row arrives once, in order, in its own table', async (t) => {
    const store = new DeduplicatingStore();
    const journal = await (await makePlace(t)).open(store.insert);
    appendAll(journal, 'requests', rows(0, 50));
    appendAll(journal, 'bodies', rows(50, 60));
    assert.equal(await journal.settle(5000), true);
    appendAll(journal, 'requests', rows(60, 70));
    assert.equal(await journal.settle(5000), true);
    assert.deepEqual(store.rows, {
      requests: [...rows(0, 50), ...rows(60, 70)],
      bodies: rows(50, 60),
      feedback: [],
    });
    assert.deepEqual(journal.state('requests'), { accepted: 60, stored: 60, pending: 0, shed: 0 });
    assert.deepEqual(journal.state('bodies'), { accepted: 10, stored: 10, pending: 0, shed: 0 });
    assert.equal(journal.lastError, undefined);
  });

  test('rows arrive without anybody asking for it', async (t) => {
    const store = new DeduplicatingStore();
    const journal = await (await makePlace(t)).open(store.insert);
    appendAll(journal, 'requests', rows(0, 3));
    while (journal.state('requests').stored < 3) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(store.rows.requests, rows(0, 3));
  });

  test('nothing to settle is settled', async (t) => {
    const journal = await (await makePlace(t)).open(new DeduplicatingStore().insert);
    await journal.flush();
    assert.equal(await journal.settle(1000), true);
  });
}

function survives(makePlace: MakePlace): void {
  test('rows wait while the store is away, and arrive once it is back', async (t) => {
    const store = new DeduplicatingStore();
    store.mood = 'away';
    const journal = await (await makePlace(t)).open(store.insert);
    appendAll(journal, 'requests', rows(0, 5));
    assert.equal(await journal.settle(500), false);
    assert.deepEqual(journal.state('requests'), { accepted: 5, stored: 0, pending: 5, shed: 0 });
    assert.match(journal.lastError ?? '', /away/);
    store.mood = 'up';
    assert.equal(await journal.settle(5000), true);
    assert.deepEqual(store.rows.requests, rows(0, 5));
    assert.equal(journal.lastError, undefined);
  });

  test('a lost answer doubles nothing', async (t) => {
    const store = new DeduplicatingStore();
    store.mood = 'lost-answer';
    const journal = await (await makePlace(t)).open(store.insert);
    appendAll(journal, 'requests', rows(0, 5));
    assert.equal(await journal.settle(500), false);
    store.mood = 'up';
    assert.equal(await journal.settle(5000), true);
    assert.deepEqual(store.rows.requests, rows(0, 5));
  });

  test('bad rows are shed alone, whatever stands around them', async (t) => {
    const bad = new Set([0, 7, 8, 29].map(row));
    const store = new DeduplicatingStore();
    store.isBad = (line) => bad.has(line);
    const journal = await (await makePlace(t)).open(store.insert);
    appendAll(journal, 'requests', rows(0, 30));
    assert.equal(await journal.settle(5000), false, 'not everything could be stored');
    assert.deepEqual(
      store.rows.requests,
      rows(0, 30).filter((line) => !bad.has(line)),
    );
    assert.deepEqual(journal.state('requests'), { accepted: 30, stored: 26, pending: 0, shed: 4 });
    appendAll(journal, 'requests', rows(30, 35));
    assert.equal(await journal.settle(5000), true);
    assert.equal(journal.lastError, undefined);
    assertBalanced(journal);
  });
}

function closes(makePlace: MakePlace): void {
  test('what could not be shipped is shipped by the next run', async (t) => {
    const place = await makePlace(t);
    const store = new DeduplicatingStore();
    store.mood = 'lost-answer';
    const first = await place.open(store.insert);
    appendAll(first, 'requests', rows(0, 5));
    appendAll(first, 'bodies', rows(5, 6));
    await first.close(30);
    assertBalanced(first);
    store.mood = 'up';
    const second = await place.open(store.insert);
    assert.equal(await second.settle(5000), true);
    assert.deepEqual(second.state('requests'), { accepted: 5, stored: 5, pending: 0, shed: 0 });
    assert.deepEqual(store.rows, { requests: rows(0, 5), bodies: rows(5, 6), feedback: [] });
  });

  test('closing ships what it can', async (t) => {
    const store = new DeduplicatingStore();
    const journal = await (await makePlace(t)).open(store.insert);
    appendAll(journal, 'requests', rows(0, 5));
    await Promise.all([journal.close(5000), journal.close(5000)]);
    assert.deepEqual(store.rows.requests, rows(0, 5));
  });

  test('a row that comes after closing is counted as shed', async (t) => {
    const journal = await (await makePlace(t)).open(new DeduplicatingStore().insert);
    await journal.close(1000);
    journal.append('requests', row(0));
    await journal.flush();
    assert.deepEqual(journal.state('requests'), { accepted: 1, stored: 0, pending: 0, shed: 1 });
  });

  test('without a store rows stay, and a later run with one delivers them', async (t) => {
    const place = await makePlace(t);
    const first = await place.open(undefined);
    appendAll(first, 'requests', rows(0, 5));
    assert.equal(await first.settle(1000), false);
    assert.deepEqual(first.state('requests'), { accepted: 5, stored: 0, pending: 5, shed: 0 });
    await first.close(1000);
    const store = new DeduplicatingStore();
    const second = await place.open(store.insert);
    assert.equal(await second.settle(5000), true);
    assert.deepEqual(store.rows.requests, rows(0, 5));
  });
}
