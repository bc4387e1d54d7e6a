import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Analytics } from '../../core/ports/analytics.ts';
import { always, day, hasCode, newToken } from './analytics-probe.ts';
import { dayStart, hostileTexts, ndjson, requestRow, storedTime } from './analytics-rows.ts';

/** Requests by their trace. */
export function groupsTraces(analytics: () => Analytics): void {
  test('a trace is its requests, oldest first, of what may be seen', async () => {
    const organisation_id = randomUUID();
    const at = (ms: number, trace_id: string, workspace_id = 'a') =>
      requestRow({ organisation_id, workspace_id, trace_id, created_at: storedTime(dayStart + ms) });
    const rows = [at(3, 't'), at(1, 't'), at(2, 't', 'b'), at(4, 'other'), at(5, 't')];
    await analytics().insert('requests', ndjson([...rows, requestRow({ trace_id: 't' })]), newToken());
    const ids = async (workspace?: string, window = day): Promise<string[]> => {
      const visibility = {
        organisationId: organisation_id,
        ...(workspace !== undefined && { workspaceId: workspace }),
      };
      return (await analytics().trace('t', window, visibility)).map(({ id }) => id);
    };
    const [three, one, two, , five] = rows.map(({ id }) => id);
    assert.deepEqual(await ids(), [one, two, three, five]);
    assert.deepEqual(await ids('a'), [one, three, five]);
    assert.deepEqual(await ids('c'), []);
    assert.deepEqual(await ids('a', { from: dayStart + 2, to: dayStart + 5 }), [three]);
    assert.deepEqual(await analytics().trace('none', always, { organisationId: organisation_id }), []);
  });

  test('a trace ends after 1,000 requests, and may have any name', async () => {
    const organisation_id = randomUUID();
    const many = Array.from({ length: 1001 }, () => requestRow({ organisation_id, trace_id: 'many' }));
    const named = hostileTexts.map((trace_id) => requestRow({ organisation_id, trace_id }));
    await analytics().insert('requests', ndjson([...many, ...named]), newToken());
    const visibility = { organisationId: organisation_id };
    assert.equal((await analytics().trace('many', day, visibility)).length, 1000);
    for (const { id, trace_id } of named)
      assert.deepEqual(
        (await analytics().trace(trace_id, day, visibility)).map((row) => row.id),
        [id],
      );
  });

  test('traces in numbers, the one that began last first; one matches when any of its requests does', async () => {
    const organisation_id = randomUUID();
    const row = (ms: number, trace_id: string, given = {}) =>
      requestRow({
        organisation_id,
        trace_id,
        created_at: storedTime(dayStart + ms),
        latency_ms: 10.5,
        ...given,
      });
    const rows = [
      row(1000, 'first', { cost: '0.100000000001', total_tokens: 5 }),
      row(2000, 'second'),
      row(3000, 'first', {
        status: 500,
        is_success: false,
        cost: '0.200000000002',
        total_tokens: 6,
        latency_ms: 100,
      }),
      row(3050, 'first', { cost: '0', total_tokens: 0, latency_ms: 1 }),
      row(4000, ''),
    ];
    await analytics().insert('requests', ndjson(rows), newToken());
    const visibility = { organisationId: organisation_id };
    const first = {
      traceId: 'first',
      from: dayStart + 1000,
      to: dayStart + 3100,
      requests: 3,
      errors: 1,
      totalTokens: 11,
      cost: '0.300000000003',
    };
    const query = { window: day, visibility, limit: 10, offset: 0 };
    const all = await analytics().traces(query);
    assert.deepEqual([all.total, all.rows.map(({ traceId }) => traceId)], [2, ['second', 'first']]);
    assert.deepEqual(all.rows[1], first);
    const failed = await analytics().traces({ ...query, filter: { statusCodes: [500] } });
    assert.deepEqual(failed, { total: 1, rows: [first] });
    const page = await analytics().traces({ ...query, limit: 1, offset: 1 });
    assert.deepEqual(page, { total: 2, rows: [first] });
    assert.deepEqual((await analytics().traces({ ...query, offset: 2 })).rows, []);
    const none = await analytics().traces({ ...query, visibility: { ...visibility, userId: 'nobody' } });
    assert.deepEqual(none, { total: 0, rows: [] });
    await assert.rejects(analytics().traces({ ...query, limit: 501 }), hasCode('invalid_request'));
  });
}
