import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileSchema } from '../../../core/config/ajv.ts';
import type { LogQuery, LogRecord } from '../../../core/ports/analytics.ts';
import { bodyRow, requestRow, storedTime } from '../../../tests/conformance/analytics-rows.ts';
import {
  testAnalytics,
  testKey,
  testRouteInput,
  testScope,
  testStart,
} from '../../../tests/kit/plugin-kit.ts';
import { listLogsRoute, logCursor } from './routes.ts';

interface Reply {
  readonly object: string;
  readonly data: {
    readonly id: string;
    readonly metrics: Record<string, unknown>;
    readonly request: object;
  }[];
  readonly next_cursor: string | null;
  readonly has_more: boolean;
  readonly total?: number;
}

/** The route over a store with this many entries, one each millisecond before now. */
function setting(count: number) {
  const records: LogRecord[] = Array.from({ length: count }, (_, index) => {
    const request = requestRow({ created_at: storedTime(testStart - index - 1), cost: '0.125000000000' });
    return { request, body: bodyRow(request, { request: '{"a":1}' }) };
  });
  const asked: LogQuery[] = [];
  const counted: unknown[] = [];
  const analytics = testAnalytics({
    logs(query) {
      asked.push(query);
      const start = query.after === undefined ? 0 : testStart - query.after.createdAt;
      const found = records.slice(start, start + query.limit);
      return Promise.resolve(
        query.bodies === true
          ? found
          : found.map(({ request }, index) => ({
              ...{ request, body: undefined },
              ...(query.preview !== undefined && { preview: index === 0 ? 'Hello' : '' }),
            })),
      );
    },
    countLogs(query) {
      counted.push(query);
      return Promise.resolve(count);
    },
  });
  const route = listLogsRoute(testScope({ analytics }).scope);
  return {
    records,
    asked,
    counted,
    route,
    async list(query: Record<string, unknown> = {}, key = testKey()): Promise<Reply> {
      assert.ok(route.query);
      assert.deepEqual(compileSchema(route.query)(query), []);
      const reply = (await route.handle(testRouteInput({ query, key }))) as Reply;
      assert.deepEqual(compileSchema(route.reply)(reply), []);
      return reply;
    },
  };
}

test('the first fifty entries of the last day, of what the key may see', async () => {
  const { list, asked, counted, records } = setting(120);
  const reply = await list();
  assert.deepEqual(
    reply.data.map(({ id }) => id),
    records.slice(0, 50).map(({ request }) => request.id),
  );
  assert.deepEqual(
    [reply.object, reply.has_more, 'total' in reply, counted.length],
    ['list', true, false, 0],
  );
  assert.deepEqual(asked, [
    {
      window: { from: testStart - 86_400_000, to: testStart },
      filter: {},
      order: 'newest',
      limit: 51,
      bodies: false,
      visibility: { organisationId: 'org-1', workspaceId: 'ws-1', asker: 'key-1' },
    },
  ]);
});

test('an entry in a list', async () => {
  const [entry] = (await setting(1).list()).data;
  assert.ok(entry);
  const { metrics, ...rest } = entry;
  assert.deepEqual(rest, {
    id: entry.id,
    object: 'log',
    created_at: '2026-11-21T08:59:59.999Z',
    organisation_id: 'organisation',
    workspace_id: 'workspace',
    request: { method: 'POST', url: '/v1/chat/completions' },
    response: { status: 200, response_time: 123.456789 },
  });
  assert.deepEqual(
    [metrics['cost'], metrics['ai_org'], metrics['total_units'], metrics['trace_id'], 'tries' in metrics],
    [0.125, 'openai', 30, '0af7651916cd43dd8448eb211c80319c', false],
  );
});

test('pages by cursor hold everything once, within the window of the first', async () => {
  const { list, asked, records } = setting(25);
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const page: Reply = await list({ page_size: 10, ...(cursor !== null && { cursor }) });
    ids.push(...page.data.map(({ id }) => id));
    cursor = page.next_cursor;
    assert.equal(page.has_more, cursor !== null);
  } while (cursor !== null);
  assert.deepEqual(
    ids,
    records.map(({ request }) => request.id),
  );
  assert.equal(new Set(asked.map(({ window }) => `${window.from} ${window.to}`)).size, 1);
});

test('numbered pages, for clients that count them, among the first 10,000 entries', async () => {
  const { list, asked, records } = setting(25);
  const page = await list({ page_size: 10, current_page: 2 });
  assert.deepEqual(
    page.data.map(({ id }) => id),
    records.slice(20).map(({ request }) => request.id),
  );
  assert.deepEqual([page.has_more, page.next_cursor], [false, null]);
  assert.equal(asked[0]?.limit, 31);
  assert.deepEqual((await list({ page_size: 10, current_page: 9 })).data, []);
  await list({ page_size: 200, current_page: 49 });
  assert.equal(asked.at(-1)?.limit, 10_000);
  await assert.rejects(list({ page_size: 200, current_page: 50 }), { param: 'current_page' });
});

test('the last numbered page leads on', async () => {
  const { list, records } = setting(10_050);
  const page = await list({ page_size: 200, current_page: 49 });
  assert.deepEqual([page.data.length, page.has_more], [200, true]);
  assert.equal(logCursor.read(page.next_cursor ?? '').after.id, records[9999]?.request.id);
});

test('the number of entries and the bodies only when they are asked for', async () => {
  const { list, asked, counted } = setting(60);
  const reply = await list({ include_total: true, include: 'bodies', status_code: '200' });
  assert.equal(reply.total, 60);
  assert.deepEqual(counted, [
    { window: asked[0]?.window, visibility: asked[0]?.visibility, filter: { statusCodes: [200] } },
  ]);
  assert.deepEqual(reply.data[0]?.request, {
    method: 'POST',
    url: '/v1/chat/completions',
    headers: { host: 'h' },
    body: { a: 1 },
    truncated: false,
  });
  await assert.rejects(list({ include: 'bodies', page_size: 51 }), { param: 'page_size' });
  await assert.rejects(list({ include: 'bodies', current_page: 1 }), { param: 'current_page' });
});

test('the first words of requests only when they are asked for, on large pages too', async () => {
  const { list, asked } = setting(60);
  const { data, next_cursor: cursor } = await list({ include: 'preview', page_size: 51 });
  assert.deepEqual([asked[0]?.preview, asked[0]?.bodies], [160, false]);
  const [first, second] = data;
  const sent = { method: 'POST', url: '/v1/chat/completions' };
  assert.deepEqual(
    [first?.request, second?.request],
    [
      { ...sent, preview: 'Hello' },
      { ...sent, preview: null },
    ],
  );
  await assert.rejects(list({ include: 'preview', current_page: 1 }), { param: 'current_page' });
  assert.deepEqual((await list({ cursor })).data[0]?.request, sent);
  assert.equal(asked.at(-1)?.preview, undefined);
});

test('a cursor that is none, or does not fit, is refused', async () => {
  const { list } = setting(60);
  const { next_cursor: cursor } = await list();
  await assert.rejects(list({ cursor: 'abc' }), { code: 'invalid_request', param: 'cursor' });
  await assert.rejects(list({ cursor, order: 'oldest' }), { code: 'invalid_request', param: 'order' });
  await assert.rejects(list({ cursor, current_page: 1 }), { code: 'invalid_request', param: 'current_page' });
  assert.equal((await list({ cursor, order: 'newest' })).data.length, 10);
});

test('what the query may not say', () => {
  const { query } = setting(0).route;
  assert.ok(query);
  for (const bad of [
    { page_size: 0 },
    { page_size: 201 },
    { order: 'up' },
    { include: 'all' },
    { unknown: 1 },
  ])
    assert.notDeepEqual(compileSchema(query)(bad), [], JSON.stringify(bad));
});
