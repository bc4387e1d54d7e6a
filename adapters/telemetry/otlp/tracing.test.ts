import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
  type Line,
} from '../../../core/lifecycle/recording-services.test-support.ts';
import { withoutStore } from '../../../core/organisation/without-store.ts';
import type { SecuritySettings } from '../../../core/ports/organisation-settings.ts';
import type { OtlpSettings } from '../../../core/base/trace-context.ts';
import type { RedactionRuleOption } from '../../../core/redaction/redaction-options.ts';
import logger from '../../../plugins/logger/index.ts';
import { providerPlugin, startTestGateway } from '../../../tests/kit/gateway-kit.ts';
import { send, startUpstream, type Answering } from '../../../tests/kit/http-kit.ts';
import { startCollector } from '../../../tests/kit/otlp-collector.ts';
import { createOtlpTracer } from './create-tracer.ts';

const answer = {
  id: '1',
  object: 'chat.completion',
  model: 'gpt-x-2026',
  usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'canary-answer' } }],
};
const ask = {
  model: 'gpt-x',
  messages: [
    { role: 'system', content: 'canary-system' },
    { role: 'user', content: [{ type: 'text', text: 'canary-question' }] },
  ],
};

/** A gateway whose requests are told to a collector, and the tracer between them. */
async function start(
  t: TestContext,
  {
    settings = {},
    mode = 'full',
    redact = [],
    collect,
    provide = (_, response) => void response.end(JSON.stringify(answer)),
  }: {
    settings?: Partial<OtlpSettings>;
    mode?: SecuritySettings['logging']['mode'];
    redact?: readonly RedactionRuleOption[];
    collect?: Parameters<typeof startCollector>[1];
    provide?: Answering;
  } = {},
) {
  const collector = await startCollector(t, collect);
  const upstream = await startUpstream(t, provide);
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const tracer = createOtlpTracer(
    {
      url: `${collector.url}/v1/traces`,
      headers: { authorization: 'Bearer collector-canary' },
      service_name: 'weir-test',
      resource: { 'deployment.environment': 'ci' },
      sample_ratio: 1,
      content: false,
      timeout_ms: 5000,
      queue: 100,
      ...settings,
    },
    {
      clock: realClock,
      log: recordingLog(lines),
      metrics,
      random: () => 0,
      directory: { settingsIn: () => ({ ...withoutStore.settingsIn('', ''), logging: { mode } }) },
    },
  );
  const gateway = await startTestGateway(t, {
    plugins: [providerPlugin({ default: 'up' }), { plugin: logger, options: { redact } }],
    providers: { up: { base_url: upstream.url, api_key: 'sk-canary' } },
    configs: {
      twice: {
        retry: { attempts: 1, on_status_codes: [503], use_retry_after_headers: true },
        provider: 'up',
      },
    },
    onSettled: (exchange, outcome) => tracer.settled(exchange, outcome, exchange.startedMonotonic),
  });
  let sent = 0;
  const chat = async (headers: Readonly<Record<string, string>> = {}, body: unknown = ask) => {
    const received = await send(gateway.url, {
      path: '/v1/chat/completions?key=query-canary',
      headers,
      body,
    });
    await gateway.untilSettled(++sent);
    return received;
  };
  const count = (result: string): number =>
    metrics.values.get(`weir_otlp_spans_total{result=${result}}`) ?? 0;
  return { chat, collector, tracer, count, lines, upstream };
}

describe('tracing to a collector', () => {
  test('a request is a span, with a child for the provider, in one batch of its service', async (t) => {
    const { chat, collector, tracer, upstream } = await start(t);
    const { headers } = await chat();
    await tracer.close(5000);
    const [own, attempt, ...others] = collector.spans();
    assert.deepEqual(others, []);
    assert.ok(own && attempt);
    assert.equal(own.attributes['weir.request.id'], headers['x-service-request-id']);
    assert.deepEqual(
      [own.name, own.attributes['gen_ai.response.model'], own.attributes['gen_ai.usage.output_tokens']],
      ['chat gpt-x', 'gpt-x-2026', 4],
    );
    assert.deepEqual(own.attributes['gen_ai.response.finish_reasons'], ['stop']);
    assert.deepEqual([own.kind, attempt.kind, attempt.parentSpanId], [2, 3, own.spanId]);
    assert.ok(
      own.startMs <= attempt.startMs && attempt.startMs <= attempt.endMs && attempt.endMs <= own.endMs,
    );
    const { 'server.address': address, 'server.port': port } = attempt.attributes;
    assert.equal([address, port].join(':'), upstream.host);
    const { 'service.instance.id': instance, ...resource } = collector.resource();
    assert.deepEqual(resource, { 'service.name': 'weir-test', 'deployment.environment': 'ci' });
    assert.match(String(instance), /^[0-9a-f-]{36}$/);
    const [batch] = collector.requests;
    assert.deepEqual([batch?.method, batch?.url], ['POST', '/v1/traces']);
    assert.deepEqual(
      [batch?.headers['content-type'], batch?.headers['authorization']],
      ['application/json', 'Bearer collector-canary'],
    );
  });

  test('neither what was said nor any credential is in a span', async (t) => {
    const { chat, collector, tracer } = await start(t);
    await chat({
      authorization: 'Bearer client-canary',
      'x-api-key': 'header-canary',
      cookie: 'cookie-canary',
      'x-service-metadata': '{"user":"metadata-canary"}',
      baggage: 'a=baggage-canary',
    });
    await chat({}, { model: 'gpt-x', messages: 'canary-broken' });
    await tracer.close(5000);
    assert.ok(collector.spans().length >= 3);
    assert.doesNotMatch(collector.requests.map(({ body }) => body.toString()).join(), /canary/);
  });

  test('with content, spans hold the conversation, and still no credential', async (t) => {
    const { chat, collector, tracer } = await start(t, { settings: { content: true } });
    await chat();
    await tracer.close(5000);
    const [own] = collector.spans();
    const read = (name: string): unknown => JSON.parse(String(own?.attributes[name]));
    assert.deepEqual(read('gen_ai.input.messages'), [
      { role: 'system', parts: [{ type: 'text', content: 'canary-system' }] },
      { role: 'user', parts: [{ type: 'text', content: 'canary-question' }] },
    ]);
    assert.deepEqual(read('gen_ai.output.messages'), [
      { role: 'assistant', parts: [{ type: 'text', content: 'canary-answer' }], finish_reason: 'stop' },
    ]);
    assert.doesNotMatch(
      collector.requests.map(({ body }) => body.toString()).join(),
      /sk-canary|query-canary/,
    );
  });

  for (const [name, mode, headers] of [
    ['a workspace keeps no bodies', 'metadata', {}],
    ['the request says so', 'full', { 'x-service-debug': 'false' }],
  ] as const) {
    test(`with content, spans hold none when ${name}`, async (t) => {
      const { chat, collector, tracer } = await start(t, { settings: { content: true }, mode });
      await chat(headers);
      await tracer.close(5000);
      assert.equal(collector.spans().length, 2);
      assert.doesNotMatch(collector.requests.map(({ body }) => body.toString()).join(), /canary/);
    });
  }

  test('with content, what the logger redacts is in no span', async (t) => {
    const redact = [
      { path: 'messages[*].content[*]', replacement: '-' },
      { expression: 'canary-(system|answer|id-\\d+)', replacement: '+' },
    ];
    const { chat, collector, tracer } = await start(t, { settings: { content: true }, redact });
    await chat();
    await tracer.close(5000);
    const [own] = collector.spans();
    const said = (name: string): string[] => {
      const messages = JSON.parse(String(own?.attributes[name])) as { parts: { content: string }[] }[];
      return messages.flatMap(({ parts }) => parts.map(({ content }) => content));
    };
    assert.deepEqual(said('gen_ai.input.messages'), ['+', '-']);
    assert.deepEqual(said('gen_ai.output.messages'), ['+']);
    assert.doesNotMatch(collector.requests.map(({ body }) => body.toString()).join(), /canary/);
  });

  test('of a stream, whatever pieces it came in, of a refusal and of a path', async (t) => {
    const redact = [{ pattern: 'email' as const }, { expression: 'canary-[a-z]+' }];
    const pieces = ['canary-', 'ans', 'wer ann@exa', 'mple.com ends'];
    const provide: Answering = (_, response) => {
      response.setHeader('content-type', 'text/event-stream');
      for (const content of pieces)
        response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`);
      response.end('data: [DONE]\n\n');
    };
    const { chat, collector, tracer } = await start(t, { settings: { content: true }, redact, provide });
    await chat({}, { ...ask, stream: true });
    await chat({ 'x-service-provider': 'canary-nobody' });
    await tracer.close(5000);
    const own = collector.spans().filter(({ kind }) => kind === 2);
    const answered = String(own[0]?.attributes['gen_ai.output.messages']);
    assert.match(answered, /"content":"\[redacted\] \[redacted\] ends"/);
    assert.match(own[1]?.status?.message ?? '', /\[redacted\]/);
    assert.doesNotMatch(collector.requests.map(({ body }) => body.toString()).join(), /canary|ann@/);
  });

  test('a long conversation is cut at whole messages, the last ones stay', async (t) => {
    const { chat, collector, tracer } = await start(t, { settings: { content: true } });
    const messages = Array.from({ length: 20 }, (_, n) => ({
      role: 'user',
      content: `${n} ${'x'.repeat(3000)}`,
    }));
    await chat({}, { model: 'm', messages });
    await chat({}, { model: 'm', messages: [{ role: 'user', content: 'y'.repeat(100_000) }] });
    await tracer.close(5000);
    const told = collector
      .spans()
      .filter(({ kind }) => kind === 2)
      .map(({ attributes }) => String(attributes['gen_ai.input.messages']));
    assert.ok(told.every((text) => text.length <= 32_768));
    const [many, one] = told.map((text) => JSON.parse(text) as { parts: { content: string }[] }[]);
    assert.deepEqual([many?.length, many?.at(-1)?.parts[0]?.content.slice(0, 3)], [10, '19 ']);
    assert.match(one?.[0]?.parts[0]?.content ?? '', /^y{4096}$/);
  });

  test('each attempt of a plan is a child', async (t) => {
    let asked = 0;
    const { chat, collector, tracer } = await start(t, {
      provide(_, response) {
        response.statusCode = asked++ === 0 ? 503 : 200;
        response.setHeader('retry-after-ms', '1');
        response.end(JSON.stringify(answer));
      },
    });
    assert.equal((await chat({ 'x-service-config': 'twice' })).status, 200);
    await tracer.close(5000);
    const [own, ...attempts] = collector.spans();
    assert.deepEqual(
      attempts.map(({ attributes, parentSpanId, status }) => [
        ...[attributes['http.response.status_code'], attributes['weir.attempt.lost'] ?? false],
        ...[status?.code, parentSpanId === own?.spanId],
      ]),
      [
        [503, true, 2, true],
        [200, false, undefined, true],
      ],
    );
    assert.deepEqual([own?.attributes['weir.attempts'], own?.attributes['weir.config']], [2, 'twice']);
  });

  test('the flag of a caller’s trace decides, else the share', async (t) => {
    const { chat, collector, tracer } = await start(t, { settings: { sample_ratio: 0 } });
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    await chat();
    await chat({ traceparent: `00-${traceId}-00f067aa0ba902b7-00` });
    await chat({ traceparent: `00-${traceId}-00f067aa0ba902b7-01`, tracestate: 'v=1' });
    await tracer.close(5000);
    const [own, attempt, ...others] = collector.spans();
    assert.deepEqual(others, []);
    assert.deepEqual(
      [own?.traceId, own?.parentSpanId, own?.traceState, attempt?.traceId],
      [traceId, '00f067aa0ba902b7', 'v=1', traceId],
    );
  });

  test('a collector that is busy gets the batch again when it asks to, and nobody waits for it', async (t) => {
    const { chat, collector, tracer, count, lines } = await start(t, {
      collect(response, batch) {
        if (batch > 1) return void response.end('{"partialSuccess":{}}');
        response.writeHead(503, { 'retry-after': '0' }).end('later');
      },
    });
    assert.equal((await chat()).status, 200);
    await collector.untilBatches(2);
    await tracer.close(5000);
    assert.deepEqual([collector.spans().length, count('exported'), count('failed')], [2, 2, 0]);
    assert.match(lines[0]?.message ?? '', /tried again: status 503/);
  });

  test('a collector that takes only some says how many', async (t) => {
    const { chat, tracer, count, lines } = await start(t, {
      collect: (response) =>
        void response.end('{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no room"}}'),
    });
    await chat();
    await tracer.close(5000);
    assert.deepEqual([count('exported'), count('rejected')], [1, 1]);
    assert.match(lines[0]?.message ?? '', /rejected spans: no room/);
  });

  test('a collector that refuses, or is not there, costs spans and no request; no line tells its credential', async (t) => {
    const refusing = await start(t, { collect: (response) => void response.writeHead(401).end('who?') });
    assert.equal((await refusing.chat()).status, 200);
    await refusing.tracer.close(5000);
    assert.equal(refusing.count('failed'), 2);
    const gone = await start(t, { settings: { url: 'http://127.0.0.1:9/v1/traces' } });
    assert.equal((await gone.chat()).status, 200);
    await gone.tracer.close(5000);
    assert.equal(gone.count('failed'), 2);
    assert.match(gone.lines[0]?.message ?? '', /ECONNREFUSED/);
    assert.doesNotMatch(JSON.stringify([refusing.lines, gone.lines]), /canary/);
  });

  test('a collector that never answers is not waited for beyond the deadline, and its socket is closed', async (t) => {
    const { chat, collector, tracer, count } = await start(t, {
      collect: () => undefined,
      settings: { queue: 1 },
    });
    await chat();
    assert.equal(count('dropped'), 1, 'the queue holds one');
    await tracer.close(50);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(collector.open.size, 0);
    assert.equal(count('failed'), 1);
  });

  test('a batch that takes too long is broken off', async (t) => {
    const { chat, tracer, lines, count } = await start(t, {
      collect: () => undefined,
      settings: { timeout_ms: 100 },
    });
    await chat();
    await tracer.close(5000);
    assert.equal(count('failed'), 2);
    assert.match(lines[0]?.message ?? '', /no answer within 100 ms/);
  });
});
