import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Journal } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { DeduplicatingStore } from '../../tests/conformance/deduplicating-store.ts';
import { assertBalanced } from '../../tests/conformance/journal.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { openJournal, type JournalOptions } from './journal.ts';

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));
const line = (n: number, padding = 100): string => JSON.stringify({ n, text: 'x'.repeat(padding) });

async function place(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'journal-'));
  const clock = new ManualClock();
  const logged: string[] = [];
  const record = (message: string): void => void logged.push(message);
  const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log };
  const opened: Journal[] = [];
  t.after(async () => {
    for (const journal of opened) {
      let done = false;
      const closing = journal.close(10).then(() => (done = true));
      while (!done) {
        clock.advance(10);
        await turn();
      }
      await closing;
    }
    await rm(directory, { recursive: true });
  });
  const open = async (insert: JournalOptions['insert'], options: Partial<JournalOptions> = {}) => {
    const bounds = { flushMs: 5, shipMs: 20, maxBytes: 100_000 };
    const journal = await openJournal({ directory, insert, clock, log, ...bounds, ...options });
    opened.push(journal);
    return journal;
  };
  return { directory, clock, logged, open };
}

/** Appends rows of an owner until one is shed; resolves to how many were taken. */
async function fill(journal: Journal, table: 'requests' | 'bodies', owner: string): Promise<number> {
  for (let n = 0; ; n += 1) {
    const { shed } = journal.state(table);
    journal.append(table, line(n), owner);
    if (journal.state(table).shed > shed) return n;
    if (n % 50 === 0) await journal.flush();
  }
}

describe('journal at its limit: shed', () => {
  test('a quiet workspace gets its rows in while a loud one loses its own', async (t) => {
    const { open, logged } = await place(t);
    const journal = await open(undefined);
    assert.ok((await fill(journal, 'requests', 'loud')) > 700);
    for (let n = 0; n < 1000; n += 1) {
      journal.append('requests', line(n), 'loud');
      if (n % 100 === 0) journal.append('requests', line(n), 'quiet');
    }
    assert.deepEqual(journal.shedBy('requests'), { ...noneShed, share: 1001 });
    assert.equal(journal.state('requests').shed, 1001, 'none of them is of the quiet one');
    assertBalanced(journal);
    assert.equal(logged.filter((message) => message.includes('disk bound')).length, 1);
  });

  test('bodies are given up before request rows', async (t) => {
    const { open } = await place(t);
    const journal = await open(undefined);
    await fill(journal, 'bodies', 'a');
    const owners = ['b', 'c', 'd', 'e', 'f', 'g', 'h'];
    for (const owner of owners) await fill(journal, 'bodies', owner);
    assert.ok(journal.room().bytes <= 90_000, 'bodies leave a tenth to requests');
    for (const owner of owners) journal.append('requests', line(1), owner);
    assert.equal(journal.state('requests').shed, 0);
    journal.append('bodies', line(1, 3000), 'z');
    assert.ok(journal.shedBy('bodies').bodies > 0);
  });

  test('nobody gets past the bound, however many they are', async (t) => {
    const { open } = await place(t);
    const journal = await open(undefined);
    for (let n = 0; n < 3000; n += 1) {
      journal.append('requests', line(n), `owner-${n}`);
      if (n % 50 === 0) await journal.flush();
    }
    assert.ok(journal.room().bytes <= 100_000);
    assert.ok(journal.shedBy('requests').disk + journal.shedBy('requests').share > 1000);
    assertBalanced(journal);
  });

  test('what is stored makes room for everybody again', async (t) => {
    const { open } = await place(t);
    const store = new DeduplicatingStore();
    store.mood = 'away';
    const journal = await open(store.insert);
    await fill(journal, 'requests', 'loud');
    store.mood = 'up';
    await journal.settle(1_000_000);
    const { shed } = journal.state('requests');
    journal.append('requests', line(1), 'loud');
    assert.equal(journal.state('requests').shed, shed);
    assert.equal(journal.admit(), undefined, 'requests never wait');
  });
});

describe('journal at its limit: block', () => {
  const block = { whenFull: 'block', blockMs: 10_000 } as const;

  test('requests wait near the bound, and go on when there is room', async (t) => {
    const { open, logged } = await place(t);
    const store = new DeduplicatingStore();
    store.mood = 'away';
    const journal = await open(store.insert, block);
    assert.equal(journal.admit(), undefined);
    for (let n = 0; n < 750; n += 1) journal.append('requests', line(n), 'loud');
    const waiting = journal.admit();
    assert.ok(waiting);
    assert.deepEqual(journal.room(), {
      policy: 'block',
      maxBytes: 100_000,
      bytes: journal.room().bytes,
      waiting: 1,
      waited: 0,
      refused: 0,
    });
    store.mood = 'up';
    void journal.settle(1_000_000);
    await waiting;
    assert.equal(journal.admit(), undefined);
    assert.equal(journal.room().waited, 1);
    for (const text of ['requests wait for room', 'there is room again'])
      assert.equal(logged.filter((message) => message.includes(text)).length, 1);
  });

  test('one that waited too long is refused with journal_full, and the next can wait again', async (t) => {
    const { clock, open } = await place(t);
    const journal = await open(undefined, block);
    for (let n = 0; n < 750; n += 1) journal.append('requests', line(n), 'loud');
    const refused = assert.rejects(journal.admit() ?? Promise.resolve(), (error) => {
      assert.ok(GatewayError.is(error));
      assert.deepEqual(
        [error.code, error.status, error.headers],
        ['journal_full', 503, ['retry-after', '5']],
      );
      return true;
    });
    clock.advance(9_999);
    assert.equal(journal.room().waiting, 1);
    clock.advance(1);
    await refused;
    assert.deepEqual([journal.room().waiting, journal.room().refused], [0, 1]);
  });

  test('block_ms: 0 refuses at once, and so does a queue that is full', async (t) => {
    const { open } = await place(t);
    const strict = await open(undefined, { ...block, blockMs: 0 });
    for (let n = 0; n < 750; n += 1) strict.append('requests', line(n));
    await assert.rejects(strict.admit() ?? Promise.resolve(), { code: 'journal_full' });
    const { open: openOther } = await place(t);
    const patient = await openOther(undefined, block);
    for (let n = 0; n < 750; n += 1) patient.append('requests', line(n));
    const waiting = Array.from({ length: 1000 }, () => patient.admit() ?? Promise.resolve());
    await assert.rejects(patient.admit() ?? Promise.resolve(), { code: 'journal_full' });
    assert.equal(patient.room().waiting, waiting.length);
    const closing = patient.close(0);
    await Promise.all(waiting);
    await closing;
  });

  test('requests that are under way get their rows in, also beyond the bound', async (t) => {
    const { open } = await place(t);
    const journal = await open(undefined, block);
    for (let n = 0; n < 800; n += 1) {
      journal.append('requests', line(n), 'loud');
      journal.append('bodies', line(n, 10), 'loud');
      if (n % 50 === 0) await journal.flush();
    }
    assert.ok(journal.room().bytes > 100_000);
    assert.deepEqual([journal.state('requests').shed, journal.state('bodies').shed], [0, 0]);
    for (let n = 0; n < 2000; n += 1) journal.append('requests', line(n));
    await journal.flush();
    assert.ok(journal.room().bytes <= 200_000, 'twice the bound is the end of it');
    assertBalanced(journal);
  });

  test('a disk that does not take rows lets requests wait too', async (t) => {
    const { open } = await place(t);
    const journal = await open(undefined, { ...block, maxUnflushed: 1000, flushMs: 3_600_000 });
    for (let n = 0; n < 8; n += 1) journal.append('requests', line(n));
    const waiting = journal.admit();
    assert.ok(waiting);
    await journal.flush();
    await waiting;
  });
});

describe('a store that hangs', () => {
  test('an insert that never ends is posted again under its token, and what follows is stored', async (t) => {
    const { clock, open, logged } = await place(t);
    const store = new DeduplicatingStore();
    let late = (): void => undefined;
    let posts = 0;
    const journal = await open(async (...post) => {
      posts += 1;
      if (posts > 1) return store.insert(...post);
      await new Promise<void>((resolve) => (late = resolve));
      return store.insert(...post);
    });
    for (let n = 0; n < 5; n += 1) journal.append('requests', line(n));
    void journal.settle(1_000_000_000);
    while (posts === 0) await turn();
    clock.advance(119_999);
    await turn();
    assert.deepEqual([posts, journal.lastError], [1, undefined]);
    while (journal.state('requests').pending > 0) {
      clock.advance(1000);
      await turn();
    }
    // What hung does its work after all.
    late();
    await turn();
    await turn();
    assert.equal(new Set(store.posted).size, 1);
    assert.equal(store.rows.requests.length, 5);
    assert.deepEqual(journal.state('requests'), { accepted: 5, stored: 5, pending: 0, shed: 0 });
    assert.match(logged.join('\n'), /has not ended an insert within 120 s/);
  });
});

describe('a table that refuses every row', () => {
  const until = async (clock: ManualClock, done: () => boolean): Promise<void> => {
    while (!done()) {
      clock.advance(1000);
      await turn();
    }
  };

  test('a hundred rows are put aside, then the others wait as in an outage', async (t) => {
    const { clock, directory, logged, open } = await place(t);
    const store = new DeduplicatingStore();
    store.isBad = () => true;
    const journal = await open(store.insert, { maxBytes: 1_000_000 });
    for (let n = 0; n < 300; n += 1) journal.append('requests', line(n, 10));
    void journal.settle(1_000_000_000);
    await until(clock, () =>
      /refuses every row of the table requests: Cannot parse/.test(journal.lastError ?? ''),
    );
    const { length } = store.posted;
    await until(clock, () => store.posted.length > length + 20);
    assert.deepEqual(journal.state('requests'), { accepted: 300, stored: 0, pending: 200, shed: 100 });
    assert.equal(journal.shedBy('requests').refused, 100);
    assert.equal((await readdir(join(directory, 'quarantine'))).length, 100);
    assert.equal(logged.filter((message) => message.includes('refuses every row')).length, 1, 'told once');
    assert.equal(logged.filter((message) => message.includes('answers again')).length, 0);
    store.isBad = () => false;
    await until(clock, () => journal.state('requests').pending === 0);
    assert.equal(store.rows.requests.length, 200);
    assert.equal(new Set(store.rows.requests).size, 200);
    assert.equal(journal.lastError, undefined);
  });

  test('a long run of bad rows does not keep good ones from being stored', async (t) => {
    const { clock, open } = await place(t);
    const store = new DeduplicatingStore();
    store.isBad = (row) => row.includes('bad');
    const journal = await open(store.insert);
    for (let n = 0; n < 250; n += 1) journal.append('requests', JSON.stringify({ n, text: 'bad' }));
    for (let n = 250; n < 300; n += 1) journal.append('requests', JSON.stringify({ n, text: 'good' }));
    void journal.settle(1_000_000_000);
    await until(clock, () => store.rows.requests.length === 50);
    for (let n = 300; n < 320; n += 1) journal.append('requests', JSON.stringify({ n, text: 'good' }));
    await until(clock, () => store.rows.requests.length === 70);
    assertBalanced(journal);
    assert.equal(new Set(store.rows.requests).size, 70);
  });
});

const noneShed = {
  share: 0,
  bodies: 0,
  disk: 0,
  memory: 0,
  length: 0,
  closed: 0,
  refused: 0,
  age: 0,
  lost: 0,
};
