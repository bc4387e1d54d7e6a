import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import { createSecretBox, sealingKey } from '../secrets/key-file.ts';
import { keepSnapshots } from './directory-snapshot.ts';

const box = (key: string, previous: readonly string[] = []) =>
  createSecretBox({
    current: sealingKey(Buffer.alloc(32, key)),
    previous: previous.map((one) => sealingKey(Buffer.alloc(32, one))),
  });
const manyRows = Array.from({ length: 4000 }, (_, number) => ({ number, text: 'a text '.repeat(30) }));

describe('snapshots of the directory', () => {
  const folders: string[] = [];
  after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

  async function setUp() {
    const data = await mkdtemp(path.join(tmpdir(), 'weir-snapshot-'));
    folders.push(data);
    const log = recordingLog();
    const keep = (own: Partial<Parameters<typeof keepSnapshots>[0]> = {}) =>
      keepSnapshots({ data, organisationId: 'org-1', secrets: box('one'), log, ...own });
    return { data, log, keep, file: path.join(data, 'directory.snapshot') };
  }

  test('what was written last is read, however large it is', async () => {
    const { data, keep, log, file } = await setUp();
    assert.equal(await keep().read(), undefined);
    assert.deepEqual(log.lines, [], 'a new folder has none, and that is no fault');
    await keep().write({ at: 5, rows: [] });
    assert.deepEqual(await keep().read(), { at: 5, rows: [] });
    const writer = keep();
    await writer.write({ at: 10, rows: manyRows });
    assert.deepEqual(await keep().read(), { at: 10, rows: manyRows });
    assert.deepEqual(await readdir(data), ['directory.snapshot']);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.doesNotMatch(await readFile(file, 'utf8'), /a text|org-1/);
  });

  test('a confirmation counts for the snapshot that it was given to', async () => {
    const { keep } = await setUp();
    const writer = keep();
    await writer.write({ at: 10, rows: ['first'] });
    await writer.confirm(70);
    assert.equal((await keep().read())?.at, 70);
    await writer.write({ at: 20, rows: ['second'] });
    assert.deepEqual(await keep().read(), { at: 20, rows: ['second'] });
  });

  test('another organisation, another key, a newer format and a file beyond the bound are not used', async () => {
    const { keep, log } = await setUp();
    await keep().write({ at: 10, rows: ['a row'] });
    assert.equal(await keep({ organisationId: 'org-2' }).read(), undefined);
    assert.equal(await keep({ secrets: box('two') }).read(), undefined);
    assert.equal(await keep({ maxBytes: 10 }).read(), undefined);
    assert.equal(log.lines.length, 3);
    assert.ok(await keep({ secrets: box('two', ['one']) }).read(), 'a rotated key opens it');
    await assert.rejects(keep({ maxBytes: 1000 }).write({ at: 20, rows: manyRows }), /more than 1000 bytes/);
    assert.equal((await keep().read())?.at, 10, 'what could not be written leaves the one before');
  });

  test('a file that was changed, cut, mixed or shuffled anywhere is not used', async () => {
    const { keep, file } = await setUp();
    const rows = manyRows.slice(0, 3000);
    await keep().write({ at: 1, rows });
    const other = (await readFile(file, 'utf8')).trimEnd().split('\n');
    await keep().write({ at: 2, rows });
    const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
    assert.ok(lines.length >= 4, 'several lines are sealed one by one');
    const at = fc.nat({ max: lines.length - 1 });
    const damage = fc.oneof(
      at.map((index) => lines.slice(0, index)),
      at.map((index) => lines.toSpliced(index, 1)),
      at.map((index) => lines.with(index, other[index] ?? '')),
      fc
        .tuple(at, at)
        .filter(([one, two]) => one !== two)
        .map(([one, two]) => lines.with(one, lines[two] ?? '').with(two, lines[one] ?? '')),
      fc.tuple(at, fc.nat()).map(([index, place]) => {
        const line = lines[index] ?? '';
        // Behind the key's id; the last character may hold bits that mean nothing.
        const start = line.indexOf('.', 4) + 1;
        const position = start + (place % (line.length - start - 1));
        const changed = line[position] === 'A' ? 'B' : 'A';
        return lines.with(index, line.slice(0, position) + changed + line.slice(position + 1));
      }),
    );
    await fc.assert(
      fc.asyncProperty(damage, async (damaged) => {
        await writeFile(file, `${damaged.join('\n')}\n`);
        assert.equal(await keep().read(), undefined);
      }),
      { numRuns: 60 },
    );
  });
});
