import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { Static } from '../../../core/pipeline/plugin.ts';
import { createPrices } from '../../../adapters/pricing/genai-prices.ts';
import { noUsage } from '../../../core/dialects/usage.ts';
import type { Router } from '../../../core/pipeline/router.ts';
import type { LogRecord } from '../../../core/ports/analytics.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { PricedModels, Prices } from '../../../core/ports/prices.ts';
import type { BodyRow, RequestRow, StoredCall } from '../../../core/ports/request-row.ts';
import { recordingLog } from '../../../core/lifecycle/recording-services.test-support.ts';
import {
  TestContext,
  testAnalytics,
  testKey,
  testOutcome,
  testRouteInput,
  testScope,
  testStart,
} from '../../../tests/kit/plugin-kit.ts';
import { storedRow } from '../../../tests/kit/stored-row.ts';
import { CommonMembers } from '../../logger/members.ts';
import { requestLine } from '../../logger/index.ts';
import { getLogRoute } from './routes.ts';
import type { LogReply } from './record.ts';

const id = '0d1b2c3d-aaaa-4bbb-8ccc-0123456789ab';

/** As the logger writes it. */
function writtenRow(): Partial<RequestRow> {
  const context = new TestContext({});
  const outcome = testOutcome();
  const { members } = new CommonMembers(undefined).of(context, outcome);
  return JSON.parse(requestLine(context, outcome, members, 1000)) as Partial<RequestRow>;
}

function record(body: Partial<BodyRow> | null, row: Partial<RequestRow> = {}): LogRecord {
  const request: RequestRow = {
    ...storedRow(writtenRow()),
    id,
    ...row,
  };
  const full: BodyRow = {
    id,
    created_at: request.created_at,
    organisation_id: '',
    workspace_id: '',
    request: '',
    response: '',
    request_truncated: false,
    response_truncated: false,
    log_format: 'json',
    ...body,
  };
  return { request, body: body === null ? undefined : full };
}

/** What a test says beside the answers of the store. */
interface Situation {
  /** Rows on their way. */
  readonly requests?: number;
  readonly bodies?: number;
  readonly key?: KeyRecord;
  readonly prices?: Prices;
  /** The provider `@priced` has these prices. */
  readonly stored?: PricedModels;
}

/** Asks for the entry while the store gives these answers, one after another. */
async function getLog(
  answers: (LogRecord | undefined)[],
  { requests = 0, bodies = 0, key = testKey(), prices, stored }: Situation = {},
) {
  const asked: unknown[][] = [];
  const analytics = testAnalytics({
    requestById(...question) {
      asked.push(question);
      return Promise.resolve(answers[asked.length - 1]);
    },
  });
  const { scope: plain, journal } = testScope({ analytics, ...(prices && { prices }) });
  const storedPrices: Router['storedPrices'] = (place, slug, model) =>
    place.workspaceId === 'ws-1' && slug === 'priced' && model === 'asked' ? stored : undefined;
  const scope = { ...plain, router: { ...plain.router, storedPrices } };
  journal.pending = { requests, bodies, feedback: 0 };
  const route = getLogRoute(scope);
  const input = testRouteInput({ params: { id }, key });
  const reply = await Promise.resolve(route.handle(input)).catch((error: unknown) => error);
  if (!(reply instanceof Error)) {
    const validate = formats.default(new Ajv2020()).compile(route.reply);
    assert.ok(validate(reply), JSON.stringify(validate.errors));
  }
  return { reply: reply as Static<typeof LogReply>, asked, settled: journal.settled };
}

test('an entry in the shape of the API', async () => {
  const stored = record(
    {
      request: '{"model":"m"}',
      response: '{"id":1}',
      response_truncated: false,
      request_headers: '{"host":"h","cookie":"***"}',
    },
    {
      organisation_id: 'o',
      workspace_id: 'w',
      cost: '0.000123000000',
      prompt_tokens: 1,
      completion_tokens: 2,
      total_tokens: 3,
      model: 'm',
      ai_service: 'openai',
      lost_cost: '0.000000500000',
      metadata: { team: 'a' },
    },
  );
  const { reply } = await getLog([stored]);
  assert.deepEqual(
    { ...reply, metrics: undefined },
    {
      id,
      _id: id,
      object: 'log',
      created_at: '2026-11-21T09:00:00.000Z',
      organisation_id: 'o',
      workspace_id: 'w',
      log_format: 'json',
      request: {
        method: 'POST',
        url: '/v1/chat/completions',
        headers: { host: 'h', cookie: '***' },
        body: { model: 'm' },
        truncated: false,
      },
      response: {
        status: 200,
        response_time: 12.5,
        responseTime: 12.5,
        lastUsedOptionJsonPath: '',
        body: { id: 1 },
        truncated: false,
      },
      transformedRequest: null,
      originalResponse: null,
      metrics: undefined,
      cost_parts: null,
      tries: null,
      guardrails: null,
      decision: null,
    },
  );
  const { metrics } = reply;
  assert.deepEqual([metrics.cost, metrics.cost_currency, metrics.metadata], [0.000123, 'USD', { team: 'a' }]);
  assert.equal(metrics.lost_cost, 0.0000005);
  assert.deepEqual([metrics.req_units, metrics.res_units, metrics.total_units], [1, 2, 3]);
  assert.deepEqual([metrics.ai_org, metrics.ai_model, metrics.response_status_code], ['openai', 'm', 200]);
  assert.equal(metrics.created_at, '2026-11-21T09:00:00.000Z');
});

test('what a provider was sent, and its answer', async () => {
  const told = { method: 'POST', url: 'https://h/v1/messages', headers: { 'x-api-key': '***' } };
  const withCall = (call: StoredCall) => record({ request: '{"a":1}', provider_call: JSON.stringify(call) });
  const own = (await getLog([withCall({ request: { ...told, own: true } })])).reply;
  assert.deepEqual(own.transformedRequest, { ...told, body: { a: 1 }, truncated: false });
  assert.equal(own.originalResponse, null);
  const response = { status: 200, headers: {}, body: 'AAEC', base64: true };
  const other = (await getLog([withCall({ request: { ...told, body: '{"b":', truncated: true }, response })]))
    .reply;
  assert.deepEqual(other.transformedRequest, { ...told, body: '{"b":', truncated: true });
  assert.deepEqual(other.originalResponse, {
    method: 'POST',
    url: told.url,
    status: 200,
    headers: {},
    body: 'AAEC',
    truncated: false,
  });
  const unkept = (await getLog([withCall({ request: told })])).reply;
  assert.deepEqual(unkept.transformedRequest, { ...told, body: null, truncated: false });
});

test('what existing clients know columns by', async () => {
  const row: Partial<RequestRow> = {
    option: 'config.targets[2]',
    retries: 1,
    is_success: true,
    stream: true,
    endpoint: 'proxy',
    config: 'main',
    config_version: 'v2',
    prompt: 'welcome',
    prompt_version: '3',
    metadata: { team: 'a', _user: 'ann' },
    guardrails: '[{"check":"pii"}]',
    limits: ['daily'],
  };
  const { reply } = await getLog([record(null, row)]);
  const { metrics } = reply;
  assert.deepEqual(
    [metrics.last_used_option_index, metrics.retry_success_count, metrics.stream_mode, metrics.is_proxy_call],
    [2, 1, 1, true],
  );
  assert.deepEqual(
    [metrics.config_id, metrics.config_version_id, metrics.prompt_slug, metrics.prompt_version_id],
    ['main', 'v2', 'welcome', '3'],
  );
  assert.deepEqual(
    [metrics['metadata.key'], metrics['metadata.value']],
    [
      ['team', '_user'],
      ['a', 'ann'],
    ],
  );
  assert.equal(reply.response.lastUsedOptionJsonPath, 'config.targets[2]');
  assert.deepEqual([reply.guardrails, metrics.limits], [[{ check: 'pii' }], ['daily']]);
  const failed = (await getLog([record(null, { ...row, option: '', retries: -1, is_success: false })])).reply;
  assert.deepEqual([failed.metrics.last_used_option_index, failed.metrics.retry_success_count], [null, 0]);
});

describe('the parts of a cost', () => {
  const own = [{ provider: 'house', model: 'm', input: 2, cache_read: 0.5, output: 8 }];
  const prices = createPrices({ log: recordingLog([]), own });
  const stored: PricedModels = {
    service: 'house',
    model: '',
    own: [{ requestToken: 0.000001, responseToken: 0.000004 }],
    multiplier: 1,
  };
  // As a store gives it: without zeros at the end.
  const priced: Partial<RequestRow> = {
    ...{ organisation_id: 'org-1', workspace_id: 'ws-1', ai_service: 'house', provider: 'house', model: 'm' },
    ...{ prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500, cached_tokens: 400 },
    ...{ reasoning_tokens: 100, cost: '0.0054', pricing: 'priced', price_version: 'file' },
  };
  const partsOf = async (row: Partial<RequestRow>, situation: Situation = {}) =>
    (await getLog([record(null, { ...priced, ...row })], { prices, ...situation })).reply.cost_parts;

  test('at the prices of the time of the request', async () => {
    assert.deepEqual(await partsOf({}), [
      { kind: 'input', tokens: 600, price_per_million: 2, cost: 0.0012 },
      { kind: 'cached_input', tokens: 400, price_per_million: 0.5, cost: 0.0002 },
      { kind: 'output', tokens: 500, price_per_million: 8, cost: 0.004 },
    ]);
  });

  test('at those of the integration, where they give the cost, and otherwise at those of the kind of provider', async () => {
    const row = { provider: 'priced', model_requested: 'asked' };
    const { version } = prices.price(noUsage, stored, 'm', testStart);
    assert.deepEqual(await partsOf({ ...row, cost: '0.003', price_version: version }, { stored }), [
      { kind: 'input', tokens: 1000, price_per_million: 1, cost: 0.001 },
      { kind: 'output', tokens: 500, price_per_million: 4, cost: 0.002 },
    ]);
    assert.equal((await partsOf(row, { stored }))?.[0]?.price_per_million, 2);
  });

  const unknown: [string, Partial<RequestRow>][] = [
    ['the prices are of another edition', { price_version: '0.0.1' }],
    ['they do not add up to the cost', { cost: '0.005400000001' }],
    ['the cost was reported', { price_version: 'reported' }],
    ['there is no price any more', { model: 'gone' }],
    ['there was none', { pricing: 'unpriced', cost: '0' }],
  ];
  for (const [name, row] of unknown)
    test(`are not told where ${name}`, async () => {
      assert.equal(await partsOf(row), null);
    });
});

test('the only attempt of a request, with a config or without, and none where nobody was asked', async () => {
  const row = { attempts: 1, tries: '', provider: 'claude', model: 'claude-sonnet-4-5', status: 200 };
  const only = {
    provider: 'claude',
    model: 'claude-sonnet-4-5',
    status: 200,
    error: '',
    start_ms: null,
    end_ms: null,
    lost: false,
  };
  const direct = (await getLog([record(null, { ...row, option: '' })])).reply;
  assert.deepEqual(direct.tries, [{ option: 'config', ...only }]);
  const planned = (await getLog([record(null, { ...row, option: 'config.targets[1]' })])).reply;
  assert.deepEqual(planned.tries, [{ option: 'config.targets[1]', ...only }]);
  const timeout = { ...row, option: '', status: 408, error_code: 'request_timeout' };
  const failed = (await getLog([record(null, timeout)])).reply;
  assert.deepEqual(failed.tries, [{ option: 'config', ...only, status: 408, error: 'request_timeout' }]);
  assert.equal((await getLog([record(null, { ...row, attempts: 0 })])).reply.tries, null);
});

test('tries and decision as JSON', async () => {
  const one = {
    option: 'config.targets[0]',
    provider: 'p',
    model: 'm',
    status: 500,
    error: '',
    start_ms: 1,
    end_ms: 2.5,
    lost: true,
  };
  const decision = { config: 'main', plan: [] };
  const stored = record(null, { tries: JSON.stringify([one]), decision: JSON.stringify(decision) });
  const { reply } = await getLog([stored]);
  assert.deepEqual([reply.tries, reply.decision], [[one], decision]);
  assert.ok(!('tries' in reply.metrics) && !('decision' in reply.metrics));
});

describe('how a body is shown', () => {
  const cases: [string, Partial<BodyRow>, unknown][] = [
    ['complete JSON as a value', { response: ' [1, {"a":null}]' }, [1, { a: null }]],
    [
      'an integer that a value would round, as text',
      { response: '{"seed":9223372036854775807}' },
      '{"seed":9223372036854775807}',
    ],
    [
      'the largest integer that survives, as a value',
      { response: '{"seed":9007199254740991}' },
      { seed: 9007199254740991 },
    ],
    ['JSON that was cut, as text', { response: '{"a":', response_truncated: true }, '{"a":'],
    ['a stream, as text', { response: 'data: {}\n\n', log_format: 'sse' }, 'data: {}\n\n'],
    ['a plain text', { response: '12', log_format: 'text' }, '12'],
    ['base64 stays base64', { response: 'W10=', log_format: 'base64' }, 'W10='],
    ['nothing as null', { response: '' }, null],
  ];
  for (const [name, body, expected] of cases) {
    test(name, async () => {
      const { reply } = await getLog([record(body)]);
      assert.deepEqual(reply.response.body, expected);
      assert.equal(reply.log_format, body.log_format ?? 'json');
    });
  }

  test('an entry without bodies', async () => {
    const { reply } = await getLog([record(null)]);
    assert.deepEqual([reply.log_format, reply.request.body, reply.response.body], ['none', null, null]);
  });
});

describe('an entry that is not in the store', () => {
  test('and not on its way: not found, at once', async () => {
    const { reply, asked, settled } = await getLog([undefined]);
    assert.equal((reply as unknown as { code: string }).code, 'resource_not_found');
    assert.equal(asked.length, 1);
    assert.deepEqual(settled, []);
  });

  test('yet: waits once, for a bounded time, and looks again', async () => {
    const { reply, settled } = await getLog([undefined, record(null)], { requests: 1 });
    assert.equal(reply.id, id);
    assert.deepEqual(settled, [2000]);
  });

  test('even after that: not found, after two looks', async () => {
    const { reply, asked } = await getLog([undefined, undefined, record(null)], { requests: 1 });
    assert.equal((reply as unknown as { code: string }).code, 'resource_not_found');
    assert.equal(asked.length, 2);
  });

  const late: [string, Partial<RequestRow>, number, number][] = [
    ['its body is on its way', {}, 1, 2],
    ['no body is on its way', {}, 0, 1],
    ['it is too old for its body to be on its way', { created_at: '2026-11-21 08:59:50.000' }, 1, 1],
  ];
  for (const [name, row, bodies, looks] of late) {
    test(`with its bodies: ${name}`, async () => {
      const { reply, asked } = await getLog([record(null, row), record({ request: '{}' }, row)], { bodies });
      assert.equal(asked.length, looks);
      assert.equal(reply.log_format, looks === 2 ? 'json' : 'none');
    });
  }
});

test('the store is asked for the last 366 days of what the key may see', async () => {
  const { asked } = await getLog([record(null)], { key: testKey({ kind: 'workspace-user' }) });
  const [askedId, window, visibility] = asked[0] as [string, { from: number; to: number }, object];
  assert.equal(askedId, id);
  assert.equal(testStart - window.from, 366 * 86_400_000);
  assert.ok(window.to > testStart && window.to <= testStart + 3_600_000);
  assert.deepEqual(visibility, { organisationId: 'org-1', workspaceId: 'ws-1', asker: 'key-1' });
});

test('a store that is away is an error, not a missing entry', async () => {
  const analytics = testAnalytics({ requestById: () => Promise.reject(new Error('away')) });
  const route = getLogRoute(testScope({ analytics }).scope);
  const input = testRouteInput({ params: { id } });
  await assert.rejects(async () => route.handle(input), /away/);
});
