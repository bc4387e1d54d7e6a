import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Fingerprinter } from './watch.ts';

test('content that comes while a file is looked at never goes with the time of the old content', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-fingerprint-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'file');
  const look = async () => (await new Fingerprinter().snapshot([file], false)).get(file);
  let replaced = 0;
  for (let round = 0; round < 48; round++) {
    writeFileSync(file, 'old');
    utimesSync(file, 1, 1);
    const old = await look();
    const before = await stat(file);
    // File systems keep time in steps of some milliseconds.
    await new Promise((resolve) => setTimeout(resolve, 20));
    writeFileSync(`${file}.new`, 'new');
    const looking = look();
    // Another moment in each round: between the question for the status and the reading, sometimes.
    for (let turn = 0; turn < round % 12; turn++) await new Promise((resolve) => setImmediate(resolve));
    renameSync(`${file}.new`, file);
    const seen = await looking;
    if (seen?.content === old?.content) continue;
    replaced += 1;
    assert.ok(seen !== undefined && seen.changedAt > before.ctimeMs, 'new content with the old time');
  }
  assert.ok(replaced > 0, 'no round replaced the file before it was read, which proves nothing');
});
