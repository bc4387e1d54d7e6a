import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { createClient } from '@clickhouse/client';
import { selectOf, type QueryBounds, type Select } from './select.ts';

/** The settings of one query, as they come to a server. */
async function settingsOf(
  bounds?: QueryBounds,
  options?: Parameters<Select>[2],
): Promise<Record<string, string>> {
  let settings = {};
  const server = createServer((request, response) => {
    settings = Object.fromEntries(new URL(request.url ?? '/', 'http://x').searchParams);
    response.end('');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = createClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  try {
    await selectOf(client, bounds)('SELECT 1', {}, options);
  } finally {
    await client.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  return settings;
}

test('every query is bounded in time, memory and the length of its answer', async () => {
  const settings = await settingsOf();
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
  const settings = await settingsOf(bounds, { seconds: 60 });
  assert.equal(settings['max_execution_time'], '8');
  assert.equal(settings['max_memory_usage'], '100000001');
  assert.equal(settings['max_bytes_before_external_sort'], '50000000');
  assert.equal(settings['max_threads'], '2');
  assert.equal((await settingsOf(bounds, { seconds: 5 }))['max_execution_time'], '5');
});

test('what a query sets itself comes on top, but for its time', async () => {
  const own = { max_threads: 1, max_execution_time: 999 };
  const settings = await settingsOf({}, { settings: own });
  assert.deepEqual([settings['max_threads'], settings['max_execution_time']], ['1', '20']);
});
