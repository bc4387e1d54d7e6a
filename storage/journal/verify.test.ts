import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { journalFiles, NoJournal } from './inventory.ts';

const base = 'requests-lx2k3j4h-0123456789ab-7';
const row = (n: number): string => `{"id":"${n}","created_at":"2026-11-21 12:00:0${n}.250"}\n`;
const three = row(1) + row(2) + row(3);
const { length } = row(1);

async function place(t: TestContext, files: Readonly<Record<string, string | Buffer>>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'journal-'));
  t.after(() => rm(directory, { recursive: true }));
  await mkdir(join(directory, 'quarantine'));
  for (const [file, content] of Object.entries(files)) await writeFile(join(directory, file), content);
  return directory;
}

async function contents(directory: string): Promise<Record<string, string>> {
  const files = await readdir(directory, { recursive: true, withFileTypes: true });
  const entries = files
    .filter((file) => file.isFile())
    .map(async ({ name, parentPath }) => [name, await readFile(join(parentPath, name), 'hex')] as const);
  return Object.fromEntries(await Promise.all(entries));
}

interface Case {
  readonly what: string;
  readonly files: Readonly<Record<string, string | Buffer>>;
  readonly rows: number;
  readonly faults?: readonly string[];
  readonly unfinished?: readonly string[];
}
const sealed = `${base}.sealed`;
const cases: readonly Case[] = [
  { what: 'whole', files: { [sealed]: three }, rows: 3 },
  { what: 'being written', files: { [`${base}.open`]: three }, rows: 3 },
  {
    what: 'cut off while it was written',
    files: { [`${base}.open`]: `${three}{"id":"4` },
    rows: 3,
    unfinished: [`${base}.open:${3 * length}`],
  },
  {
    what: 'damaged in the middle',
    files: { [sealed]: `${row(1)}garbage\n${row(2)}` },
    rows: 2,
    faults: [`${sealed}:${length}: is no JSON`],
  },
  {
    what: 'torn in the middle although it is being written',
    files: { [`${base}.open`]: `{"id":"0\n${row(1)}` },
    rows: 1,
    faults: [`${base}.open:0: is no JSON`],
  },
  {
    what: 'with two objects in a line',
    files: { [sealed]: `{"id":"1"}{"id":"2"}\n` },
    rows: 0,
    faults: [`${sealed}:0: is no JSON`],
  },
  {
    what: 'with rows that are no objects',
    files: { [sealed]: `[1]\nnull\n"id"\n\n` },
    rows: 0,
    faults: [
      `${sealed}:0: is no JSON object`,
      `${sealed}:4: is no JSON object`,
      `${sealed}:9: is no JSON object`,
      `${sealed}:14: is no JSON`,
    ],
  },
  {
    what: 'with rows without an id',
    files: { [sealed]: `{"n":1}\n{"id":7}\n{"id":""}\n` },
    rows: 0,
    faults: [`${sealed}:0: has no id`, `${sealed}:8: has no id`, `${sealed}:17: has no id`],
  },
  {
    what: 'without a line break at its end',
    files: { [sealed]: three.slice(0, -1) },
    rows: 2,
    faults: [`${sealed}:${2 * length}: has no line break`],
  },
  { what: 'empty', files: { [sealed]: '' }, rows: 0, faults: [`${sealed}:0: is empty`] },
  { what: 'a piece', files: { [`${base}.${length}-${3 * length}.piece`]: three }, rows: 2 },
  {
    what: 'a piece of which bytes are missing',
    files: { [`${base}.0-${4 * length}.piece`]: three },
    rows: 3,
    faults: [`${base}.0-${4 * length}.piece:${3 * length}: ends here, with ${length} of its bytes missing`],
  },
  {
    what: 'a piece that begins inside of a row',
    files: { [`${base}.3-${length}.piece`]: three },
    rows: 0,
    faults: [
      `${base}.3-${length}.piece:3: begins inside of a row`,
      `${base}.3-${length}.piece:3: is no JSON`,
    ],
  },
  {
    what: 'a segment whose split was not finished: its pieces do not count',
    files: { [sealed]: three, [`${base}.0-${length}.piece`]: three },
    rows: 3,
  },
];
for (const { what, files, rows, faults = [], unfinished = [] } of cases) {
  test(`a segment that is ${what}`, async (t) => {
    const directory = await place(t, files);
    const before = await contents(directory);
    const verdict = await journalFiles.verify(directory);
    const place_ = (at: { file: string; offset: number }): string => `${basename(at.file)}:${at.offset}`;
    assert.deepEqual(
      verdict.faults.map((fault) => `${place_(fault)}: ${fault.reason}`),
      faults,
    );
    assert.equal(verdict.faultCount, faults.length);
    assert.deepEqual(verdict.unfinished.map(place_), unfinished);
    assert.deepEqual([verdict.rows, verdict.segments], [rows, 1]);
    assert.deepEqual(await contents(directory), before, 'nothing may change');
  });
}

test('rows are found wherever a read ends, and faults are bounded in number', async (t) => {
  const long = `{"id":"1","text":"${'ä'.repeat(200_000)}"}\n`;
  const directory = await place(t, {
    [sealed]: long.repeat(5),
    'bodies-a-00-0.sealed': 'x\n'.repeat(1500),
  });
  const verdict = await journalFiles.verify(directory);
  assert.deepEqual([verdict.rows, verdict.faultCount, verdict.faults.length], [5, 1500, 1000]);
});

test('the inventory counts rows, bytes and quarantine by table, and knows the oldest row', async (t) => {
  const directory = await place(t, {
    [sealed]: row(3) + row(4),
    'requests-lx2k3j4g-0123456789ab-0.sealed': three,
    [`${base.replace('-7', '-8')}.open`]: `${row(5)}{"id"`,
    'bodies-a-00-0.sealed': '{"id":"1"}\n',
    'quarantine/bodies-a-00-0.0-9.json': 'x'.repeat(10),
    'quarantine/bodies-a-00-0.9-12.torn': 'x'.repeat(5),
    'notes.txt': 'of somebody else',
  });
  const time = new Date('2026-11-20T00:00:00.000Z');
  await utimes(join(directory, 'bodies-a-00-0.sealed'), time, time);
  const { tables } = await journalFiles.readInventory(directory);
  assert.deepEqual(tables, {
    requests: {
      segments: 3,
      rows: 6,
      bytes: 6 * length + 5,
      oldest: '2026-11-21T12:00:01.250Z',
      quarantine: { files: 0, bytes: 0 },
    },
    bodies: {
      segments: 1,
      rows: 1,
      bytes: 11,
      oldest: '2026-11-20T00:00:00.000Z',
      quarantine: { files: 2, bytes: 15 },
    },
    feedback: { segments: 0, rows: 0, bytes: 0, oldest: undefined, quarantine: { files: 0, bytes: 0 } },
  });
});

test('a folder without a journal is named', async () => {
  const directory = join(tmpdir(), 'journal-that-never-was');
  for (const read of [journalFiles.readInventory, journalFiles.verify]) {
    await assert.rejects(read(directory), (error: Error) => {
      assert.ok(error instanceof NoJournal && error.message.includes(directory));
      return true;
    });
  }
});

test('segments that are shipped while somebody looks are left out', async (t) => {
  const directory = await place(t, {});
  let changing = true;
  const gateway = (async () => {
    for (let n = 0; changing; n += 1) {
      const name = join(directory, `requests-lx2k3j4h-0123456789ab-${n}.sealed`);
      await writeFile(name, three);
      await rm(name);
    }
  })();
  for (let i = 0; i < 50; i += 1) {
    assert.ok((await journalFiles.readInventory(directory)).tables.requests.segments <= 1);
    assert.ok((await journalFiles.verify(directory)).segments <= 1);
  }
  changing = false;
  await gateway;
});
