import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { FindStored, JournalTable } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { DeduplicatingStore } from '../../tests/conformance/deduplicating-store.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { journalFiles } from './inventory.ts';
import { openJournal } from './journal.ts';
import { quarantineSources, type ReplayOptions, replayRows } from './replay.ts';

const log: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
const clock = new ManualClock();
const id = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const row = (n: number, more = ''): string =>
  `{"id":"${id(n)}","created_at":"2026-11-21 12:00:00.${String(n % 1000).padStart(3, '0')}"${more}}`;
const kept = (table: JournalTable, text: string): string =>
  `${JSON.stringify({ name: `${table}-a-00-0.0-9`, at: 'then', reason: 'because', row: text })}\n`;

async function place(t: TestContext, files: Readonly<Record<string, string>> = {}) {
  const root = await mkdtemp(join(tmpdir(), 'journal-'));
  t.after(() => rm(root, { recursive: true }));
  const directory = join(root, 'journal');
  await mkdir(join(directory, 'quarantine'), { recursive: true });
  for (const [file, content] of Object.entries(files)) await writeFile(join(root, file), content);
  const asked: { table: JournalTable; ids: readonly string[]; from: number; to: number }[] = [];
  const inStore = new Set<string>();
  const stored: FindStored = (table, ids, window) => {
    asked.push({ table, ids, ...window });
    return Promise.resolve(new Set(ids.filter((one) => inStore.has(one))));
  };
  const replay = async (options: Partial<ReplayOptions> = {}) =>
    replayRows({
      directory,
      stored,
      clock,
      maxBytes: 100_000_000,
      sources: await quarantineSources(directory),
      ...options,
    });
  const own = (file: string, table?: JournalTable) => [{ path: join(root, file), table, remove: false }];
  const quarantine = () => readdir(join(directory, 'quarantine'));
  /** What a gateway ships after the replay. */
  const ship = async () => {
    const store = new DeduplicatingStore();
    const bounds = { flushMs: 1000, shipMs: 1000, maxBytes: 100_000_000 };
    const journal = await openJournal({ directory, insert: store.insert, clock, log, ...bounds });
    await journal.settle(5000);
    await journal.close(1000);
    for (const one of [...store.rows.requests, ...store.rows.bodies]) inStore.add(JSON.parse(one).id);
    return store.rows;
  };
  return { root, directory, asked, inStore, replay, own, quarantine, ship };
}

test('rows of the quarantine go back to their tables, and their files go away', async (t) => {
  const { replay, quarantine, ship } = await place(t, {
    'journal/quarantine/requests-a-00-0.0-9.json': kept('requests', row(1)),
    'journal/quarantine/bodies-a-00-0.0-9.json': kept('bodies', row(1, ',"request":"ä\\n"')),
    'journal/quarantine/requests-a-00-1.sealed.damaged': `${row(2)}\n${row(3)}\n`,
    'journal/quarantine/requests-a-00-2.9-20.torn': row(4),
    'journal/quarantine/feedback-a-00-0.0-9.torn': row(5),
  });
  const report = await replay();
  assert.deepEqual(report, {
    added: { requests: 4, bodies: 1, feedback: 1 },
    known: 0,
    removedFiles: 5,
    faults: [],
    faultCount: 0,
  });
  assert.deepEqual(await quarantine(), []);
  assert.deepEqual(await ship(), {
    requests: [row(1), row(2), row(3), row(4)],
    bodies: [row(1, ',"request":"ä\\n"')],
    feedback: [row(5)],
  });
});

test('a row that somebody repaired over several lines of text is one line again', async (t) => {
  const spread = row(1).replace(',', ',\n ');
  const { replay, ship } = await place(t, {
    'journal/quarantine/requests-a-00-0.0-9.json': kept('requests', spread),
  });
  await replay();
  assert.deepEqual((await ship()).requests, [JSON.stringify(JSON.parse(row(1)))]);
});

test('what the store has is left out, whoever asks, and in the window of the rows', async (t) => {
  const { replay, inStore, asked, ship, own } = await place(t, {
    'mine.ndjson': `${row(1)}\n\n${row(2)}\n${row(5)}\n${row(1)}\n`,
  });
  inStore.add(id(2));
  const report = await replay({ sources: own('mine.ndjson', 'requests') });
  assert.deepEqual([report.added.requests, report.known, report.removedFiles], [2, 2, 0]);
  const noon = Date.parse('2026-11-21T12:00:00Z');
  assert.deepEqual(asked, [{ table: 'requests', ids: [id(1), id(2), id(5)], from: noon + 1, to: noon + 6 }]);
  assert.deepEqual((await ship()).requests, [row(1), row(5)]);
});

test('a replay that is done again adds nothing, before its rows are shipped and after', async (t) => {
  const { replay, own, ship } = await place(t, { 'bodies-mine.ndjson': `${row(1)}\n${row(2)}\n` });
  const sources = own('bodies-mine.ndjson');
  assert.equal((await replay({ sources })).added.bodies, 2);
  assert.deepEqual((await replay({ sources })).added, { requests: 0, bodies: 0, feedback: 0 });
  assert.equal((await ship()).bodies.length, 2);
  assert.deepEqual((await replay({ sources })).added, { requests: 0, bodies: 0, feedback: 0 });
  assert.equal((await ship()).bodies.length, 0);
});

test('the same id in the other table is another row', async (t) => {
  const { replay, own } = await place(t, {
    'requests-1': row(1),
    'bodies-1': row(1),
    'journal/bodies-a-00-0.sealed': `${row(2)}\n`,
    'requests-2': row(2),
  });
  const sources = ['requests-1', 'bodies-1', 'requests-2'].flatMap((file) => own(file));
  assert.deepEqual((await replay({ sources })).added, { requests: 2, bodies: 1, feedback: 0 });
});

const bad: readonly [text: string, reason: string][] = [
  ['{"id":', 'is no JSON'],
  ['[]', 'is no JSON object'],
  ['{"created_at":"2026-11-21 12:00:00.000"}', 'has no id'],
  ['{"id":"7","created_at":"2026-11-21 12:00:00.000"}', 'has an id that is no UUID'],
  [`{"id":"${id(1)}"}`, 'has no created_at of the form 2026-01-31 12:34:56.789'],
  [`{"id":"${id(1)}","created_at":"yesterday"}`, 'has no created_at of the form 2026-01-31 12:34:56.789'],
  [row(1, `,"text":"${'x'.repeat(8 * 1024 * 1024)}"`), 'is longer than 8388608 bytes'],
];
for (const [text, reason] of bad) {
  test(`a row that ${reason} is named with its place, and the others go back`, async (t) => {
    const { replay, quarantine, ship } = await place(t, {
      'journal/quarantine/requests-a-00-1.sealed.damaged': `${row(2)}\n${text}\n${row(3)}\n`,
    });
    const report = await replay();
    assert.deepEqual(
      report.faults.map((fault) => [basename(fault.file), fault.offset, fault.reason]),
      [['requests-a-00-1.sealed.damaged', row(2).length + 1, reason]],
    );
    assert.deepEqual([report.faultCount, report.removedFiles], [1, 0]);
    assert.equal((await quarantine()).length, 1, 'what could not go back stays');
    assert.deepEqual((await ship()).requests, [row(2), row(3)]);
  });
}

test('a row whose table nobody names', async (t) => {
  const { replay, own } = await place(t, { 'mine.ndjson': row(1) });
  const report = await replay({ sources: own('mine.ndjson') });
  assert.match(report.faults[0]?.reason ?? '', /--table/);
});

test('a store that goes away in the middle leaves everything to be repeated', async (t) => {
  const rows = Array.from({ length: 2500 }, (_, n) => row(n)).join('\n');
  const { directory, replay, quarantine, ship } = await place(t, {
    'journal/quarantine/requests-a-00-1.sealed.damaged': rows,
  });
  let calls = 0;
  const away: FindStored = () =>
    (calls += 1) > 1 ? Promise.reject(new Error('away')) : Promise.resolve(new Set());
  await assert.rejects(replay({ stored: away }), /away/);
  assert.deepEqual(await readdir(directory), ['quarantine']);
  assert.equal((await quarantine()).length, 1);
  assert.equal((await replay()).added.requests, 2500);
  assert.equal((await ship()).requests.length, 2500);
});

test('many rows become several segments', async (t) => {
  const text = `,"text":"${'x'.repeat(1_000_000)}"`;
  const rows = Array.from({ length: 20 }, (_, n) => row(n, text)).join('\n');
  const { directory, replay, own, ship } = await place(t, { 'requests-mine': rows });
  await replay({ sources: own('requests-mine') });
  const { segments, rows: counted } = (await journalFiles.readInventory(directory)).tables.requests;
  assert.deepEqual([segments > 1, counted], [true, 20]);
  for (const file of await readdir(directory)) {
    if (file !== 'quarantine') assert.ok((await readFile(join(directory, file))).length <= 8 * 1024 * 1024);
  }
  assert.equal((await ship()).requests.length, 20);
});

test('a journal without room refuses as a whole, and says what to do', async (t) => {
  const { directory, replay, own } = await place(t, {
    'requests-mine': row(1),
    'journal/bodies-a-00-0.sealed': `${row(2)}\n`,
  });
  await assert.rejects(
    replay({ sources: own('requests-mine'), maxBytes: 120 }),
    /storage\.journal\.max_bytes/,
  );
  assert.equal((await readdir(directory)).length, 2);
});

test('a file that is not there, or is none, is named', async (t) => {
  const { root, replay, own } = await place(t);
  const missing = join(root, 'none');
  await assert.rejects(replay({ sources: own('none') }), { message: `There is no file ${missing}.` });
  await assert.rejects(replay({ sources: own('journal') }), /journal is no file/);
});
