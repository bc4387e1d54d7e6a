import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { noUsage } from '../../../core/dialects/usage.ts';
import type { Outcome } from '../../../core/pipeline/context.ts';
import type { RequestFacts, AttemptRecord } from '../../../core/pipeline/facts.ts';
import { readSpan } from '../../../tests/kit/otlp-collector.ts';
import { TestContext, testOutcome, testStart, type TestRequest } from '../../../tests/kit/plugin-kit.ts';
import { requestSpans } from './request-spans.ts';

const ids = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), parentSpanId: '' };

function spansOf(facts: Partial<RequestFacts>, outcome: Partial<Outcome> = {}, request: TestRequest = {}) {
  const context = new TestContext(request);
  Object.assign(context.facts, facts);
  const settled = {
    context,
    outcome: testOutcome(outcome),
    acceptedAt: 1000,
    ids,
    content: undefined,
    redaction: undefined,
  };
  const spans = requestSpans(settled).map((span) => readSpan(span));
  return { context, spans, own: spans[0]!, attempts: spans.slice(1) };
}

describe('the span of a request', () => {
  test('says what the GenAI conventions ask for, and what the gateway knows beside', () => {
    const { context, own, attempts } = spansOf(
      {
        aiService: 'azure-openai',
        provider: '@mine',
        upstreamHost: 'h.example.com:8443',
        stream: true,
        modelRequested: 'asked',
        modelAnswered: 'answered',
        finishReason: 'stop,length',
        attempts: 1,
        organisationId: 'o',
        workspaceId: 'w',
        apiKeyId: 'k',
        config: 'c',
        cacheStatus: 'MISS',
        upstreamStartedAt: 1010,
        firstTokenAt: 1260,
        upstreamEndedAt: 1900,
        prompt: 'p',
        usage: { ...noUsage, promptTokens: 7, completionTokens: 9, cachedTokens: 2, reasoningTokens: 3 },
      },
      { latencyMs: 950.25, price: { cost: '0.000123000000', status: 'priced', version: 'v' } },
    );
    assert.deepEqual(own, {
      traceId: ids.traceId,
      spanId: ids.spanId,
      parentSpanId: undefined,
      traceState: undefined,
      name: 'chat asked',
      kind: 2,
      startMs: testStart,
      endMs: testStart + 950.25,
      status: undefined,
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'azure.ai.openai',
        'gen_ai.request.model': 'asked',
        'gen_ai.request.stream': true,
        'gen_ai.response.model': 'answered',
        'gen_ai.response.finish_reasons': ['stop', 'length'],
        'gen_ai.response.time_to_first_chunk': 0.25,
        'gen_ai.usage.input_tokens': 7,
        'gen_ai.usage.output_tokens': 9,
        'gen_ai.usage.cache_read.input_tokens': 2,
        'gen_ai.usage.reasoning.output_tokens': 3,
        'gen_ai.prompt.name': 'p',
        'server.address': 'h.example.com',
        'server.port': 8443,
        'http.request.method': 'POST',
        'url.path': '/v1/chat/completions',
        'http.response.status_code': 200,
        'weir.request.id': context.id,
        'weir.outcome': 'completed',
        'weir.organisation.id': 'o',
        'weir.workspace.id': 'w',
        'weir.api_key.id': 'k',
        'weir.provider': '@mine',
        'weir.config': 'c',
        'weir.cache.status': 'MISS',
        'weir.generation': 'generation-1',
        'weir.attempts': 1,
        'weir.cost.usd': 0.000123,
      },
    });
    assert.equal(attempts.length, 1);
  });

  test('of a refusal is an error with its code, and without its message', () => {
    const error = new GatewayError('hooks_failed', 'The prompt says "canary".', { plugin: 'p' });
    const { own, attempts } = spansOf({}, { kind: 'refused', status: 446, error });
    assert.deepEqual(own.status, { code: 2 });
    assert.equal(own.attributes['error.type'], 'hooks_failed');
    assert.equal(own.name, 'chat', 'nobody named a model');
    assert.deepEqual(attempts, [], 'nobody was asked');
  });

  const endings: readonly [string, Partial<Outcome>, number | undefined, string | undefined][] = [
    ['an error answer that was passed on', { status: 404 }, 2, '404'],
    [
      'a failure',
      { kind: 'failed', status: 502, error: new GatewayError('upstream_reset', 'm') },
      2,
      'upstream_reset',
    ],
    [
      'a client that left',
      { kind: 'cancelled', status: 499, error: new GatewayError('client_closed', 'm') },
      undefined,
      'client_closed',
    ],
    ['an answer', {}, undefined, undefined],
  ];
  for (const [name, outcome, code, type] of endings) {
    test(`of ${name}`, () => {
      const { own } = spansOf({}, outcome);
      assert.equal(own.status?.code, code);
      assert.equal(own.attributes['error.type'], type);
    });
  }

  test('keeps the state of the caller’s trace, and none of a trace that begins here', () => {
    const headers = { tracestate: 'a=1' };
    assert.equal(spansOf({ sampled: true }, {}, { headers }).own.traceState, 'a=1');
    assert.equal(spansOf({}, {}, { headers }).own.traceState, undefined);
  });

  test('says nothing of query, headers and metadata', () => {
    const { spans } = spansOf(
      { metadata: { user: 'canary' } },
      {},
      { query: '?key=canary', headers: { authorization: 'Bearer canary', 'x-other': 'canary' } },
    );
    assert.doesNotMatch(JSON.stringify(spans), /canary/);
  });
});

describe('the spans of attempts', () => {
  const made = (fields: Partial<AttemptRecord>): AttemptRecord => ({
    option: 'config.targets[0]',
    provider: 'one',
    model: 'm',
    status: 200,
    error: '',
    startedMs: 0,
    endedMs: 10,
    lost: false,
    ...fields,
  });

  test('the only one is told by the facts', () => {
    const { attempts, own } = spansOf(
      {
        provider: 'up',
        aiService: 'openai',
        modelRequested: 'm',
        attempts: 1,
        upstreamHost: 'h',
        upstreamStartedAt: 1005,
        upstreamEndedAt: 1045,
      },
      { latencyMs: 50 },
    );
    const [one] = attempts;
    assert.deepEqual(
      [one?.name, one?.kind, one?.parentSpanId, one?.traceId],
      ['chat m', 3, own.spanId, own.traceId],
    );
    assert.deepEqual([one!.startMs - testStart, one!.endMs - testStart], [5, 45]);
    assert.deepEqual(one?.attributes, {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'm',
      'server.address': 'h',
      'http.response.status_code': 200,
      'weir.provider': 'up',
      'weir.attempt.number': 1,
    });
    const unended = spansOf({ upstreamStartedAt: 1005 }, { latencyMs: 50 }).attempts[0];
    assert.equal(unended!.endMs - testStart, 50);
  });

  test('each attempt of a plan has its own, a target that was passed over has none', () => {
    const { attempts, own } = spansOf(
      {
        provider: 'two',
        aiService: 'openai',
        upstreamHost: 'h:81',
        attempts: 2,
        upstreamStartedAt: 1020,
        upstreamEndedAt: 1090,
        attemptRecords: [
          made({ status: 503, lost: true }),
          made({ provider: 'idle', status: 429, error: 'provider_rate_limited', skipped: 'no room' }),
          made({ provider: 'slow', status: 0, error: 'lost_race', lost: true }),
          made({ provider: 'two', option: 'config.targets[1]', startedMs: 20, endedMs: 40 }),
        ],
      },
      { latencyMs: 100 },
    );
    const told = attempts.map(({ attributes: a, status, startMs, endMs }) => [
      ...[a['weir.provider'], a['error.type'], a['weir.attempt.lost'] ?? false, status?.code],
      ...[startMs - testStart, endMs - testStart, a['server.port']],
    ]);
    assert.deepEqual(told, [
      ['one', '503', true, 2, 0, 10, undefined],
      ['slow', 'lost_race', true, undefined, 0, 10, undefined],
      ['two', undefined, false, undefined, 20, 90, 81],
    ]);
    assert.deepEqual(
      attempts.map(({ attributes }) => attributes['weir.attempt.number']),
      [1, 2, 3],
    );
    const spanIds = [own, ...attempts].map(({ spanId }) => spanId);
    assert.equal(new Set(spanIds).size, 4);
    for (const spanId of spanIds) assert.match(spanId, /^[0-9a-f]{16}$/);
    assert.ok(attempts.every(({ attributes }) => attributes['gen_ai.usage.input_tokens'] === undefined));
  });
});
