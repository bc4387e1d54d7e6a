import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileSchema } from '../../../core/config/ajv.ts';
import { Type } from '../../../core/pipeline/plugin.ts';
import type { RequestFilter } from '../../../core/ports/analytics.ts';
import { filterBody, filterQuery, readFilter, type FilterValues } from './request-filter.ts';

const now = Date.parse('2026-11-21T09:00:00Z');
const checkQuery = compileSchema(Type.Object(filterQuery, { additionalProperties: false }), {
  coerce: true,
  all: true,
});
const checkBody = compileSchema(Type.Object(filterBody, { additionalProperties: false }), { all: true });

/** As a route reads a query: texts, validated and then read. */
function ofQuery(query: Record<string, string>): RequestFilter {
  const values = { ...query };
  assert.deepEqual(checkQuery(values), []);
  return readFilter(values, now).filter;
}

/** As a route reads a body. */
function ofBody(body: FilterValues): RequestFilter {
  assert.deepEqual(checkBody(body), []);
  return readFilter(body, now).filter;
}

describe('a filter of a query', () => {
  const cases: [query: Record<string, string>, filter: RequestFilter][] = [
    [{}, {}],
    [{ ai_service: 'openai' }, { aiServices: ['openai'] }],
    [{ ai_model: 'gpt-5, claude ,,gpt-5' }, { models: ['gpt-5', 'claude'] }],
    [{ model: 'gpt-5' }, { models: ['gpt-5'] }],
    [{ provider: '@team/openai' }, { providers: ['@team/openai'] }],
    [{ virtual_keys: 'a,b' }, { virtualKeys: ['a', 'b'] }],
    [{ mcp_server: 'tickets' }, { mcpServers: ['tickets'] }],
    [{ mcp_tool: 'search,add' }, { mcpTools: ['search', 'add'] }],
    [{ configs: 'pc-1' }, { configs: ['pc-1'] }],
    [{ prompt_slug: 'welcome' }, { prompts: ['welcome'] }],
    [{ api_key_ids: 'k1,k2' }, { apiKeys: ['k1', 'k2'] }],
    [{ user: 'ann' }, { users: ['ann'] }],
    [{ endpoint: 'chat.completions' }, { endpoints: ['chat.completions'] }],
    [{ cache_status: 'HIT,SEMANTIC HIT' }, { cacheStatuses: ['HIT', 'SEMANTIC HIT'] }],
    [{ trace_id: 't' }, { traceIds: ['t'] }],
    [{ span_id: 's' }, { spanIds: ['s'] }],
    [{ status_code: '200, 429' }, { statusCodes: [200, 429] }],
    [
      { ai_org_model: 'openai__gpt-5,azure__my__model' },
      {
        serviceModels: [
          { service: 'openai', model: 'gpt-5' },
          { service: 'azure', model: 'my__model' },
        ],
      },
    ],
    [{ metadata: '{"_user":"ann","team":""}' }, { metadata: { _user: 'ann', team: '' } }],
    [{ success: 'false' }, { isSuccess: false }],
    [{ search: 'refund, please' }, { text: 'refund, please' }],
    [{ total_units_min: '1', total_units_max: '9' }, { totalTokens: { min: 1, max: 9 } }],
    [{ prompt_token_min: '1' }, { promptTokens: { min: 1 } }],
    [{ completion_token_max: '0' }, { completionTokens: { max: 0 } }],
    [{ response_time_min: '12.5' }, { latencyMs: { min: 12.5 } }],
    [
      { weighted_feedback_min: '-10', weighted_feedback_max: '2.5' },
      { weightedFeedback: { min: -10, max: 2.5 } },
    ],
    // A list as JSON, where a value holds a comma or is empty.
    [{ user: '["Doe, Ann",""]' }, { users: ['Doe, Ann', ''] }],
  ];
  for (const [query, filter] of cases)
    test(JSON.stringify(query), () => assert.deepEqual(ofQuery(query), filter));

  test('costs are in cents, and dollars for the store', () => {
    assert.deepEqual(ofQuery({ cost_min: '7' }), { cost: { min: 0.07 } });
    assert.deepEqual(ofQuery({ cost_min: '0.0123', cost_max: '250' }), { cost: { min: 0.000123, max: 2.5 } });
  });

  test('100 values are taken', () => {
    const values = Array.from({ length: 100 }, (_, index) => `${index}`.padStart(512, 'x'));
    assert.deepEqual(ofQuery({ user: values.join(',') }), { users: values });
  });
});

describe('a filter of a body', () => {
  const cases: [body: FilterValues, filter: RequestFilter][] = [
    [
      { virtual_keys: 'a,b', status_code: '200' },
      { virtualKeys: ['a', 'b'], statusCodes: [200] },
    ],
    [{ virtual_keys: ['a', 'b,c'] }, { virtualKeys: ['a', 'b,c'] }],
    [{ status_code: 429 }, { statusCodes: [429] }],
    [{ status_code: [200, 201] }, { statusCodes: [200, 201] }],
    [{ metadata: { team: 'a' } }, { metadata: { team: 'a' } }],
    [{ metadata: '{"team":"a"}' }, { metadata: { team: 'a' } }],
    [
      { cost_min: 150, success: true },
      { cost: { min: 1.5 }, isSuccess: true },
    ],
  ];
  for (const [body, filter] of cases)
    test(JSON.stringify(body), () => assert.deepEqual(ofBody(body), filter));
});

describe('a filter that cannot be', () => {
  const long = 'x'.repeat(513);
  const many = Array.from({ length: 101 }, (_, index) => `${index}`);
  const cases: [values: FilterValues, param: string, message: RegExp][] = [
    [{ virtual_keys: ',' }, 'virtual_keys', /^"virtual_keys" names nothing; leave it out/],
    [{ virtual_keys: '[]' }, 'virtual_keys', /names nothing/],
    [{ configs: many.join(',') }, 'configs', /^"configs" holds 101 values; give at most 100\.$/],
    [{ api_key_ids: ['a', long] }, 'api_key_ids', /at place 2 a value of more than 512 characters/],
    [{ user: '["a"' }, 'user', /is no JSON list of texts; write \["one","two"\]/],
    [{ user: '[1]' }, 'user', /is no JSON list of texts/],
    [{ status_code: '200,4xx' }, 'status_code', /"4xx" is no status code; write numbers like 200,429/],
    [{ status_code: '600' }, 'status_code', /"600" is no status code/],
    [{ status_code: '-1' }, 'status_code', /"-1" is no status code/],
    [{ ai_org_model: 'gpt-5' }, 'ai_org_model', /"gpt-5" lacks a part; write the kind of provider, two/],
    [{ ai_org_model: '__gpt-5' }, 'ai_org_model', /lacks a part/],
    [{ ai_org_model: 'openai__' }, 'ai_org_model', /lacks a part/],
    [{ metadata: 'team' }, 'metadata', /^"metadata" is no JSON object; write \{"name":"value"\}\.$/],
    [{ metadata: '["a"]' }, 'metadata', /is no JSON object/],
    [{ metadata: '{}' }, 'metadata', /names nothing/],
    [{ metadata: '{"a":1}' }, 'metadata', /holds under "a" no text; write it in quotes/],
    [
      { metadata: Object.fromEntries(many.slice(0, 21).map((name) => [name, ''])) },
      'metadata',
      /holds 21 names; give at most 20/,
    ],
    [{ metadata: { a: long } }, 'metadata', /more than 512 characters at "a"/],
    [{ cost_min: 2, cost_max: 1 }, 'cost_min', /must not be above "cost_max"/],
    [{ model: 'a', ai_model: 'b' }, 'model', /^"model" is there as "ai_model" too; keep one/],
    [{ time_of_generation_min: '2027-01-01T00:00:00Z' }, 'time_of_generation_min', /must be before/],
  ];
  for (const [values, param, message] of cases)
    test(JSON.stringify(values).slice(0, 60), () =>
      assert.throws(() => readFilter(values, now), { code: 'invalid_request', status: 400, param, message }),
    );

  test('today and yesterday are days in UTC, the present one as far as it has come', () => {
    const day = Date.parse('2026-11-21T00:00:00Z');
    const windows: [min: string | undefined, max: string | undefined, from: number, to: number][] = [
      ['today', undefined, day, now],
      ['today', 'today', day, now],
      ['yesterday', 'yesterday', day - 86_400_000, day],
      ['yesterday', 'today', day - 86_400_000, now],
      ['2026-11-19T12:00:00Z', 'yesterday', Date.parse('2026-11-19T12:00:00Z'), day],
    ];
    for (const [min, max, from, to] of windows) {
      const values = {
        ...(min !== undefined && { time_of_generation_min: min }),
        ...(max !== undefined && { time_of_generation_max: max }),
      };
      assert.deepEqual(checkQuery({ ...values }), []);
      assert.deepEqual(checkBody(values), []);
      assert.deepEqual(readFilter(values, now).window, { from, to });
    }
    assert.notDeepEqual(checkQuery({ time_of_generation_min: 'tomorrow' }), []);
  });

  test('every mistake is told at once', () => {
    assert.throws(() => readFilter({ status_code: 'a,b', metadata: '1', user: '[' }, now), {
      message: /"user" .*; "status_code" "a" .*; "status_code" "b" .*; "metadata" /,
    });
  });

  const refused: [query: Record<string, string>, path: string][] = [
    [{ cost_min: '-1' }, '/cost_min'],
    [{ total_units_min: '1.5' }, '/total_units_min'],
    [{ total_units_min: '' }, '/total_units_min'],
    [{ weighted_feedback_max: '11' }, '/weighted_feedback_max'],
    [{ search: 'x'.repeat(257) }, '/search'],
    [{ search: '' }, '/search'],
    [{ virtual_keys: '' }, '/virtual_keys'],
    [{ user: 'x'.repeat(51_300) }, '/user'],
    [{ workspace_slug: '' }, '/workspace_slug'],
    [{ virtual_key: 'a' }, '/virtual_key'],
  ];
  for (const [query, path] of refused)
    test(`by its schema: ${JSON.stringify(query).slice(0, 60)}`, () =>
      assert.deepEqual(
        checkQuery(query).map((issue) => issue.path),
        [path],
      ));
});
