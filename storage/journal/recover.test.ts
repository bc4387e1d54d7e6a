import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Log } from '../../core/ports/log.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { Quarantine, SegmentFolder } from './segment-folder.ts';
import { recoverSegments } from './recover.ts';

const base = 'requests-lx2k3j4h-0123456789ab-7';

async function place(t: TestContext, files: Readonly<Record<string, string | Buffer>>) {
  const directory = await mkdtemp(join(tmpdir(), 'journal-'));
  t.after(() => rm(directory, { recursive: true }));
  for (const [file, content] of Object.entries(files)) await writeFile(join(directory, file), content);
  const logged: string[] = [];
  const record = (message: string): void => void logged.push(message);
  const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log };
  const folder = new SegmentFolder(directory);
  const quarantine = new Quarantine({ journal: directory, maxBytes: 10_000, clock: new ManualClock(), log });
  await quarantine.prepare();
  const recover = async () => {
    const found = await recoverSegments(folder, quarantine, log);
    for (const { writtenAt } of found) assert.ok(Math.abs(Date.now() - writtenAt) < 60_000);
    return found.map(({ table, segment }) => ({ table, segment }));
  };
  const content = (file: string) => readFile(join(directory, file), 'utf8');
  return { directory, folder, logged, recover, content };
}

const torn: readonly { what: string; bytes: string | Buffer; keeps: string; rows: number }[] = [
  { what: 'whole', bytes: '{"n":1}\n{"n":2}\n', keeps: '{"n":1}\n{"n":2}\n', rows: 2 },
  { what: 'a last line without its end', bytes: '{"n":1}\n{"n":2', keeps: '{"n":1}\n', rows: 1 },
  { what: 'whole JSON without its line break', bytes: '{"n":1}\n{"n":2}', keeps: '{"n":1}\n', rows: 1 },
  { what: 'nothing but a torn line', bytes: '{"n":', keeps: '', rows: 0 },
  { what: 'nothing', bytes: '', keeps: '', rows: 0 },
  {
    what: 'half a character',
    bytes: Buffer.from('{"n":1}\n{"n":"ä').subarray(0, -1),
    keeps: '{"n":1}\n',
    rows: 1,
  },
  { what: 'zeros', bytes: `{"n":1}\n${'\0'.repeat(64)}`, keeps: '{"n":1}\n', rows: 1 },
  { what: 'zeros and line breaks', bytes: `{"n":1}\n\0\0\n\0\n\0`, keeps: '{"n":1}\n', rows: 1 },
];

for (const { what, bytes, keeps, rows } of torn) {
  test(`an open segment that holds ${what}`, async (t) => {
    const { directory, recover, content, logged } = await place(t, { [`${base}.open`]: bytes });
    const found = await recover();
    const files = await readdir(directory);
    const end = Buffer.byteLength(keeps);
    if (keeps === '') {
      assert.deepEqual([found, files], [[], ['quarantine']]);
    } else {
      const segment = { file: `${base}.sealed`, base, token: base, from: 0, end, rows };
      assert.deepEqual(found, [{ table: 'requests', segment }]);
      assert.equal(await content(`${base}.sealed`), keeps);
    }
    const total = Buffer.from(bytes).length;
    const kept = await readdir(join(directory, 'quarantine'));
    if (end === total) {
      assert.deepEqual([kept, logged], [[], []]);
    } else {
      assert.deepEqual(kept, [`${base}.${end}-${total}.torn`]);
      assert.match(logged.join(), /was torn/);
      const cut = await readFile(join(directory, 'quarantine', kept[0] as string));
      assert.deepEqual(cut, Buffer.from(bytes).subarray(end));
    }
    assert.deepEqual(await recover(), found, 'a second recovery finds the same');
  });
}

const eight = '{"n":1}\n';
const whole = eight.repeat(4);

const splits: readonly { what: string; files: readonly string[]; finds: readonly string[] }[] = [
  { what: 'whose first piece had been made', files: [`${base}.sealed`, `${base}.0-16.piece`], finds: [base] },
  {
    what: 'whose pieces had been made',
    files: [`${base}.sealed`, `${base}.0-16.piece`, `${base}.16-32.piece`],
    finds: [base],
  },
  {
    what: 'that was done',
    files: [`${base}.0-16.piece`, `${base}.16-32.piece`],
    finds: [`${base}:0-16`, `${base}:16-32`],
  },
  { what: 'whose first piece had been stored', files: [`${base}.16-32.piece`], finds: [`${base}:16-32`] },
  {
    what: 'whose second piece was being split again',
    files: [`${base}.0-16.piece`, `${base}.16-32.piece`, `${base}.16-24.piece`, `${base}.24-32.piece`],
    finds: [`${base}:0-16`, `${base}:16-32`],
  },
  {
    what: 'whose second piece had been split again',
    files: [`${base}.16-24.piece`, `${base}.24-32.piece`],
    finds: [`${base}:16-24`, `${base}:24-32`],
  },
];

for (const { what, files, finds } of splits) {
  test(`a split ${what}`, async (t) => {
    const { directory, folder, recover } = await place(
      t,
      Object.fromEntries([...files, `${base}.0-16.piece.tmp`].map((file) => [file, whole])),
    );
    const found = await recover();
    assert.deepEqual(
      found.map(({ segment }) => segment.token),
      finds,
    );
    assert.deepEqual(
      (await readdir(directory)).sort(),
      [...found.map(({ segment }) => segment.file), 'quarantine'].sort(),
    );
    for (const { segment } of found) {
      const bytes = await folder.read(segment);
      assert.equal(bytes.toString(), eight.repeat((segment.end - segment.from) / 8));
      assert.equal(segment.rows, bytes.length / 8);
    }
  });
}

test('segments come back oldest first, whatever their names sort like', async (t) => {
  const order = [
    'bodies-z-00-0', // 35 ms
    'requests-10-00-2', // 36 ms
    'requests-10-00-10',
    'bodies-lx2k3j4h-00-0',
  ];
  const { recover } = await place(t, Object.fromEntries(order.map((name) => [`${name}.sealed`, eight])));
  const found = await recover();
  assert.deepEqual(
    found.map(({ segment, table }) => [segment.base, table]),
    order.map((name) => [name, name.split('-')[0]]),
  );
});

test('files of others are left alone', async (t) => {
  const files = ['lock', 'requests.sealed', 'audit-z-00-0.sealed', `${base}.sealed.bak`, 'README.md'];
  const { directory, recover } = await place(t, Object.fromEntries(files.map((file) => [file, eight])));
  assert.deepEqual(await recover(), []);
  assert.deepEqual((await readdir(directory)).sort(), [...files, 'quarantine'].sort());
});

test('a piece whose file is too short is put into quarantine', async (t) => {
  const { directory, recover, logged } = await place(t, { [`${base}.16-40.piece`]: whole });
  assert.deepEqual(await recover(), []);
  assert.deepEqual(await readdir(join(directory, 'quarantine')), [`${base}.16-40.piece.damaged`]);
  assert.match(logged.join(), /is damaged/);
});
