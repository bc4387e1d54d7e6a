import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { DeduplicatingStore } from '../../tests/conformance/deduplicating-store.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import { type Disk, diskRoom } from './disk-room.ts';
import { openJournal, type JournalOptions } from './journal.ts';

const mebibyte = 1024 * 1024;
const gibibyte = 1024 * mebibyte;
const hour = 3_600_000;

async function place(t: TestContext, options: Partial<JournalOptions> = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'journal-'));
  const clock = new ManualClock();
  const log = recordingLog();
  const store = new DeduplicatingStore();
  store.mood = 'away';
  const pass = async (ms: number, steps = 20): Promise<void> => {
    for (let step = 0; step < steps; step += 1) {
      await clock.pass(ms / steps);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  };
  /** Lets time pass until it is so: files take as long as the machine is busy. */
  const passUntil = async (isSo: () => boolean): Promise<void> => {
    for (const end = performance.now() + 30_000; !isSo() && performance.now() < end;) await pass(200, 1);
  };
  const open = async () => {
    const journal = await openJournal({
      directory,
      clock,
      log,
      insert: store.insert,
      flushMs: 20,
      shipMs: 1000,
      maxBytes: undefined,
      ...options,
    });
    const close = async (): Promise<void> => {
      let isClosed = false;
      void journal.close(0).then(() => (isClosed = true));
      while (!isClosed) await pass(100, 1);
    };
    return { journal, close };
  };
  t.after(() => rm(directory, { recursive: true }));
  const waiting = async () => (await readdir(directory)).filter((name) => name.startsWith('requests-'));
  return { directory, clock, log, store, pass, passUntil, open, waiting };
}

describe('the room of a journal', () => {
  test('is what the disk has free, but for a part of it', () => {
    const on = (total: number, free: number, held = 0): number =>
      diskRoom.boundFor({ total, free }, held) / mebibyte;
    assert.equal(on(100 * gibibyte, 50 * gibibyte), 49 * 1024);
    assert.equal(on(5 * gibibyte, 5 * gibibyte), 5 * 1024 - 512);
    // What it holds is its own.
    assert.equal(on(100 * gibibyte, 40 * gibibyte, 10 * gibibyte), 49 * 1024);
    // A disk that is all but full: rows pass through while the store takes them.
    assert.equal(on(100 * gibibyte, 500 * mebibyte), 64);
    assert.equal(on(100 * gibibyte, 20 * mebibyte), 10);
    assert.equal(diskRoom.boundFor({ total: 100, free: 80 }, 0, 30), 50);
  });

  test('never reaches beyond the disk, and does not shrink by what the journal writes', () => {
    const size = fc.integer({ min: 1, max: 2 ** 45 });
    fc.assert(
      fc.property(size, fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(2 ** 40), (total, share, held) => {
        const free = Math.floor(total * share);
        const bound = diskRoom.boundFor({ total, free }, held);
        assert.ok(bound >= 1 && bound <= Math.max(1, held + free));
        const written = Math.floor(free / 3);
        assert.equal(diskRoom.boundFor({ total, free: free - written }, held + written), bound);
      }),
    );
  });

  test('follows the disk while it runs: others fill it, and free it again', async (t) => {
    let disk: Disk = { total: 10_000, free: 10_000 };
    const { open, pass } = await place(t, { disk: () => Promise.resolve(disk), minFreeBytes: 1000 });
    const { journal, close } = await open();
    assert.equal(journal.room().maxBytes, 9000);
    disk = { total: 10_000, free: 400 };
    await pass(5000, 2);
    assert.equal(journal.room().maxBytes, 200);
    journal.append('requests', JSON.stringify({ text: 'x'.repeat(150) }));
    journal.append('requests', JSON.stringify({ text: 'x'.repeat(150) }));
    assert.equal(journal.state('requests').shed, 2);
    disk = { total: 10_000, free: 10_000 };
    await pass(5000, 2);
    journal.append('requests', JSON.stringify({ text: 'x'.repeat(150) }));
    assert.equal(journal.state('requests').shed, 2);
    await close();
  });

  test('a bound that is set stays as it is, and so does that of a journal without a store', async (t) => {
    const disk = (): Promise<Disk> => Promise.reject(new Error('not to be asked'));
    const set = await (await place(t, { disk, maxBytes: 5000 })).open();
    assert.equal(set.journal.room().maxBytes, 5000);
    await set.close();
    const none = await (await place(t, { disk, insert: undefined })).open();
    assert.equal(none.journal.room().maxBytes, 2 * gibibyte);
    await none.close();
  });

  test('a disk that says nothing is told to the log, and 2 GiB is the bound', async (t) => {
    const { open, log } = await place(t, { disk: () => Promise.reject(new Error('no such call')) });
    const { journal, close } = await open();
    assert.equal(journal.room().maxBytes, 2 * gibibyte);
    assert.match(log.lines[0] ?? '', /does not say what is free .*no such call/);
    await close();
  });
});

describe('rows that wait for a store that is away', () => {
  test('are given up when they are too old, oldest first, counted and told once; younger ones are stored', async (t) => {
    const { open, pass, passUntil, store, log, waiting } = await place(t, {
      maxAgeMs: hour,
      maxSegmentBytes: 40,
    });
    const { journal, close } = await open();
    for (const n of [1, 2]) journal.append('requests', JSON.stringify({ n, text: 'x'.repeat(20) }));
    await pass(hour / 2);
    assert.equal(journal.state('requests').pending, 2);
    journal.append('requests', JSON.stringify({ n: 3, text: 'x'.repeat(20) }));
    await pass(hour * 0.6);
    await passUntil(() => journal.state('requests').shed === 2);
    assert.deepEqual(journal.state('requests'), { accepted: 3, stored: 0, pending: 1, shed: 2 });
    assert.equal(journal.shedBy('requests').age, 2);
    assert.equal(log.lines.filter((line) => line.includes('longer than 1 hours')).length, 1);
    assert.equal((await waiting()).length, 1);
    store.mood = 'up';
    await passUntil(() => store.rows.requests.length > 0);
    assert.deepEqual(
      store.rows.requests.map((row) => (JSON.parse(row) as { n: number }).n),
      [3],
    );
    await close();
  });

  test('are stored however old they are when the store answers, also after a restart', async (t) => {
    const { open, pass, passUntil, store, clock } = await place(t, { maxAgeMs: hour });
    const first = await open();
    first.journal.append('requests', '{"n":1}');
    await pass(2000);
    await first.close();
    store.mood = 'up';
    clock.advance(100 * hour);
    const second = await open();
    await passUntil(() => store.rows.requests.length > 0);
    assert.deepEqual(store.rows.requests, ['{"n":1}']);
    await second.close();
  });

  test('are kept for as long as there is room where requests wait for it (block)', async (t) => {
    const { open, pass } = await place(t, { maxAgeMs: hour, whenFull: 'block' });
    const { journal, close } = await open();
    journal.append('requests', '{"n":1}');
    await pass(3 * hour);
    assert.equal(journal.state('requests').pending, 1);
    await close();
  });
});
