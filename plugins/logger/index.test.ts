import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Outcome } from '../../core/pipeline/context.ts';
import type { RequestFacts } from '../../core/pipeline/facts.ts';
import type { JournalLine } from '../../core/ports/journal.ts';
import type { BodyRow, RequestRow } from '../../core/ports/request-row.ts';
import {
  optionErrors,
  TestContext,
  testOutcome,
  testScope,
  type TestRequest,
} from '../../tests/kit/plugin-kit.ts';
import { storedRow } from '../../tests/kit/stored-row.ts';
import logger from './index.ts';

const sent = Buffer.from('{"model":"m"}');
const answered = Buffer.from('{"id":"1"}');

async function log(
  outcome: Partial<Outcome> = {},
  {
    facts = {},
    request = {},
    options = {},
  }: { facts?: Partial<RequestFacts>; request?: TestRequest; options?: object } = {},
) {
  const { scope, journal } = testScope();
  const hooks = await logger.create(options, scope);
  const context = new TestContext(request);
  Object.assign(context.facts, facts);
  await hooks.settled?.(context, testOutcome(outcome));
  for (const line of [...journal.lines.requests, ...journal.lines.bodies]) assert.ok(!line.includes('\n'));
  const [written] = journal.rows<Partial<RequestRow>>('requests');
  assert.ok(written, 'every request has a row');
  for (const value of Object.values(written))
    assert.ok(value !== '' && value !== false, 'members that say nothing are left out');
  return { row: storedRow(written), body: journal.rows<BodyRow>('bodies')[0], context };
}

describe('logger: the request row', () => {
  test('holds everything that is known', async () => {
    const { row, context } = await log(
      { latencyMs: 250.12345, price: { cost: '0.000123000000', status: 'priced', version: 'v1' } },
      {
        request: { query: '?secret=1', headers: { 'user-agent': 'sdk/1.0' } },
        facts: {
          organisationId: 'o',
          workspaceId: 'w',
          apiKeyId: 'k',
          userId: 'u',
          aiService: 'openai',
          provider: '@mine',
          upstreamHost: 'api.openai.com',
          modelRequested: 'asked',
          modelAnswered: 'answered',
          stream: true,
          config: 'c',
          mcpServer: 'tickets',
          mcpTool: 'search',
          configVersion: '3',
          prompt: 'p',
          promptVersion: '7',
          virtualKey: 'v',
          cacheStatus: 'MISS',
          attempts: 2,
          option: 'config.targets[1]',
          retries: -1,
          lostCost: 0.0000005,
          attemptRecords: [
            {
              option: 'config.targets[1]',
              provider: 'p'.repeat(300),
              model: '"m"',
              status: 504,
              error: 'upstream_timeout',
              startedMs: 1.00049,
              endedMs: 30,
              lost: true,
            },
          ],
          decision: '{"cache":"MISS"}',
          verdicts: [
            { name: 'guard', hook: 'request', verdict: 'passed', ms: 0.12345 },
            { name: 'a "b\\c"\n', hook: 'stream', verdict: 'refused', ms: 0 },
          ],
          limits: ['provider "a" (1 request per minute)'],
          resent: true,
          finishReason: 'stop',
          dropped: ['seed', 'messages[0].name'],
          metadata: { team: 'a "b"\n' },
          traceId: 't',
          spanId: 's',
          parentSpanId: 'ps',
          spanName: 'sn',
          upstreamStartedAt: 1000,
          firstByteAt: 1010.5,
          firstTokenAt: 1020,
          upstreamEndedAt: 1200.1,
          requestBytes: 11,
          responseBytes: 22,
          usage: {
            promptTokens: 1,
            completionTokens: 2,
            totalTokens: 3,
            cachedTokens: 4,
            cacheWriteTokens: 5,
            reasoningTokens: 6,
            inputAudioTokens: 7,
            outputAudioTokens: 8,
          },
          isUsageEstimated: true,
        },
      },
    );
    assert.deepEqual(row, {
      id: context.id,
      created_at: '2026-11-21 09:00:00.000',
      organisation_id: 'o',
      workspace_id: 'w',
      api_key_id: 'k',
      user_id: 'u',
      method: 'POST',
      path: '/v1/chat/completions',
      endpoint: 'chat.completions',
      stream: true,
      status: 200,
      outcome: 'completed',
      is_success: true,
      error_code: '',
      error_source: '',
      error_message: '',
      plugin: '',
      ai_service: 'openai',
      provider: '@mine',
      model_requested: 'asked',
      model: 'answered',
      mcp_server: 'tickets',
      mcp_tool: 'search',
      upstream_host: 'api.openai.com',
      config: 'c',
      config_version: '3',
      prompt: 'p',
      prompt_version: '7',
      virtual_key: 'v',
      cache_status: 'MISS',
      generation: 'generation-1',
      latency_ms: 250.123,
      upstream_ms: 200.1,
      gateway_ms: 50.023,
      first_byte_ms: 10.5,
      first_token_ms: 20,
      request_bytes: 11,
      response_bytes: 22,
      prompt_tokens: 1,
      completion_tokens: 2,
      total_tokens: 3,
      cached_tokens: 4,
      cache_write_tokens: 5,
      reasoning_tokens: 6,
      input_audio_tokens: 7,
      output_audio_tokens: 8,
      usage_estimated: true,
      cost: '0.000123000000',
      lost_cost: '0.000000500000',
      pricing: 'priced',
      price_version: 'v1',
      attempts: 2,
      option: 'config.targets[1]',
      retries: -1,
      tries: `[{"option":"config.targets[1]","provider":"${'p'.repeat(255)}","model":"\\"m\\"","status":504,"error":"upstream_timeout","start_ms":1,"end_ms":30,"lost":true}]`,
      decision: '{"cache":"MISS"}',
      guardrails:
        '[{"name":"guard","hook":"request","verdict":"passed","ms":0.123},' +
        `{"name":${JSON.stringify('a "b\\c"\n')},"hook":"stream","verdict":"refused","ms":0.000}]`,
      limits: ['provider "a" (1 request per minute)'],
      resent: true,
      finish_reason: 'stop',
      dropped: ['seed', 'messages[0].name'],
      metadata: { team: 'a "b"\n' },
      trace_id: 't',
      span_id: 's',
      parent_span_id: 'ps',
      span_name: 'sn',
      client_address: '127.0.0.1',
      user_agent: 'sdk/1.0',
      sdk: 'sdk 1.0',
      source: '',
    } satisfies RequestRow);
  });

  const refusal = new GatewayError('rate_limited', 'Too many.', {
    plugin: 'rate-limit',
    limit: 'key "ours" (1 request per minute)',
  });
  const fromProvider = new GatewayError('upstream_invalid', 'Odd answer.', { source: 'provider' });
  const upstream = { upstreamStartedAt: 1000, upstreamEndedAt: 1001 };
  const cases: [string, Partial<Outcome>, Partial<RequestFacts>, Partial<RequestRow>][] = [
    ['completed', {}, {}, { is_success: true, error_source: '' }],
    ['299 is a success', { status: 299 }, {}, { is_success: true }],
    ['a WebSocket that was relayed is one', { status: 101 }, {}, { is_success: true }],
    [
      'without a config',
      {},
      { option: 'config', retries: 0 },
      { option: '', retries: 0, tries: '', decision: '' },
    ],
    ['300 is none', { status: 300 }, {}, { is_success: false, error_source: '' }],
    [
      'cancelled in mid-answer',
      { kind: 'cancelled', status: 200 },
      {},
      { is_success: false, outcome: 'cancelled' },
    ],
    [
      'refused by a plugin',
      { kind: 'refused', status: 429, error: refusal },
      {},
      {
        error_code: 'rate_limited',
        error_source: 'gateway',
        error_message: 'Too many.',
        plugin: 'rate-limit',
        limits: ['key "ours" (1 request per minute)'],
      },
    ],
    [
      'refused for a limit, after other targets were passed over',
      { kind: 'refused', status: 429, error: refusal },
      { limits: ['another', 'key "ours" (1 request per minute)'] },
      { limits: ['key "ours" (1 request per minute)', 'another'] },
    ],
    [
      'an error that the provider caused',
      { kind: 'failed', status: 502, error: fromProvider },
      upstream,
      { error_source: 'provider', error_code: 'upstream_invalid' },
    ],
    [
      'an error answer of the provider, passed on',
      { status: 404 },
      upstream,
      { error_source: 'provider', error_code: '' },
    ],
    ['an error answer of a plugin', { status: 404 }, {}, { error_source: '' }],
    [
      'a call of a tool, whose answer says that it failed',
      {},
      { ...upstream, operation: 'mcp.tools.call', finishReason: 'tool_error', answerFailed: true },
      {
        endpoint: 'mcp.tools.call',
        is_success: false,
        error_source: 'provider',
        finish_reason: 'tool_error',
      },
    ],
    [
      'a stream that goes on until one side leaves: its length is no latency',
      { latencyMs: 5 },
      { upstreamStartedAt: 100, upstreamEndedAt: 900, openSince: 105 },
      { latency_ms: 5, upstream_ms: 800, gateway_ms: 0 },
    ],
    ['a model that the answer does not name', {}, { modelRequested: 'asked' }, { model: 'asked' }],
    [
      'nothing sent upstream',
      { latencyMs: 5 },
      { firstByteAt: 1004 },
      { upstream_ms: 0, gateway_ms: 5, first_byte_ms: 0 },
    ],
    [
      'the provider never ended',
      { latencyMs: 50 },
      { upstreamStartedAt: 960 },
      { upstream_ms: 40, gateway_ms: 10 },
    ],
    [
      'clocks that disagree',
      { latencyMs: 5 },
      { upstreamStartedAt: 100, upstreamEndedAt: 200 },
      { upstream_ms: 5, gateway_ms: 0 },
    ],
    [
      'long names',
      {},
      { modelRequested: 'm'.repeat(9999), finishReason: 'f'.repeat(9999) },
      { model: 'm'.repeat(512), finish_reason: 'f'.repeat(128) },
    ],
  ];
  for (const [name, outcome, facts, expected] of cases) {
    test(name, async () => {
      const { row } = await log(outcome, { facts });
      for (const [column, value] of Object.entries(expected)) {
        assert.deepEqual(row[column as keyof RequestRow], value, column);
      }
    });
  }

  test('cuts the user agent at 256 characters and no character in two', async () => {
    const { row } = await log({}, { request: { headers: { 'user-agent': `${'a'.repeat(255)}😀` } } });
    assert.equal(row.user_agent, 'a'.repeat(255));
  });

  for (const [name, sensitive, shown] of [
    ['is digested when the request calls it sensitive', 'x-a, User-Agent', /^sha256:[0-9a-f]{64}$/],
    ['is logged when another header is sensitive', 'x-user-agent', /^sdk\/1\.0$/],
  ] as const) {
    test(`the user agent ${name}`, async () => {
      const headers = { 'user-agent': 'sdk/1.0', 'x-service-sensitive-headers': sensitive };
      const { row } = await log({}, { request: { headers } });
      assert.match(row.user_agent, shown);
    });
  }

  test('equal user agents have equal digests', async () => {
    const digest = async (agent: string) => {
      const headers = { 'user-agent': agent, 'x-service-sensitive-headers': 'user-agent' };
      return (await log({}, { request: { headers } })).row.user_agent;
    };
    assert.equal(await digest('a'), await digest('a'));
    assert.notEqual(await digest('a'), await digest('b'));
    assert.equal(await digest(''), '');
  });
});

describe('logger: bodies', () => {
  test('are kept beside the row, with its id and time', async () => {
    const { row, body } = await log(
      { requestBody: sent, responseBody: answered },
      { facts: { organisationId: 'o', workspaceId: 'w' } },
    );
    assert.deepEqual(body, {
      id: row.id,
      created_at: row.created_at,
      organisation_id: 'o',
      workspace_id: 'w',
      request: '{"model":"m"}',
      response: '{"id":"1"}',
      request_truncated: false,
      response_truncated: false,
      log_format: 'json',
      request_headers: '{}',
    } satisfies BodyRow);
  });

  const both = { requestBody: sent, responseBody: answered };
  const unknownKey = new GatewayError('key_invalid', 'No.');
  const none: [string, Partial<Outcome>, { request?: TestRequest; options?: object }][] = [
    ['bodies: false', both, { options: { bodies: false } }],
    ['the debug header says false', both, { request: { headers: { 'x-service-debug': 'false' } } }],
    ['it says so in capitals', both, { request: { headers: { 'x-service-debug': 'False' } } }],
    ['the caller is not known', { ...both, kind: 'refused', status: 401, error: unknownKey }, {}],
    ['there are none', {}, {}],
    ['both are empty', { requestBody: Buffer.alloc(0), responseBody: Buffer.alloc(0) }, {}],
  ];
  for (const [name, outcome, setup] of none) {
    test(`none when ${name}`, async () => assert.equal((await log(outcome, setup)).body, undefined));
  }

  test('are kept when the debug header says anything else', async () => {
    assert.ok((await log(both, { request: { headers: { 'x-service-debug': 'true' } } })).body);
  });
});

test('logger: a journal that fails on bodies has the row already, and a reload keeps writing to the same one', async () => {
  const { scope, journal } = testScope();
  const failing = Object.assign(Object.create(journal) as typeof journal, {
    append(table: 'requests' | 'bodies', line: JournalLine) {
      if (table === 'bodies') throw new Error('disk full');
      journal.append(table, line);
    },
  });
  const before = await logger.create({}, { ...scope, journal: failing });
  assert.throws(() => before.settled?.(new TestContext({}), testOutcome({ requestBody: sent })), /disk full/);
  const after = await logger.create({}, scope);
  await after.settled?.(new TestContext({}), testOutcome());
  assert.equal(journal.lines.requests.length, 2);
});

test('logger: options', () => {
  assert.equal(optionErrors(logger, { bodies: false, max_body_bytes: 1024 }), '');
  assert.match(optionErrors(logger, { max_body_bytes: 1023 }), />= 1024/);
  assert.match(optionErrors(logger, { max_body_bytes: 262_145 }), /<= 262144/);
  assert.match(optionErrors(logger, { body: true }), /additional/);
  assert.equal(logger.capabilities?.keepsResponseBytes, 262_144);
});

describe('logger: JSON bodies', () => {
  const request = '{"seed":9223372036854775807, "text":"a \\"quoted\\" ü"}';
  const response = '{"id":"1","usage":{"total_tokens":3}}';
  const bodies = (change: Partial<Outcome> = {}) => ({
    requestBody: Buffer.from(request),
    responseBody: Buffer.from(response),
    requestIsJson: true,
    responseIsJson: true,
    ...change,
  });
  const lines = async (outcome: Partial<Outcome>, options: object = {}) => {
    const { scope, journal } = testScope();
    const hooks = await logger.create(options, scope);
    await hooks.settled?.(new TestContext({}), testOutcome(outcome));
    return journal.lines.bodies;
  };

  test('are embedded as they are, digits and spacing included', async () => {
    const [line] = await lines(bodies());
    assert.ok(line?.includes(`"request":${request},"response":${response},"log_format":"json"`));
  });

  test('that span lines are escaped into one', async () => {
    const spanning = '{\n"a":1}';
    const [line] = await lines(bodies({ requestBody: Buffer.from(spanning) }));
    assert.equal((JSON.parse(line ?? '') as BodyRow).request, spanning);
    assert.ok(!line?.includes('\n'));
  });

  test('with bytes that are no UTF-8 are kept like any other', async () => {
    const broken = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff]), Buffer.from('"}')]);
    const [line] = await lines(bodies({ requestBody: broken }));
    const row = JSON.parse(line ?? '') as BodyRow;
    assert.deepEqual([row.log_format, row.request], ['base64', broken.toString('base64')]);
  });

  test('longer than the bound are cut like any other', async () => {
    const long = `{"a":"${'x'.repeat(2000)}"}`;
    const [line] = await lines(bodies({ requestBody: Buffer.from(long) }), {
      max_body_bytes: 1024,
    });
    const row = JSON.parse(line ?? '') as BodyRow;
    assert.deepEqual([row.request.length, row.request_truncated], [1024, true]);
  });
});
