import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { temporaryFolder } from '../chdb-fixture.ts';
import { forgetLostInserts } from './lost-inserts.ts';

const line = (part: string, operation = 1): string => `${operation}\t${part}\t20261129_${part}_token\n`;
const before = line('20261129_1_1_0') + line('20261129_2_2_0');

/** A folder of the engine with one table; returns its deduplication logs after the call, the oldest first. */
async function after(
  t: { after(close: () => Promise<void>): void },
  parts: readonly string[],
  logs: readonly string[],
  status?: string,
): Promise<readonly string[]> {
  const { path: directory, remove } = await temporaryFolder();
  t.after(remove);
  const table = path.join(directory, 'store/1ac/1ac5e9bc');
  const file = (index: number): string =>
    path.join(table, 'deduplication_logs', `deduplication_log_${index + 9}.txt`);
  for (const name of ['deduplication_logs', 'detached', ...parts])
    await mkdir(path.join(table, name), { recursive: true });
  for (const [index, text] of logs.entries()) await writeFile(file(index), text);
  if (status !== undefined) await writeFile(path.join(directory, 'status'), status);
  await forgetLostInserts(directory);
  return Promise.all(logs.map((_, index) => readFile(file(index), 'utf8')));
}

describe('the last token of a table', () => {
  for (const [name, parts] of [
    ['its part is there', ['20261129_1_1_0', '20261129_2_2_0']],
    ['its part was changed', ['20261129_1_1_0_7', '20261129_2_2_0_7']],
    ['its part was merged into another', ['20261129_1_4_1']],
  ] as const)
    test(`stays when ${name}`, async (t) => {
      assert.deepEqual(await after(t, parts, [before]), [before]);
    });

  for (const [name, parts] of [
    ['its part was being written', ['20261129_1_1_0', 'tmp_insert_20261129_2_2_0']],
    ['its part is of another day', ['20261129_1_1_0', '20261128_2_2_0']],
  ] as const)
    test(`is removed when ${name}`, async (t) => {
      assert.deepEqual(await after(t, parts, [before]), [line('20261129_1_1_0')]);
    });

  test('is found in the log before, when that was full', async (t) => {
    assert.deepEqual(await after(t, ['20261129_1_1_0'], [before, '']), [line('20261129_1_1_0'), '']);
  });

  test('goes with the others of its part, and earlier parts that are gone keep theirs', async (t) => {
    const log = before + line('20261129_3_3_0').repeat(2);
    assert.deepEqual(await after(t, [], [log]), [before]);
  });

  test('stays when it was dropped with its part', async (t) => {
    const log = before + line('20261129_2_2_0', 2);
    assert.deepEqual(await after(t, [], [log]), [log]);
  });

  test('stays while another process has the folder open', async (t) => {
    assert.deepEqual(await after(t, [], [before], `PID: ${process.ppid}\nStarted at: 2026-11-29\n`), [
      before,
    ]);
    assert.deepEqual(await after(t, [], [before], `PID: 4194305\n`), [line('20261129_1_1_0')]);
  });
});
