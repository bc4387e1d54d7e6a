import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Clock } from '../../core/ports/clock.ts';
import type { Journal } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { DeduplicatingStore } from '../../tests/conformance/deduplicating-store.ts';
import { assertBalanced, journalConformance } from '../../tests/conformance/journal.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { openJournal, type JournalOptions } from './journal.ts';

const clock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

async function place(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'journal-'));
  const logged: string[] = [];
  const record = (message: string): void => void logged.push(message);
  const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log };
  const opened: Journal[] = [];
  t.after(async () => {
    await Promise.all(opened.map((journal) => journal.close(0)));
    await rm(directory, { recursive: true });
  });
  const open = async (insert: JournalOptions['insert'], options: Partial<JournalOptions> = {}) => {
    const bounds = { flushMs: 5, shipMs: 20, maxBytes: 1_000_000 };
    const journal = await openJournal({ directory, insert, clock, log, ...bounds, ...options });
    opened.push(journal);
    return journal;
  };
  const files = async (suffix: string) => (await readdir(directory)).filter((file) => file.endsWith(suffix));
  return { directory, logged, open, files };
}

journalConformance('segment files', place);

const line = (n: number): string => JSON.stringify({ n });
const never = { flushMs: 3_600_000, shipMs: 3_600_000 };

test('flushed rows stand in an open segment; a sealed one is removed when it is stored', async (t) => {
  const { directory, open, files } = await place(t);
  const store = new DeduplicatingStore();
  const journal = await open(store.insert, never);
  journal.append('requests', line(1));
  await journal.flush();
  journal.append('requests', line(2));
  await journal.flush();
  const [segment = ''] = await files('.open');
  assert.match(segment, /^requests-[0-9a-z]+-[0-9a-f]{12}-0\.open$/);
  assert.equal(await readFile(join(directory, segment), 'utf8'), `${line(1)}\n${line(2)}\n`);
  assert.deepEqual(store.posted, []);
  assert.equal(await journal.settle(5000), true);
  assert.deepEqual(store.posted, [segment.replace('.open', '')]);
  assert.deepEqual(await readdir(directory), ['quarantine']);
});

test('nobody else may read rows', { skip: process.platform === 'win32' }, async (t) => {
  const { directory, open, files } = await place(t);
  const journal = await open(undefined, never);
  journal.append('bodies', line(1));
  await journal.flush();
  const [segment = ''] = await files('.open');
  assert.equal((await stat(join(directory, segment))).mode & 0o077, 0);
  assert.equal((await stat(join(directory, 'quarantine'))).mode & 0o077, 0);
});

test('a segment is sealed at its size', async (t) => {
  const { open, files } = await place(t);
  const journal = await open(undefined, { ...never, maxSegmentBytes: 100 });
  for (let n = 0; n < 30; n += 1) {
    journal.append('requests', line(n));
    await journal.flush();
  }
  assert.equal((await files('.sealed')).length, 2);
  assert.equal((await files('.open')).length, 1);
});

test('while the store is away segments do not multiply with time, and the log tells once', async (t) => {
  const { open, files, logged } = await place(t);
  const store = new DeduplicatingStore();
  store.mood = 'away';
  const journal = await open(store.insert, { flushMs: 1, shipMs: 1 });
  for (let n = 0; n < 30 || store.posted.length < 3; n += 1) {
    journal.append('requests', line(n));
    await journal.flush();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok((await files('.sealed')).length <= 1);
  assert.equal((await files('.open')).length, 1);
  assert.equal(new Set(store.posted).size, 1);
  assert.equal(logged.filter((message) => message.includes('cannot be shipped')).length, 1);
  store.mood = 'up';
  assert.equal(await journal.settle(5000), true);
  assert.equal(logged.filter((message) => message.includes('answers again')).length, 1);
});

test('settling does not sit out the pause after a failure', { timeout: 20_000 }, async (t) => {
  const { open } = await place(t);
  const store = new DeduplicatingStore();
  store.mood = 'away';
  // On a clock that stands still a pause lasts for ever.
  const journal = await open(store.insert, { clock: new ManualClock() });
  journal.append('requests', line(1));
  void journal.settle(1000);
  while (journal.lastError === undefined) await new Promise((resolve) => setTimeout(resolve, 1));
  store.mood = 'up';
  assert.equal(await journal.settle(1000), true);
});

test('the disk bound sheds, counts, and tells once; rows on disk stay', async (t) => {
  const { directory, open, logged, files } = await place(t);
  const journal = await open(undefined, { flushMs: 1, maxBytes: 2000, maxSegmentBytes: 500 });
  for (let n = 0; n < 400; n += 1) {
    journal.append('requests', JSON.stringify({ n, text: 'äöü' }));
    journal.append('bodies', line(n));
    if (n % 7 === 0) await journal.flush();
  }
  await journal.flush();
  const { accepted, pending, shed } = journal.state('requests');
  assert.equal(accepted, 400);
  assert.ok(pending > 0 && shed > 0);
  assertBalanced(journal);
  let bytes = 0;
  let rows = 0;
  for (const file of [...(await files('.open')), ...(await files('.sealed'))]) {
    const text = await readFile(join(directory, file));
    bytes += text.length;
    rows += text.toString().split('\n').length - 1;
  }
  assert.ok(bytes <= 2000 && bytes > 1800, `${bytes} bytes`);
  assert.equal(rows, pending + journal.state('bodies').pending);
  assert.equal(logged.filter((message) => message.includes('disk bound')).length, 1);
});

test('room that a stored segment leaves is used again', async (t) => {
  const { open } = await place(t);
  const store = new DeduplicatingStore();
  const journal = await open(store.insert, { maxBytes: 1000 });
  for (let n = 0; n < 500; n += 1) {
    journal.append('requests', line(n));
    if (n % 50 === 49) assert.equal(await journal.settle(5000), true);
  }
  assert.deepEqual(journal.state('requests'), { accepted: 500, stored: 500, pending: 0, shed: 0 });
});

test('rows that cannot wait in memory, and rows longer than a segment, are shed', async (t) => {
  const { open, logged } = await place(t);
  const journal = await open(undefined, { ...never, maxUnflushed: 100, maxSegmentBytes: 50 });
  journal.append('requests', JSON.stringify('x'.repeat(60)));
  assert.equal(journal.state('requests').shed, 1);
  for (let n = 0; n < 20; n += 1) journal.append('requests', line(n));
  assert.deepEqual(journal.state('requests'), { accepted: 21, stored: 0, pending: 12, shed: 9 });
  await journal.flush();
  journal.append('requests', line(1));
  assert.equal(journal.state('requests').pending, 13);
  assert.equal(logged.filter((message) => message.includes('longer than')).length, 1);
  assert.equal(logged.filter((message) => message.includes('wait for the disk')).length, 1);
});

test('a bad row goes to quarantine with the reason, the log names the segment and no content', async (t) => {
  const { directory, open, logged } = await place(t);
  const store = new DeduplicatingStore();
  store.isBad = (row) => row.includes('secret');
  const journal = await open(store.insert, never);
  journal.append('requests', line(1));
  journal.append('requests', '{"text":"secret"}');
  await journal.settle(5000);
  const [file = ''] = await readdir(join(directory, 'quarantine'));
  const kept = JSON.parse(await readFile(join(directory, 'quarantine', file), 'utf8')) as Record<
    string,
    string
  >;
  assert.deepEqual([kept['row'], kept['reason']], ['{"text":"secret"}', 'Cannot parse a row']);
  const [whole = '', left, right] = store.posted;
  assert.deepEqual([left, right], [`${whole}:0-8`, `${whole}:8-26`]);
  assert.equal(file, `${whole}.8-26.json`);
  assert.equal(logged.filter((message) => message.includes(`refused rows of segment ${whole}`)).length, 1);
  assert.ok(!logged.join('\n').includes('secret'));
});

test('a segment that somebody removes is counted as shed, and the next ones are shipped', async (t) => {
  const { directory, open, files } = await place(t);
  const first = await open(undefined, never);
  first.append('requests', line(1));
  await first.close(1000);
  const store = new DeduplicatingStore();
  store.mood = 'away';
  const journal = await open(store.insert, never);
  while (journal.lastError === undefined) await new Promise((resolve) => setTimeout(resolve, 1));
  const [segment = ''] = await files('.sealed');
  await rm(join(directory, segment));
  store.mood = 'up';
  journal.append('requests', line(2));
  await journal.settle(5000);
  assert.deepEqual(store.rows.requests, [line(2)]);
  assert.deepEqual(journal.state('requests'), { accepted: 2, stored: 1, pending: 0, shed: 1 });
});
