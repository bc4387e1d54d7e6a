import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Journal } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { DeduplicatingStore } from '../../tests/conformance/deduplicating-store.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { Bounds } from './bounds.ts';
import { openJournal, type JournalOptions } from './journal.ts';
import { Ledger, type Segment, segments } from './segment.ts';
import { Quarantine, SegmentFolder } from './segment-folder.ts';
import { SegmentShipper, type Insert } from './segment-shipper.ts';

const base = 'requests-lx2k3j4h-0123456789ab-7';
const line = (n: number): string => JSON.stringify({ n });
const unheard = { maxAgeMs: Infinity, onIdle: () => undefined, onStuck: () => undefined };
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

async function place(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'journal-'));
  const clock = new ManualClock();
  const logged: string[] = [];
  const record = (message: string): void => void logged.push(message);
  const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log };
  const opened: Journal[] = [];
  t.after(async () => {
    for (const journal of opened) await closeOn(clock, journal);
    await rm(directory, { recursive: true });
  });
  const open = async (insert: JournalOptions['insert']) => {
    const bounds = { flushMs: 5, shipMs: 20, maxBytes: 1_000_000 };
    const journal = await openJournal({ directory, insert, clock, log, ...bounds });
    opened.push(journal);
    return journal;
  };
  const files = async () => (await readdir(directory)).filter((file) => file !== 'quarantine');
  const quarantine = () => readdir(join(directory, 'quarantine'));
  return { directory, clock, logged, log, open, files, quarantine };
}

/** Closes a journal whose clock somebody has to move. */
async function closeOn(clock: ManualClock, journal: Journal): Promise<void> {
  let done = false;
  const closing = journal.close(10).then(() => (done = true));
  while (!done) {
    clock.advance(10);
    await turn();
  }
  await closing;
}

/** A folder that counts its reads, and whose changes fail on a full disk as long as it is told so. */
class WatchedFolder extends SegmentFolder {
  reads = 0;
  full: 'link' | 'sync' | 'remove' | undefined;
  refused = 0;

  override read(segment: Segment): Promise<Buffer> {
    this.reads += 1;
    return super.read(segment);
  }

  override async remove(file: string): Promise<void> {
    this.check('remove');
    await super.remove(file);
  }

  override async sync(): Promise<void> {
    this.check('sync');
    await super.sync();
  }

  protected override async link(file: string, name: string): Promise<void> {
    this.check('link');
    await super.link(file, name);
  }

  private check(step: typeof this.full): void {
    if (this.full !== step) return;
    this.refused += 1;
    throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
  }
}

async function shipperOf(t: TestContext, store: DeduplicatingStore, insert: Insert = store.insert) {
  const { directory, clock, log, logged } = await place(t);
  const folder = new WatchedFolder(directory);
  const quarantine = new Quarantine({ journal: directory, maxBytes: 100_000, clock, log });
  await quarantine.prepare();
  const ledger = new Ledger();
  const bounds = new Bounds({ maxBytes: 100_000, maxUnflushed: 1000, maxRow: 1000 }, log);
  const parts = { folder, quarantine, ledger, bounds, clock, log, insert };
  const shipper = new SegmentShipper({ ...parts, table: 'requests', ...unheard });
  const take = async (rows: readonly string[]): Promise<Segment> => {
    const text = `${rows.join('\n')}\n`;
    await writeFile(join(directory, `${base}.sealed`), text);
    ledger.accept(rows.length);
    bounds.occupy(text.length);
    const segment = segments.whole(base, text.length, rows.length);
    shipper.enqueue(segment);
    return segment;
  };
  return { directory, clock, logged, folder, ledger, shipper, take };
}

test('a lone row leaves after `shipMs`, rows of steady traffic together every three times that', async (t) => {
  const { clock, open } = await place(t);
  const sent: number[] = [];
  const journal = await open(() => {
    sent.push(clock.monotonic());
    return Promise.resolve();
  });
  const start = clock.monotonic();
  for (let ms = 0; ms < 200; ms += 1) {
    if (ms < 120) journal.append('requests', line(ms));
    clock.advance(1);
    // Files are written meanwhile.
    for (let left = 3; left > 0; left -= 1) await turn();
  }
  const times = sent.map((at) => at - start);
  assert.ok((times[0] as number) >= 20 && (times[0] as number) < 40, String(times));
  assert.ok(times.length <= 4, String(times));
  for (let place = 1; place < times.length; place += 1)
    assert.ok((times[place] as number) - (times[place - 1] as number) >= 55, String(times));
  assert.equal(journal.state('requests').pending, 0);
});

test('the bytes of a segment are read only when it is refused', async (t) => {
  const store = new DeduplicatingStore();
  store.isBad = (row) => row === line(3);
  const { folder, shipper, take } = await shipperOf(t, store);
  await take([line(1), line(2)]);
  await shipper.drained();
  assert.deepEqual([store.rows.requests, folder.reads], [[line(1), line(2)], 0]);
  store.posted.length = 0;
  await take([line(4), line(3)]);
  await shipper.drained();
  assert.ok(folder.reads > 0);
});

for (const step of ['link', 'sync', 'remove'] as const) {
  test(`a full disk while a refused segment is split (${step}): it waits, and every row counts once`, async (t) => {
    const store = new DeduplicatingStore();
    const bad = line(2);
    store.isBad = (row) => row === bad;
    const { directory, clock, logged, folder, ledger, shipper, take } = await shipperOf(t, store);
    folder.full = step;
    await take([1, 2, 3, 4].map(line));
    for (const attempts of [1, 2, 3]) {
      while (folder.refused < attempts) await turn();
      // The longest pause of these attempts.
      clock.advance(1000);
    }
    folder.full = undefined;
    const drained = shipper.drained();
    shipper.nudge();
    assert.equal(await drained, true);
    assert.deepEqual(store.rows.requests, [line(1), line(3), line(4)]);
    assert.deepEqual(ledger.state(), { accepted: 4, stored: 3, pending: 0, shed: 1 });
    assert.deepEqual(await readdir(directory), ['quarantine']);
    const about = (text: string): number => logged.filter((message) => message.includes(text)).length;
    assert.deepEqual([about('free the disk'), about('disk works again')], [1, 1], logged.join('\n'));
    assert.equal(about('analytics store answers'), 0);
  });
}

test('a segment that is cut short from outside goes to quarantine, and the next ones are shipped', async (t) => {
  const { directory, logged, open, files, quarantine } = await place(t);
  const store = new DeduplicatingStore();
  store.mood = 'away';
  const journal = await open(store.insert);
  for (const n of [1, 2, 3]) journal.append('requests', line(n));
  void journal.settle(1000);
  while (journal.lastError === undefined) await turn();
  const [segment = ''] = await files();
  await truncate(join(directory, segment), line(1).length + 1);
  store.mood = 'up';
  journal.append('requests', line(4));
  assert.equal(await journal.settle(1000), false, 'rows were given up');
  assert.deepEqual(store.rows.requests, [line(4)]);
  assert.deepEqual(journal.state('requests'), { accepted: 4, stored: 1, pending: 0, shed: 3 });
  assert.deepEqual(await quarantine(), [`${segment}.damaged`]);
  assert.equal(
    await readFile(join(directory, 'quarantine', `${segment}.damaged`), 'utf8'),
    `${line(1)}\n`,
    'what is left of it is kept',
  );
  assert.match(logged.join('\n'), new RegExp(`${segment} has 8 of its 24 bytes, its rows are lost`));
});

for (const [what, harm] of [
  ['removed', (file: string) => rm(file)],
  ['cut short', (file: string) => truncate(file, 3)],
] as const) {
  test(`a segment that is ${what} while the store refuses it is given up, and nothing of it is stored`, async (t) => {
    const store = new DeduplicatingStore();
    store.isBad = () => true;
    const { directory, ledger, shipper, take } = await shipperOf(t, store, async (table, rows, token) => {
      await store.insert(table, rows, token).finally(() => harm(rows.path));
    });
    await take([line(1), line(2)]);
    await shipper.drained();
    assert.equal(store.posted.length, 1);
    assert.deepEqual(store.rows.requests, []);
    assert.deepEqual(ledger.state(), { accepted: 2, stored: 0, pending: 0, shed: 2 });
    assert.deepEqual(await readdir(directory), ['quarantine']);
  });
}

test('an open segment that somebody removes is counted as shed, and the next rows are stored', async (t) => {
  const { directory, logged, open, files } = await place(t);
  const store = new DeduplicatingStore();
  const journal = await open(store.insert);
  journal.append('requests', line(1));
  await journal.flush();
  const [segment = ''] = await files();
  assert.match(segment, /\.open$/);
  await rm(join(directory, segment));
  assert.equal(await journal.settle(1000), false);
  journal.append('requests', line(2));
  assert.equal(await journal.settle(1000), true);
  assert.deepEqual(store.rows.requests, [line(2)]);
  assert.deepEqual(journal.state('requests'), { accepted: 2, stored: 1, pending: 0, shed: 1 });
  assert.match(logged.join('\n'), /was removed while it was being written/);
});

test('a clock that goes back while the journal runs: names stay unique and in order, nothing is doubled', async (t) => {
  const { clock, open } = await place(t);
  const store = new DeduplicatingStore();
  const journal = await open(store.insert);
  const appended: string[] = [];
  for (let n = 0; n < 6; n += 1) {
    const row = JSON.stringify({ n, created_at: new Date(clock.now()).toISOString() });
    appended.push(row);
    journal.append('requests', row);
    assert.equal(await journal.settle(1000), true);
    clock.advance(n === 2 ? -86_400_000 : -10);
  }
  assert.deepEqual(store.rows.requests, appended, 'rows keep the time that they came with');
  assert.equal(new Set(store.posted).size, 6);
  assert.deepEqual(inOrder(store.posted), store.posted);
  assert.deepEqual(journal.state('requests'), { accepted: 6, stored: 6, pending: 0, shed: 0 });
});

test('a clock that has gone back between two runs: rows are shipped in the order in which they came', async (t) => {
  const { clock, open } = await place(t);
  const store = new DeduplicatingStore();
  store.mood = 'lost-answer';
  for (const n of [1, 2, 3]) {
    const journal = await open(n === 1 ? store.insert : undefined);
    journal.append('requests', line(n));
    await closeOn(clock, journal);
    clock.advance(-3_600_000);
  }
  store.mood = 'up';
  const journal = await open(store.insert);
  assert.equal(await journal.settle(1000), true);
  assert.deepEqual(store.rows.requests, [1, 2, 3].map(line));
  const tokens = [...new Set(store.posted)];
  assert.equal(tokens.length, 3);
  assert.deepEqual(inOrder(tokens), tokens);
});

function inOrder(tokens: readonly string[]): string[] {
  return tokens
    .map((token) => segments.parseName(`${token}.sealed`))
    .filter((name) => name !== undefined)
    .sort(segments.byAge)
    .map(({ base }) => base);
}
