import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createCredentialFactory } from '../../adapters/credentials/index.ts';
import { providerDialects } from '../../adapters/dialects/index.ts';
import { providerTable } from '../../adapters/providers.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { startUpstream, until, type Answering } from '../../tests/kit/http-kit.ts';
import { startFakeVectors, vectorOf } from '../../tests/sdk/fake-vectors.ts';
import type { GatewayConfig } from '../config/schema.ts';
import { realClock, RecordingMetrics, recordingLog } from '../lifecycle/recording-services.test-support.ts';
import type { Clock } from '../ports/clock.ts';
import { createEmbeddings } from './embed-text.ts';
import { compileTargets } from './targets.ts';

function begin(t: TestContext, providers: GatewayConfig['providers'], clock: Clock = realClock) {
  const metrics = new RecordingMetrics();
  const transport = createUndiciTransport({ log: recordingLog([]), clock: realClock, metrics });
  t.after(() => transport.close());
  const factory = createCredentialFactory({ clock: realClock, transport, environment: {} });
  const known = compileTargets(providers, providerTable, { factory, headerPrefix: 'x-service' });
  const embeddings = createEmbeddings({ known, transport, wires: providerDialects, clock, metrics });
  const embed = async (provider: string, model: string, timeoutMs = 5000) => [
    ...(await embeddings.embed('Hello', { provider, model, timeoutMs })),
  ];
  return { embeddings, embed, metrics };
}

const answering =
  (body: unknown, status = 200): Answering =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
const vectorAnswer = (embedding: unknown) => ({
  data: [{ index: 0, embedding }],
  usage: { prompt_tokens: 5, total_tokens: 5 },
});

describe('a text becomes a vector', () => {
  test('at a host of the OpenAI wire, with the credential that is held', async (t) => {
    const upstream = await startUpstream(t, answering(vectorAnswer([0.5, -1, 2])));
    const { embed, metrics } = begin(t, { up: { base_url: `${upstream.url}/v1`, api_key: 'held' } });
    assert.deepEqual(await embed('up', 'small'), [0.5, -1, 2]);
    const [request] = upstream.requests;
    assert.deepEqual([request?.method, request?.url], ['POST', '/v1/embeddings']);
    assert.equal(request?.headers['authorization'], 'Bearer held');
    assert.deepEqual(JSON.parse(request?.body.toString() ?? ''), { model: 'small', input: 'Hello' });
    assert.equal(metrics.values.get('weir_embedding_tokens_total{provider=up,model=small}'), 5);
  });

  test('at hosts of other wires', async (t) => {
    const { url } = await startFakeVectors(t);
    const { embed } = begin(t, {
      google: { base_url: `${url}/v1beta`, api_key: 'g' },
      cohere: { base_url: url, api_key: 'c' },
      bedrock: {
        base_url: url,
        aws_access_key_id: 'AKIAEXAMPLE',
        aws_secret_access_key: 'secret',
        aws_region: 'us-east-1',
      },
    });
    const expected = [...vectorOf('Hello')];
    assert.deepEqual(await embed('google', 'gemini-embedding-001'), expected);
    assert.deepEqual(await embed('cohere', 'embed-v4.0'), expected);
    assert.deepEqual(await embed('bedrock', 'amazon.titan-embed-text-v2:0'), expected);
  });
});

describe('a text that gets none', () => {
  const table: readonly (readonly [string, Answering, { code: string; message: RegExp }])[] = [
    [
      'an error of the provider',
      answering({ error: {} }, 429),
      { code: 'provider_error', message: /"up" answered 429/ },
    ],
    ['no JSON', answering('oops'), { code: 'upstream_invalid', message: /no vector/ }],
    ['no list', answering({ data: {} }), { code: 'upstream_invalid', message: /no vector/ }],
    ['an empty vector', answering(vectorAnswer([])), { code: 'upstream_invalid', message: /no vector/ }],
    ['a packed vector', answering(vectorAnswer('AAAA')), { code: 'upstream_invalid', message: /no vector/ }],
    ['texts', answering(vectorAnswer([1, 'x'])), { code: 'upstream_invalid', message: /no vector/ }],
    ['too much', answering('x'.repeat(1_048_577)), { code: 'upstream_too_large', message: /1048576 bytes/ }],
    [
      'a connection that breaks',
      (_request, response) => void response.destroy(),
      { code: 'upstream_reset', message: /./ },
    ],
  ];
  for (const [what, answer, expected] of table) {
    test(what, async (t) => {
      const upstream = await startUpstream(t, answer);
      const { embed } = begin(t, { up: { base_url: upstream.url, api_key: 'held' } });
      await assert.rejects(embed('up', 'm'), expected);
    });
  }

  test('a provider that is slow: the call is cut', async (t) => {
    const upstream = await startUpstream(t, () => undefined);
    const clock = new ManualClock();
    const { embed } = begin(t, { up: { base_url: upstream.url, api_key: 'held' } }, clock);
    const waiting = assert.rejects(embed('up', 'm', 2000), {
      code: 'upstream_timeout',
      message: /"up" made no vector within 2000 ms/,
    });
    await until(() => upstream.requests.length === 1, 'the call');
    await clock.pass(2000);
    await waiting;
    await until(() => upstream.requests[0]?.cut === true, 'the end of the call');
    await settle();
    assert.equal(clock.waiting, 0);
  });

  test('no timer is left behind', async (t) => {
    const upstream = await startUpstream(t, answering(vectorAnswer([1])));
    const clock = new ManualClock();
    const { embed } = begin(t, { up: { base_url: upstream.url, api_key: 'held' } }, clock);
    await embed('up', 'm');
    assert.equal(clock.waiting, 0);
  });
});

describe('what cannot work is known beforehand', () => {
  const providers = {
    up: { base_url: 'http://127.0.0.1:1', api_key: 'held' },
    claude: { dialect: 'anthropic-messages' as const, base_url: 'http://127.0.0.1:1', api_key: 'held' },
  };
  test('a provider that is not there', async (t) => {
    const { embeddings, embed } = begin(t, providers);
    assert.match(
      embeddings.problem({ provider: 'nope', model: 'm' }) ?? '',
      /There is no provider "nope" .*providers:/,
    );
    await assert.rejects(embed('nope', 'm'), { code: 'provider_unknown' });
  });

  test('a provider that makes no vectors', (t) => {
    const { embeddings } = begin(t, providers);
    assert.match(embeddings.problem({ provider: 'claude', model: 'm' }) ?? '', /"claude"/);
  });

  test('nothing speaks against the others, and nobody is asked', (t) => {
    const { embeddings } = begin(t, providers);
    assert.equal(embeddings.problem({ provider: 'up', model: 'm' }), undefined);
  });
});
