import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { createClient } from '@clickhouse/client';
import { selectOf, type QueryBounds, type Select } from './select.ts';

/** Asks a server that answers every query with `lines`: the settings that came to it, and the rows. */
async function asked({
  bounds,
  options,
  lines = '',
}: { bounds?: QueryBounds; options?: Parameters<Select>[2]; lines?: string } = {}): Promise<{
  settings: Record<string, string>;
  rows: unknown[];
}> {
  let settings = {};
  const server = createServer((request, response) => {
    settings = Object.fromEntries(new URL(request.url ?? '/', 'http://x').searchParams);
    response.end(lines);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = createClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  try {
    const rows = await selectOf(client, bounds)('SELECT 1', {}, options);
    return { settings, rows };
  } finally {
    await client.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

test('every query is bounded in time, memory and the length of its answer', async () => {
  const { settings } = await asked();
  assert.equal(settings['max_execution_time'], '20');
  assert.equal(settings['max_memory_usage'], '400000000');
  assert.equal(settings['max_bytes_before_external_group_by'], '200000000');
  assert.equal(settings['max_bytes_before_external_sort'], '200000000');
  assert.equal(settings['max_result_rows'], '1000000');
  assert.equal(settings['result_overflow_mode'], 'throw');
  assert.equal(settings['wait_end_of_query'], '1');
  assert.ok(!('max_threads' in settings));
});

test('the bounds of a store hold for all of its queries; one may take less time, and not more', async () => {
  const bounds = { seconds: 8, memoryBytes: 100_000_001, threads: 2 };
  const { settings } = await asked({ bounds, options: { seconds: 60 } });
  assert.equal(settings['max_execution_time'], '8');
  assert.equal(settings['max_memory_usage'], '100000001');
  assert.equal(settings['max_bytes_before_external_sort'], '50000000');
  assert.equal(settings['max_threads'], '2');
  const shorter = await asked({ bounds, options: { seconds: 5 } });
  assert.equal(shorter.settings['max_execution_time'], '5');
});

test('what a query sets itself comes on top, but for its time', async () => {
  const own = { max_threads: 1, max_execution_time: 999 };
  const { settings } = await asked({ options: { settings: own } });
  assert.deepEqual([settings['max_threads'], settings['max_execution_time']], ['1', '20']);
});

for (const [what, rows] of [
  ['none', []],
  ['one', [{ n: 1 }]],
  [
    'so many that they are read in several turns',
    Array.from({ length: 5000 }, (_, n) => ({ n, text: `\n"${n}" é` })),
  ],
  ['one that is longer than a turn', [{ text: 'x'.repeat(100_000) }, { n: 2 }]],
] satisfies [string, object[]][]) {
  for (const end of ['', '\n', '\n\n']) {
    test(`a line is a row: ${what}, then ${JSON.stringify(end)}`, async () => {
      const lines = rows.map((row) => JSON.stringify(row)).join('\n') + end;
      assert.deepEqual((await asked({ lines })).rows, rows);
    });
  }
}
