// Traces out and in, as an operator sees them: a process with a collector beside it, and an application that sends spans.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import zlib from 'node:zlib';
import { spanRowId } from '../../plugins/management/telemetry/routes.ts';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { send } from '../kit/http-kit.ts';
import { startCollector } from '../kit/otlp-collector.ts';
import { ProtobufWriter } from '../kit/protobuf-writer.ts';
import { eventually, ownerKey, startWeir, stopEverything, temporaryFolder } from '../kit/process-kit.ts';

after(stopEverything);

const teller = 'wk_teller_0123456789abcdef';
const auth = {
  auth: {
    keys: [{ name: 'teller', key: teller, workspace_id: 'ws-a', scopes: ['logs.write', 'logs.view'] }],
  },
};
const yaml = (telemetry?: object, analytics?: string): object => ({
  version: 1,
  ...(telemetry && { telemetry }),
  storage: { journal: { ship_ms: 50 }, ...(analytics !== undefined && { analytics: { url: analytics } }) },
  pipelines: [
    { name: 'admin', match: { routes: 'contributed' }, plugins: [auth, 'management'] },
    { name: 'gateway', match: { path: '/**' }, plugins: [auth, 'provider', 'logger'] },
  ],
});
const chat = (url: string) =>
  send(url, {
    path: '/v1/chat/completions',
    headers: { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' },
    body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'canary' }] },
  });

describe('spans for a collector', () => {
  test('are sent at the latest when the process ends', async (t) => {
    const collector = await startCollector(t);
    const otlp = { url: collector.url, headers: { 'x-token': '${COLLECTOR_TOKEN}' } };
    const weir = await startWeir({ yaml: yaml({ otlp }, 'none:'), env: { COLLECTOR_TOKEN: 'let me in' } });
    assert.equal((await chat(weir.url)).status, 200);
    const { code } = await weir.stop();
    assert.equal(code, 0);
    const [own, attempt] = collector.spans();
    assert.deepEqual([own?.name, attempt?.parentSpanId], ['chat mock-gpt', own?.spanId]);
    assert.deepEqual(
      collector.requests.map(({ url, headers }) => [url, headers['x-token']]),
      [['/v1/traces', 'let me in']],
    );
    assert.doesNotMatch(collector.requests[0]?.body.toString() ?? '', /canary|wk_/);
  });

  test('go where the variables of OpenTelemetry say, and where a reload says from then on', async (t) => {
    const [first, second] = [await startCollector(t), await startCollector(t)];
    const config = path.join(await temporaryFolder(), 'gateway.yaml');
    await writeFile(config, JSON.stringify(yaml({}, 'none:')));
    const weir = await startWeir({
      config,
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: `${first.url}/base/`, OTEL_SERVICE_NAME: 'shop-gateway' },
    });
    await chat(weir.url);
    await writeFile(config, JSON.stringify(yaml({ otlp: { url: `${second.url}/v1/traces` } }, 'none:')));
    await weir.untilStderr('configuration reloaded');
    await first.untilBatches(1);
    await chat(weir.url);
    await weir.stop();
    assert.deepEqual([first.spans().length, second.spans().length], [2, 2]);
    assert.deepEqual([first.requests[0]?.url, second.requests[0]?.url], ['/base/v1/traces', '/v1/traces']);
    assert.equal(first.resource()['service.name'], 'shop-gateway');
  });
});

describe('spans of an application', { skip: chdbMissing }, () => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const times = { startTimeUnixNano: '1763000000000000000', endTimeUnixNano: '1763000000500000000' };
  const attribute = (key: string, value: object): object => ({ key, value });
  const attributes = [
    attribute('gen_ai.provider.name', { stringValue: 'openai' }),
    attribute('gen_ai.request.model', { stringValue: 'gpt-4o' }),
    attribute('gen_ai.usage.input_tokens', { intValue: '1000' }),
    attribute('gen_ai.prompt', { stringValue: 'what was asked' }),
  ];

  test('become entries of the log of their key’s workspace: compressed JSON, and protocol buffers', async () => {
    const weir = await startWeir({ yaml: yaml() });
    const post = (path: string, key: string, type: string, body: Buffer) =>
      send(weir.url, {
        method: 'POST',
        path,
        body,
        headers: { 'x-service-api-key': key, 'content-type': type, 'content-encoding': 'gzip' },
      });
    const spans = [{ traceId, spanId: '1'.repeat(16), name: 'ask', ...times, attributes }];
    const json = zlib.gzipSync(JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] }));
    const taken = await post('/v1/otel/v1/traces', teller, 'application/json', json);
    assert.deepEqual([taken.status, taken.json()], [200, { partialSuccess: {} }], taken.text);
    const span = new ProtobufWriter().bytes(1, Buffer.from(traceId, 'hex')).bytes(2, Buffer.alloc(8, 2));
    span.text(5, 'child').fixed(7, 1_763_000_000_000_000_000n).fixed(8, 1_763_000_000_100_000_000n);
    const group = new ProtobufWriter().message(2, span);
    const binary = new ProtobufWriter().message(1, new ProtobufWriter().message(2, group)).result;
    const also = await post('/otel/v1/traces', teller, 'application/x-protobuf', zlib.gzipSync(binary));
    assert.deepEqual([also.status, also.body.length], [200, 0], also.text);
    assert.equal(also.headers['content-type'], 'application/x-protobuf');
    const read = (id: string, key: string) =>
      send(weir.url, { path: `/v1/logs/${id}`, headers: { 'x-service-api-key': key } });
    const entry = (id: string, key: string) =>
      eventually(async () => {
        const received = await read(id, key);
        return received.status === 200 ? received.json() : undefined;
      });
    const asked = await chat(weir.url);
    const own = await entry(String(asked.headers['x-service-request-id']), ownerKey);
    const idOf = (spanId: string): string => spanRowId(own.organisation_id, { traceId, spanId });
    const [ask, child] = [
      await entry(idOf('1'.repeat(16)), teller),
      await entry(idOf('02'.repeat(8)), teller),
    ];
    assert.deepEqual(
      [ask.workspace_id, ask.metrics.model, ask.metrics.prompt_tokens, ask.metrics.latency_ms],
      ['ws-a', 'gpt-4o', 1000, 500],
    );
    assert.ok(ask.metrics.cost > 0, 'the price of the tokens');
    assert.deepEqual(ask.request.body, { messages: 'what was asked', model: 'gpt-4o' });
    assert.deepEqual([child.metrics.latency_ms, child.metrics.trace_id], [100, traceId]);
    assert.equal((await read(idOf('1'.repeat(16)), ownerKey)).status, 200);
  });

  test('are refused from keys that may not write, and other signals always', async () => {
    const weir = await startWeir({
      yaml: {
        ...yaml(undefined, 'none:'),
        pipelines: [
          {
            name: 'admin',
            match: { routes: 'contributed' },
            plugins: [
              { auth: { keys: [{ name: 'a', key: 'wk_asker_0123456789abcdef', workspace_id: 'ws-a' }] } },
              'management',
            ],
          },
        ],
      },
    });
    const post = (path: string, key: string) =>
      send(weir.url, { path, headers: { 'x-service-api-key': key }, body: { resourceSpans: [] } });
    const refused = await post('/v1/otel/v1/traces', 'wk_asker_0123456789abcdef');
    assert.equal(refused.status, 403);
    assert.match(refused.text, /logs\.write/);
    const other = await post('/v1/otel/v1/logs', ownerKey);
    assert.equal(other.status, 400);
    assert.match(other.text, /no logs/);
  });
});
