import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import type { Analytics, GroupBy, RequestFilter, RequestSeriesQuery } from '../../core/ports/analytics.ts';
import type { BodyRow, FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';
import { days, manyFeedback, manyRows } from './analytics-many-rows.ts';
import { naiveFilter } from './analytics-naive-filter.ts';
import { naiveGroups } from './analytics-naive.ts';
import { naiveSeries, sameSeries, timeOf } from './analytics-naive-series.ts';
import { hasCode, newToken } from './analytics-probe.ts';
import { bodyRow, dayStart, hostileTexts, ndjson } from './analytics-rows.ts';

/** Every filter chooses the rows that it means, in groups and series, from roll-ups and rows alike. */
export function filtersRows(analytics: () => Analytics): void {
  const organisationId = randomUUID();
  const place = { organisationId, window: days(-1, 2), seed: 3 };
  const rows = manyRows(700, place);
  const feedback: readonly FeedbackRow[] = manyFeedback(25, place).map((row) => ({
    ...row,
    feedback_id: randomUUID(),
  }));
  const bodies: readonly BodyRow[] = rows.slice(0, 300).map((row, index) =>
    bodyRow(row, {
      request: `{"n":"Frage ${index % 7} ÄÖ"}`,
      response: hostileTexts[index % 11] as string,
    }),
  );
  const window = { from: dayStart - 70_000_123, to: dayStart + 150_000_456 };
  const seen = rows.filter((row) => timeOf(row) >= window.from && timeOf(row) < window.to);

  before(async () => {
    await analytics().insert('requests', ndjson(rows), newToken());
    await analytics().insert('feedback', ndjson(feedback), newToken());
    await analytics().insert('bodies', ndjson(bodies), newToken());
  });

  async function compare(filter: RequestFilter, by: GroupBy = 'model'): Promise<number> {
    const visibility = { organisationId };
    const holds = naiveFilter(filter, { feedback, bodies });
    const meant = seen.filter(holds);
    const { rows: groups } = await analytics().groups({
      by,
      columns: ['cost', 'total_tokens', 'error_count'],
      window,
      visibility,
      filter,
      limit: 1000,
      offset: 0,
    });
    const expected = naiveGroups(meant, by);
    const name = JSON.stringify(filter);
    assert.deepEqual(
      groups.map(({ value, requests }) => [value, requests]),
      expected.map(({ value, requests }) => [value, requests]),
      name,
    );
    for (const [index, { columns, value }] of groups.entries())
      for (const column of ['cost', 'total_tokens', 'error_count'] as const)
        expected[index]?.check[column](columns[column], `${name} ${value} ${column}`);
    const query: RequestSeriesQuery = {
      measures: ['requests', 'cost', 'users', 'p50_latency'],
      window,
      visibility,
      filter,
      buckets: { unit: 'day', size: 1, timeZone: 'UTC' },
    };
    sameSeries(await analytics().series(query), naiveSeries(meant, query), name);
    return meant.length;
  }

  const lists: { [K in keyof RequestFilter]?: (row: RequestRow) => unknown } = {
    aiServices: (row) => row.ai_service,
    models: (row) => row.model,
    serviceModels: (row) => ({ service: row.ai_service, model: row.model }),
    providers: (row) => row.provider,
    virtualKeys: (row) => row.virtual_key,
    mcpServers: (row) => row.mcp_server,
    mcpTools: (row) => row.mcp_tool,
    configs: (row) => row.config,
    prompts: (row) => row.prompt,
    apiKeys: (row) => row.api_key_id,
    workspaces: (row) => row.workspace_id,
    users: (row) => row.metadata['_user'] ?? row.user_id,
    traceIds: (row) => row.trace_id,
    spanIds: (row) => row.span_id,
    endpoints: (row) => row.endpoint,
    cacheStatuses: (row) => row.cache_status,
    statusCodes: (row) => row.status,
  };
  for (const [name, of] of Object.entries(lists)) {
    test(`filter ${name}: one value, several, none and unknown ones`, async () => {
      const [first, second] = [seen[0], seen[5]] as [RequestRow, RequestRow];
      assert.ok((await compare({ [name]: [of(first)] })) > 0);
      assert.ok((await compare({ [name]: [of(first), of(second), of(first)] }, 'user')) > 0);
      assert.equal(await compare({ [name]: [] }), 0);
      const unknown = { statusCodes: 999, serviceModels: { service: 'openai', model: 'none' } };
      assert.equal(await compare({ [name]: [unknown[name as 'statusCodes'] ?? 'none'] }), 0);
    });
  }

  const others: readonly RequestFilter[] = [
    {},
    { isSuccess: true },
    { isSuccess: false },
    { metadata: { team: 'red' } },
    { metadata: { team: '' } },
    { metadata: { absent: '' } },
    { metadata: { team: 'größe', "it's": hostileTexts[0] as string } },
    { metadata: { _user: "end'user" } },
    { promptTokens: { min: 1000 } },
    { completionTokens: { max: 400 } },
    { totalTokens: { min: 1000, max: 3000 } },
    { totalTokens: { min: seen[0]?.total_tokens ?? 0, max: seen[0]?.total_tokens ?? 0 } },
    { cost: { min: 0.5, max: 1.5 } },
    { cost: { min: Number(seen[0]?.cost), max: Number(seen[0]?.cost) } },
    { cost: { min: 1e-7, max: 1e30 } },
    { latencyMs: { min: seen[0]?.latency_ms ?? 0 } },
    { latencyMs: { min: 5000, max: 4000 } },
    { weightedFeedback: {} },
    { weightedFeedback: { min: 0 } },
    { weightedFeedback: { min: -5, max: 1.25 } },
    { weightedFeedback: { max: -0.5 }, models: ['gpt', 'claude'] },
    { text: 'frage 3' },
    { text: 'äö' },
    { text: '%' },
    ...hostileTexts.slice(0, 11).map((text) => ({ text: text.slice(0, 250) })),
    { models: ['gpt'], providers: ['openai', "it's"], isSuccess: true, metadata: { team: 'blue' } },
    { workspaces: ['alpha', ''], models: ['gpt', ''] },
  ];
  test('filters by what is true, pairs, ranges, feedback and texts, alone and together', async () => {
    for (const filter of others) await compare(filter, filter.metadata === undefined ? 'model' : 'workspace');
  });

  test('values are never taken for anything else', async () => {
    for (const text of hostileTexts) {
      for (const name of ['models', 'users', 'traceIds', 'cacheStatuses'] as const)
        await compare({ [name]: [text, `${text}x`] });
      await compare({ metadata: { [text]: text }, text: text.slice(0, 250) });
    }
  });

  test('groups by dimension and workspace agree for each filter that roll-ups know', async () => {
    const filters: readonly RequestFilter[] = [
      { models: ['gpt', 'claude'] },
      { users: ['ann'] },
      { statusCodes: [200] },
    ];
    for (const filter of filters)
      for (const by of ['workspace', 'model', 'user', 'status_code', { metadata: 'team' }] as const)
        await compare(filter, by);
  });

  test('filters without bounds are the caller’s fault', async () => {
    const query = {
      by: 'model',
      columns: [],
      window,
      visibility: { organisationId },
      limit: 1,
      offset: 0,
    } as const;
    const many = Array.from({ length: 1001 }, (_, index) => String(index));
    for (const filter of [
      { models: many },
      { statusCodes: many.map(Number) },
      { text: 'x'.repeat(257) },
      { metadata: Object.fromEntries(many.slice(0, 21).map((key) => [key, key])) },
    ])
      await assert.rejects(analytics().groups({ ...query, filter }), hasCode('invalid_request'));
  });
}
