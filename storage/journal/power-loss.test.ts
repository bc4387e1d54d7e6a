import assert from 'node:assert/strict';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { DeduplicatingStore } from '../../tests/conformance/deduplicating-store.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { PowerLoss, type Unsynced } from '../../tests/kit/power-loss.ts';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import { openIdentity } from '../identity/open-identity.ts';
import { openKeys } from '../secrets/key-file.ts';
import { openJournal, type JournalOptions } from './journal.ts';

const row = (n: number): string => JSON.stringify({ n, text: 'x'.repeat(n % 90) });
const rows = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => row(from + index));
const bounds = { flushMs: 20, shipMs: 1000, maxBytes: 1_000_000 };
const corners: readonly Unsynced[] = ['lost', 'zeros'];

/** A journal on a disk with a power switch, its store away; time stands still. */
async function place(t: TestContext, options: Partial<JournalOptions> = {}) {
  const power = await PowerLoss.watch(t);
  const clock = new ManualClock();
  const log = recordingLog();
  const store = new DeduplicatingStore();
  store.mood = 'away';
  const open = async (root: string, on = new DeduplicatingStore()) => {
    const directory = join(root, 'data', 'journal');
    const journal = await openJournal({ directory, insert: on.insert, clock, log, ...bounds, ...options });
    t.after(async () => {
      await clock.passUntil(journal.close(0));
    });
    return journal;
  };
  /** What a start after a power cut brings to the store. */
  const afterCut = async (unsynced: Unsynced): Promise<string[]> => {
    const root = await power.cut(unsynced);
    await mkdir(join(root, 'data'), { recursive: true });
    const found = new DeduplicatingStore();
    found.rows.requests.push(...store.rows.requests);
    const journal = await open(root, found);
    await clock.passUntil(journal.settle(60_000));
    return found.rows.requests;
  };
  const append = (journal: { append(table: 'requests', line: string): void }, lines: string[]): void => {
    for (const line of lines) journal.append('requests', line);
  };
  /** Passes time in steps; in between, the disk finishes what the timers began. */
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 20) {
      await clock.pass(20);
      await power.idle();
    }
  };
  const until = async (holds: () => boolean): Promise<void> => {
    for (let turn = 0; turn < 100 && !holds(); turn += 1) await pass(20);
    assert.ok(holds(), 'it never came');
  };
  return { power, clock, log, store, open, append, afterCut, pass, until };
}

describe('a power cut', () => {
  for (const unsynced of corners) {
    test(`with interval, rows older than flush_ms + sync_ms are there after it (what was not synced: ${unsynced})`, async (t) => {
      const { power, store, open, append, afterCut, pass } = await place(t);
      const journal = await open(power.root, store);
      append(journal, rows(0, 40));
      await pass(1100);
      append(journal, rows(40, 50));
      await journal.flush();
      // What came later may be there, or not.
      assert.deepEqual((await afterCut(unsynced)).slice(0, 40), rows(0, 40));
      await pass(1100);
      assert.deepEqual(await afterCut(unsynced), rows(0, 50));
    });

    test(`with each, what was flushed is there after it (${unsynced})`, async (t) => {
      const { power, store, open, append, afterCut } = await place(t, { sync: 'each' });
      const journal = await open(power.root, store);
      for (const [from, to] of [
        [0, 10],
        [10, 30],
      ] as const) {
        append(journal, rows(from, to));
        await journal.flush();
        assert.deepEqual(await afterCut(unsynced), rows(0, to));
      }
    });
  }

  test('over any course of rows, time and outages, no row older than the bound is lost, and none is changed', async () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('append' as const), rows: fc.integer({ min: 1, max: 30 }) }),
      fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 10, max: 500 }) }),
      fc.record({ do: fc.constant('mood' as const), mood: fc.constantFrom('up' as const, 'away') }),
      fc.record({ do: fc.constant('cut' as const), unsynced: fc.constantFrom(...corners) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (steps) => {
        const ends: (() => void | Promise<void>)[] = [];
        const scope = { after: (end: () => void | Promise<void>) => void ends.unshift(end) };
        // Small segments: several are begun, sealed and shipped in one course.
        const options = { maxSegmentBytes: 2000, syncMs: 200 };
        const { power, clock, store, open, append, afterCut, pass } = await place(
          scope as TestContext,
          options,
        );
        const journal = await open(power.root, store);
        const written: { readonly line: string; readonly at: number }[] = [];
        for (const one of [...steps, { do: 'cut', unsynced: 'lost' } as const]) {
          if (one.do === 'append') {
            const lines = rows(written.length, written.length + one.rows);
            append(journal, lines);
            written.push(...lines.map((line) => ({ line, at: clock.now() })));
          } else if (one.do === 'pass') await pass(one.ms);
          else if (one.do === 'mood') store.mood = one.mood;
          else {
            const old = written.filter(({ at }) => clock.now() - at > 20 + 200 + 40);
            const found = await afterCut(one.unsynced);
            const known = new Set(written.map(({ line }) => line));
            assert.ok(found.every((line) => known.has(line)));
            const there = new Set(found);
            assert.deepEqual(
              old.filter(({ line }) => !there.has(line)),
              [],
            );
            // The start after the cut lets time pass without waiting for the disk of this journal, which is busy on a busy machine.
            await pass(300);
          }
        }
        for (const end of ends) await end();
      }),
      { numRuns: 15 },
    );
  });

  test('with none, nothing is synced on the way of a row', async (t) => {
    const { power, store, open, append, pass } = await place(t, { sync: 'none', maxSegmentBytes: 2000 });
    store.mood = 'up';
    const journal = await open(power.root, store);
    power.syncs.length = 0;
    append(journal, rows(0, 200));
    await pass(3000);
    assert.equal(journal.state('requests').stored, 200);
    assert.deepEqual(power.syncs, []);
  });

  test('rows are written while a slow disk syncs, and no request waits', async (t) => {
    const { power, store, open, append, until } = await place(t, { shipMs: 60_000 });
    const journal = await open(power.root, store);
    append(journal, rows(0, 5));
    const held: (() => void)[] = [];
    power.beforeSync = () => new Promise((resolve) => void held.push(resolve));
    await until(() => held.length > 0);
    append(journal, rows(5, 10));
    await journal.flush();
    const directory = join(power.root, 'data', 'journal');
    const [file = ''] = (await readdir(directory)).filter((name) => name.startsWith('requests-'));
    assert.equal(await readFile(join(directory, file), 'utf8'), `${rows(0, 10).join('\n')}\n`);
    power.beforeSync = () => Promise.resolve();
    for (const release of held) release();
  });

  test('a disk that refuses to sync is told to the log once, and when it works again', async (t) => {
    const { power, store, open, append, pass, until, log } = await place(t, { shipMs: 60_000, syncMs: 100 });
    const journal = await open(power.root, store);
    power.beforeSync = () => Promise.reject(Object.assign(new Error('EIO: i/o error'), { code: 'EIO' }));
    append(journal, rows(0, 5));
    const said = (): string[] => log.lines.filter((line) => /durable/.test(line));
    await until(() => said().length > 0);
    await pass(300);
    assert.equal(said().length, 1);
    assert.match(said()[0] ?? '', /cannot be made durable \(EIO: i\/o error\); a power cut may lose them/);
    power.beforeSync = () => Promise.resolve();
    await until(() => said().length > 1);
    assert.match(said()[1] ?? '', /rows are durable again/);
  });
});

describe('a power cut after the first start', () => {
  for (const unsynced of corners) {
    test(`leaves the identity, its folders and the key of secrets (${unsynced})`, async (t) => {
      const power = await PowerLoss.watch(t);
      const options = { presetKey: undefined, ownerEmail: undefined, keyPrefix: 'wk_' };
      const data = join(power.root, 'new', 'data');
      const identity = await openIdentity(data, options);
      const keys = await openKeys(data, { current: undefined, previous: undefined });
      await identity.keepOwn();
      await identity.keyShown();
      const after = join(await power.cut(unsynced), 'new', 'data');
      const again = await openIdentity(after, options);
      assert.equal(again.isNew, false);
      assert.equal(again.newOwnerKey, undefined);
      assert.equal(again.directory.defaultOrganisationId, identity.directory.defaultOrganisationId);
      const keysAgain = await openKeys(after, { current: undefined, previous: undefined });
      assert.deepEqual([keysAgain.isNew, keysAgain.current.id], [false, keys.current.id]);
    });
  }
});
