import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Answer } from '../../../core/pipeline/answer.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { Prices } from '../../../core/ports/prices.ts';
import type { BodyRow, RequestRow } from '../../../core/ports/request-row.ts';
import { compileRedaction, type Redaction } from '../../../core/redaction/redaction.ts';
import { TestContext, testKey, testRouteInput, testScope } from '../../../tests/kit/plugin-kit.ts';
import { otelRoutes } from './routes.ts';

type Attributes = Readonly<Record<string, unknown>>;

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';
const start = 1_763_000_000_000_000_000n;

function valueOf(value: unknown): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number')
    return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  if (Array.isArray(value)) return { arrayValue: { values: value.map(valueOf) } };
  return { kvlistValue: { values: attributesOf(value as Attributes) } };
}

function attributesOf(attributes: Attributes): object[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: valueOf(value) }));
}

function span(attributes: Attributes = {}, rest: object = {}): object {
  return {
    traceId,
    spanId,
    name: 'chat gpt-x',
    startTimeUnixNano: String(start),
    endTimeUnixNano: String(start + 1_234_567_000n),
    attributes: attributesOf(attributes),
    ...rest,
  };
}

function exported(spans: readonly unknown[], resource: Attributes = {}): object {
  const scope = { name: 'openinference', version: '1.2' };
  return {
    resourceSpans: [{ resource: { attributes: attributesOf(resource) }, scopeSpans: [{ scope, spans }] }],
  };
}

const prices: Prices = {
  price: (usage, provider, model) =>
    usage === undefined
      ? { cost: '0', status: 'none', version: '' }
      : {
          cost: `${usage.totalTokens}.5`,
          status: 'priced',
          version: `${typeof provider === 'string' ? provider : ''}/${model}`,
        },
  parts: () => undefined,
  rates: () => undefined,
};

function ingest(mode: 'full' | 'metadata' = 'full', redaction?: Redaction) {
  const { scope: plain, journal, clock } = testScope({ prices });
  const settings = { ...plain.directory.settingsIn('', ''), logging: { mode } };
  const scope = { ...plain, directory: { ...plain.directory, settingsIn: () => settings } };
  const [route] = otelRoutes(scope, redaction);
  assert.ok(route);
  const post = async (
    body: unknown,
    { key = testKey(), headers = {} }: { key?: KeyRecord; headers?: Record<string, string> } = {},
  ) => {
    const context = new TestContext({ body, headers });
    const answer = (await route.handle(testRouteInput({ context, key }))) as Answer;
    assert.ok(Buffer.isBuffer(answer.body));
    return JSON.parse(answer.body.toString('utf8')) as unknown;
  };
  const rows = (): Partial<RequestRow>[] => journal.rows('requests');
  const bodies = (): BodyRow[] => journal.rows('bodies');
  return { post, rows, bodies, journal, clock };
}

describe('OTLP spans as rows of the log', () => {
  test('the attributes of the GenAI conventions fill the columns', async () => {
    const { post, rows, bodies } = ingest();
    const attributes = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'aws.bedrock',
      'gen_ai.request.model': 'asked',
      'gen_ai.response.model': 'answered',
      'gen_ai.request.stream': true,
      'gen_ai.usage.input_tokens': 10,
      'gen_ai.usage.output_tokens': 20,
      'gen_ai.usage.cache_read.input_tokens': 3,
      'gen_ai.usage.reasoning.output_tokens': 4,
      'gen_ai.response.finish_reasons': ['stop', 'length'],
      'gen_ai.response.time_to_first_chunk': 0.25,
      'server.address': 'h',
      'server.port': 8443,
      'url.path': '/model/x?secret=1',
      'enduser.id': 'jo',
      tenant: 'acme',
    };
    const parent = { parentSpanId: 'ab'.repeat(8) };
    assert.deepEqual(
      await post(exported([span(attributes, parent)], { 'service.name': 'shop', region: 'eu' })),
      {
        partialSuccess: {},
      },
    );
    const [row, ...others] = rows();
    assert.deepEqual(others, []);
    const { id, ...known } = row ?? {};
    assert.match(String(id), /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.deepEqual(known, {
      created_at: '2026-11-21 09:00:00.000',
      organisation_id: 'org-1',
      workspace_id: 'ws-1',
      api_key_id: 'key-1',
      source: 'otel',
      endpoint: 'chat.completions',
      stream: true,
      status: 200,
      outcome: 'completed',
      is_success: true,
      ai_service: 'bedrock',
      provider: 'bedrock',
      model_requested: 'asked',
      model: 'answered',
      upstream_host: 'h:8443',
      path: '/model/x',
      latency_ms: 1234.567,
      upstream_ms: 1234.567,
      first_token_ms: 250,
      finish_reason: 'stop,length',
      prompt_tokens: 10,
      completion_tokens: 20,
      total_tokens: 30,
      cached_tokens: 3,
      reasoning_tokens: 4,
      cost: '30.5',
      pricing: 'priced',
      price_version: 'bedrock/answered',
      metadata: { _user: 'jo', 'service.name': 'shop', tenant: 'acme', region: 'eu' },
      trace_id: traceId,
      span_id: spanId,
      parent_span_id: 'ab'.repeat(8),
      span_name: 'chat gpt-x',
      sdk: 'openinference 1.2',
    });
    assert.deepEqual(bodies(), []);
  });

  const told: readonly [string, Attributes, object, Partial<RequestRow>][] = [
    [
      'a cost that is told counts',
      { 'gen_ai.usage.cost': 0.25 },
      {},
      { cost: '0.250000000000', price_version: 'reported' },
    ],
    [
      'older names',
      { 'gen_ai.system': 'OpenAI', 'gen_ai.usage.prompt_tokens': '7' },
      {},
      { ai_service: 'openai', prompt_tokens: 7 },
    ],
    [
      'an error',
      { 'error.type': 'timeout' },
      { status: { code: 2, message: 'late' } },
      {
        status: 500,
        outcome: 'failed',
        error_code: 'timeout',
        error_message: 'late',
        error_source: 'provider',
      },
    ],
    ['an error by name', {}, { status: { code: 'STATUS_CODE_ERROR' } }, { status: 500 }],
    ['the status of HTTP', { 'http.response.status_code': 429 }, {}, { status: 429, outcome: 'failed' }],
    ['a status that is none', { 'http.response.status_code': 99_999 }, {}, { status: 200 }],
    [
      'an operation of another kind',
      { 'gen_ai.operation.name': 'execute_tool' },
      {},
      { endpoint: 'execute_tool' },
    ],
    ['tokens that are none', { 'gen_ai.usage.input_tokens': -5 }, {}, { pricing: 'none' }],
    ['text that no store takes', { 'gen_ai.request.model': 'a\0b' }, {}, { model: 'ab' }],
    ['ids in capitals', {}, { traceId: traceId.toUpperCase() }, { trace_id: traceId }],
    ['times as numbers', {}, { startTimeUnixNano: 1_000_000, endTimeUnixNano: 3_000_000 }, { latency_ms: 2 }],
  ];
  for (const [name, attributes, rest, expected] of told) {
    test(name, async () => {
      const { post, rows } = ingest();
      await post(exported([span(attributes, rest)]));
      const [row] = rows();
      assert.ok(row);
      for (const [column, value] of Object.entries(expected))
        assert.deepEqual(row[column as keyof RequestRow], value, column);
    });
  }

  test('metadata holds 20 keys of 128 characters, and never what was said', async () => {
    const { post, rows } = ingest();
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`k${n}`, n]));
    const said = { 'gen_ai.input.messages': 'canary', 'gen_ai.prompt.0.content': 'canary' };
    await post(exported([span({ long: 'x'.repeat(500), ['n'.repeat(500)]: 1, ...said, ...many })]));
    const { metadata = {} } = rows()[0] ?? {};
    assert.equal(Object.keys(metadata).length, 20);
    assert.equal(metadata['long']?.length, 128);
    assert.ok(Object.hasOwn(metadata, 'n'.repeat(128)));
    assert.doesNotMatch(JSON.stringify(metadata), /canary/);
  });

  const asked = [{ role: 'user', parts: [{ type: 'text', content: 'q' }] }];
  const answered = [{ role: 'assistant', parts: [{ type: 'text', content: 'a' }] }];
  const conversations: readonly [string, Attributes, object, unknown, unknown][] = [
    [
      'as JSON texts',
      { 'gen_ai.input.messages': JSON.stringify(asked), 'gen_ai.output.messages': JSON.stringify(answered) },
      {},
      { messages: asked },
      { messages: answered },
    ],
    [
      'as values',
      { 'gen_ai.input.messages': asked, 'gen_ai.system_instructions': 's' },
      {},
      { system: 's', messages: asked },
      undefined,
    ],
    [
      'in an event',
      {},
      {
        events: [
          {
            name: 'gen_ai.client.inference.operation.details',
            attributes: attributesOf({ 'gen_ai.output.messages': answered }),
          },
        ],
      },
      {},
      { messages: answered },
    ],
    [
      'as numbered attributes',
      {
        'gen_ai.prompt.1.role': 'user',
        'gen_ai.prompt.1.content': 'q',
        'gen_ai.prompt.0.role': 'system',
        'gen_ai.completion.0.content': 'a',
      },
      {},
      { messages: [{ role: 'system' }, { role: 'user', content: 'q' }] },
      { messages: [{ content: 'a' }] },
    ],
  ];
  for (const [name, attributes, rest, request, response] of conversations) {
    test(`a conversation ${name} is kept beside the row`, async () => {
      const { post, rows, bodies } = ingest();
      await post(exported([span(attributes, rest)]));
      const [body] = bodies();
      assert.ok(body);
      assert.deepEqual([body.id, body.created_at], [rows()[0]?.id, rows()[0]?.created_at]);
      assert.deepEqual(JSON.parse(body.request), request);
      assert.deepEqual(body.response === '' ? undefined : JSON.parse(body.response), response);
      assert.deepEqual([body.log_format, body.request_truncated], ['json', false]);
    });
  }

  for (const [name, key, mode] of [
    ['a key that keeps none', testKey({ defaults: { logBodies: false } }), 'full'],
    ['a workspace that keeps none', testKey(), 'metadata'],
  ] as const) {
    test(`${name} gets rows without what was said`, async () => {
      const { post, rows, bodies } = ingest(mode);
      await post(exported([span({ 'gen_ai.prompt': 'canary' })]), { key });
      assert.deepEqual([rows().length, bodies()], [1, []]);
      assert.doesNotMatch(JSON.stringify(rows()), /canary/);
    });
  }

  test('nothing that the rules of redaction name is written anywhere', async () => {
    const rules = [{ path: 'messages[*].content' }, { pattern: 'email' as const, replacement: '<mail>' }];
    const { post, rows, bodies } = ingest('full', compileRedaction(rules, 'wk_'));
    const said = 'ann@example.com';
    const attributes = {
      'gen_ai.input.messages': JSON.stringify([{ role: 'user', content: said }]),
      'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', content: said, to: said }]),
      'url.path': `/of/${said}`,
      tenant: said,
    };
    await post(exported([span(attributes, { status: { code: 2, message: `no ${said}` } })]));
    const [row] = rows();
    assert.deepEqual(
      [row?.path, row?.error_message, row?.metadata?.['tenant']],
      ['/of/<mail>', 'no <mail>', '<mail>'],
    );
    const [body] = bodies();
    assert.deepEqual(JSON.parse(body?.request ?? ''), {
      messages: [{ role: 'user', content: '[redacted]' }],
    });
    assert.deepEqual(JSON.parse(body?.response ?? ''), {
      messages: [{ role: 'assistant', content: '[redacted]', to: '<mail>' }],
    });
  });

  test('a long conversation is cut and marked', async () => {
    const { post, bodies } = ingest();
    await post(exported([span({ 'gen_ai.prompt': 'x'.repeat(400_000) })]));
    const [body] = bodies();
    assert.deepEqual(
      [body?.request.length, body?.request_truncated, body?.response_truncated],
      [262_144, true, false],
    );
  });
});

describe('what an export answers', () => {
  const unusable: readonly [string, unknown, RegExp][] = [
    ['no trace id', span({}, { traceId: '' }), /traceId/],
    ['a trace id of zeros', span({}, { traceId: '0'.repeat(32) }), /traceId/],
    ['a short span id', span({}, { spanId: 'ab' }), /spanId/],
    ['no end', span({}, { endTimeUnixNano: '0' }), /endTimeUnixNano/],
    ['an end before its start', span({}, { endTimeUnixNano: '5' }), /in that order/],
    ['times that are none', span({}, { startTimeUnixNano: 'today' }), /nanoseconds/],
    ['no members', null, /traceId/],
  ];
  for (const [name, broken, reason] of unusable) {
    test(`a span with ${name} is rejected alone`, async () => {
      const { post, rows } = ingest();
      const { partialSuccess } = (await post(exported([broken, span()]))) as {
        partialSuccess: { rejectedSpans: string; errorMessage: string };
      };
      assert.equal(partialSuccess.rejectedSpans, '1');
      assert.match(partialSuccess.errorMessage, reason);
      assert.equal(rows().length, 1);
    });
  }

  test('1,000 spans are taken, and the rest is rejected', async () => {
    const { post, rows } = ingest();
    const spans = Array.from({ length: 1002 }, (_, n) =>
      span({}, { spanId: (n + 1).toString(16).padStart(16, '0') }),
    );
    assert.deepEqual(await post(exported(spans)), {
      partialSuccess: {
        rejectedSpans: '2',
        errorMessage: 'an export may hold 1000 spans; send the rest in further ones',
      },
    });
    assert.equal(rows().length, 1000);
  });

  test('a span that is sent again is taken once; that of another organisation is another one', async () => {
    const { post, rows } = ingest();
    await post(exported([span(), span()]));
    assert.deepEqual(await post(exported([span()])), { partialSuccess: {} });
    assert.equal(rows().length, 1);
    await post(exported([span()]), { key: testKey({ organisationId: 'org-2' }) });
    assert.equal(rows().length, 2);
    assert.notEqual(rows()[0]?.id, rows()[1]?.id);
  });

  test('a journal without room is a 503 that exporters come back after, and nothing counts as taken', async () => {
    const { post, journal } = ingest();
    const { state } = journal;
    let shed = 0;
    journal.state = (table) => ({ ...state.call(journal, table), shed: shed++ });
    await assert.rejects(post(exported([span()])), {
      code: 'store_unavailable',
      headers: ['retry-after', '5'],
    });
    journal.state = state;
    await post(exported([span()]));
    assert.equal(journal.rows('requests').length, 2);
  });

  const refused: readonly [string, unknown, Record<string, string>, string, RegExp][] = [
    ['no JSON', '{', {}, 'invalid_json', /no valid JSON/],
    ['another object', { spans: [] }, {}, 'invalid_request', /resourceSpans/],
    [
      'another type',
      'a=b',
      { 'content-type': 'text/plain' },
      'body_encoding_unsupported',
      /http\/json or http\/protobuf/,
    ],
    [
      'broken protocol buffers',
      Buffer.from([0x0a, 0x7f]),
      { 'content-type': 'application/x-protobuf' },
      'invalid_request',
      /protocol buffers/,
    ],
    [
      'too many bytes',
      { resourceSpans: [] },
      { 'content-length': '4194305' },
      'body_too_large',
      /smaller batches/,
    ],
  ];
  for (const [name, body, headers, code, message] of refused) {
    test(`${name} is refused`, async () => {
      const { post } = ingest();
      await assert.rejects(post(body, { headers: { 'content-type': 'application/json', ...headers } }), {
        code,
        message,
      });
    });
  }

  test('nothing at all is an export without spans', async () => {
    const { post, rows } = ingest();
    assert.deepEqual(await post({ resourceSpans: [] }), { partialSuccess: {} });
    assert.deepEqual(rows(), []);
  });

  test('other signals are refused, with what to do', () => {
    const [, ...others] = otelRoutes(testScope().scope);
    assert.deepEqual(
      others.map(({ path }) => path),
      ['/otel/v1/logs', '/otel/v1/metrics'],
    );
    for (const { handle } of others)
      assert.throws(() => handle(testRouteInput()), { code: 'not_supported', message: /\/otel\/v1\/traces/ });
  });
});
