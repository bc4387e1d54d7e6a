import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { backupLines, BackupWriter, verifyBackup } from './backup-file.ts';

const passphrase = 'correct horse battery staple';
const files = { 'identity.json': '{"organisation_id":"1"}\n', 'secret.key': 'c2VjcmV0\n' };
const about = {
  weir: '0.1.0',
  created_at: '2026-01-01T00:00:00.000Z',
  migrations: [{ name: '0001-a.sql', sha256: 'aa' }],
};
const rows = [
  `{"id":1,"text":"ä 🌊 \\n"}`,
  '{"id":2,"data":{"end":true,"rows":0}}',
  '{"id":9007199254740993}',
];

let folder: string;
let whole: Buffer;
let file: string;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'weir-backup-'));
  let text = '';
  const writer = await BackupWriter.begin(
    about,
    { files, passphrase, cost: { N: 16_384, r: 1, p: 1 } },
    (line) => {
      text += line;
      return Promise.resolve();
    },
  );
  await writer.table('things');
  await writer.addRows(rows);
  await writer.addRows([]);
  await writer.table('others');
  await writer.end();
  whole = Buffer.from(text);
  file = path.join(folder, 'a.weir');
  await writeFile(file, whole);
});
after(() => rm(folder, { recursive: true }));

/** Why a file with these bytes is refused. */
async function refusal(bytes: Uint8Array | string, given = passphrase): Promise<string> {
  const changed = path.join(folder, 'changed.weir');
  await writeFile(changed, bytes);
  try {
    await verifyBackup(changed, given);
  } catch (error) {
    assert.ok(error instanceof Error);
    assert.doesNotMatch(error.message, /\n/);
    return error.message;
  }
  return 'taken';
}

describe('the file of a backup', () => {
  test('gives back what was put into it', async () => {
    const { head, files: opened, rows: count } = await verifyBackup(file, passphrase);
    assert.deepEqual([opened, count, head.migrations, head.version], [files, 3, about.migrations, 1]);
    const lines: unknown[] = [];
    for await (const line of backupLines(file)) lines.push(line);
    assert.deepEqual(lines, [{ table: 'things' }, ...rows.map((row) => ({ row })), { table: 'others' }]);
  });

  test('shows nothing of the sealed files', () => {
    for (const text of ['organisation_id', 'c2VjcmV0', passphrase]) assert.ok(!whole.includes(text));
    assert.ok(!whole.includes(Buffer.from('c2VjcmV0\n').toString('base64')));
  });

  test('is opened by its passphrase alone', async () => {
    assert.match(
      await refusal(whole, 'correct horse battery stable'),
      /cannot be opened: the passphrase is another one/,
    );
  });

  test('of the future is refused with the version that reads it', async () => {
    const future = whole.toString('utf8').replace('"version":1,"weir":"0.1.0"', '"version":2,"weir":"3.0.0"');
    assert.match(
      await refusal(future),
      /made by a newer version \(weir 3\.0\.0, format 2; this one reads 1\)/,
    );
  });

  test('that is none is called so', async () => {
    for (const text of ['', '{}\n', 'a: 1\n', '\u0000\n', '{"format":"weir-backup"}\n'])
      assert.match(await refusal(text), /is no backup of Weir/);
  });

  test('is refused when it was cut anywhere', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.length - 1 }), async (length) => {
        assert.match(await refusal(whole.subarray(0, length)), /cut short|no backup of Weir/);
      }),
      { numRuns: 12 },
    );
    assert.match(await refusal(whole.subarray(0, whole.length - 1)), /is cut short: it has no end \(3 rows/);
  });

  test('is refused when one byte of it was changed anywhere', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 2), fc.integer({ min: 1, max: 255 }), async (at, mask) => {
        const changed = Buffer.from(whole);
        changed[at] = (changed[at] ?? 0) ^ mask;
        assert.notEqual(await refusal(changed), 'taken');
      }),
      { numRuns: 20 },
    );
    // Bits that base64 does not use: the last letter before the padding may be another one.
    const spare = Buffer.from(whole);
    const last = whole.lastIndexOf('=') - 1;
    // Such a last letter is at an even place of the alphabet, and the next character is the next letter.
    spare[last] = (spare[last] ?? 0) + 1;
    assert.match(await refusal(spare), /is damaged: its checksum is not/);
    const text = whole.toString('utf8');
    assert.match(await refusal(text.replace('"id":1', '"id":7')), /is damaged: its checksum is not/);
    assert.match(await refusal(`${text}{"id":3}\n`), /is damaged: something follows its end/);
  });
});
