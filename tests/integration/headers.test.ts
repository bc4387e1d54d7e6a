// Every header of docs/headers.md that steers the gateway, under its own prefix and under an alias, through a whole gateway.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { brief, cachedGateway } from '../kit/cache-kit.ts';
import { connect, send, startUpstream, type Received } from '../kit/http-kit.ts';
import { handshake, secret, startRealtime } from '../kit/realtime-kit.ts';

const question = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] };
const completion = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
};
const message = {
  id: 'm',
  type: 'message',
  role: 'assistant',
  model: 'm',
  stop_reason: 'end_turn',
  stop_sequence: null,
  content: [{ type: 'text', text: 'Hi' }],
  usage: { input_tokens: 1, output_tokens: 1 },
};

/** A gateway before a host that speaks the client's wire (`chat`) and one that speaks another (`claude`). */
async function start(t: TestContext) {
  const upstream = await startUpstream(t, ({ url }, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(url.endsWith('/messages') ? message : completion));
  });
  const gateway = await startTestGateway(t, {
    plugins: [providerPlugin({ default: 'chat' })],
    providers: {
      chat: { base_url: upstream.url, api_key: 'held' },
      claude: { dialect: 'anthropic-messages', base_url: upstream.url, api_key: 'held' },
    },
  });
  const ask = (headers: Readonly<Record<string, string>>, body: object = question): Promise<Received> =>
    send(gateway.url, { path: '/v1/chat/completions', headers, body });
  const reached = async (headers: Readonly<Record<string, string>>) => {
    const answer = await ask(headers);
    assert.equal(answer.status, 200, answer.text);
    return upstream.requests.at(-1)?.headers ?? {};
  };
  return { ask, reached, upstream };
}

const traceparent = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}-01`;

for (const prefix of ['x-service', 'x-portkey']) {
  describe(`headers under ${prefix}`, () => {
    for (const provider of ['chat', 'claude']) {
      test(`what reaches ${provider}`, async (t) => {
        const { reached } = await start(t);
        const own = { [`${prefix}-provider`]: provider };
        const clients = {
          'x-secret': 's',
          'x-tenant': 't',
          'openai-beta': 'b',
          'accept-language': 'de',
          traceparent,
          baggage: 'a=1',
        };
        const { 'openai-beta': beta, ...plain } = await reached({ ...own, ...clients });
        assert.equal(beta, provider === 'chat' ? 'b' : undefined);
        assert.deepEqual(
          [plain['x-secret'], plain['x-tenant'], plain['traceparent'], plain['baggage']],
          ['s', 't', undefined, undefined],
        );
        const steered = await reached({
          ...own,
          ...clients,
          [`${prefix}-nitro-mode`]: 'true',
          [`${prefix}-request-timeout`]: '60000',
          [`${prefix}-forward-headers`]: 'OpenAI-Beta, accept-language, x-absent, traceparent, baggage',
          [`${prefix}-sensitive-headers`]: 'X-Secret, traceparent, content-type',
        });
        assert.deepEqual([steered['openai-beta'], steered['accept-language']], ['b', 'de']);
        assert.deepEqual([steered['x-secret'], steered['traceparent']], [undefined, undefined]);
        assert.equal(steered['baggage'], 'a=1');
        assert.deepEqual([steered['x-tenant'], steered['content-type']], ['t', 'application/json']);
        assert.deepEqual(
          Object.keys(steered).filter((name) => name.startsWith('x-service') || name.startsWith('x-portkey')),
          [],
          'a header for the gateway went to the provider',
        );
      });
    }

    const refused: readonly [header: string, value: string][] = [
      ['request-timeout', '0'],
      ['request-timeout', 'soon'],
      ['request-timeout', '86400001'],
      ['forward-headers', 'authorization'],
      ['forward-headers', `${prefix}-forward-headers`],
      ['forward-headers', 'transfer-encoding'],
      ['forward-headers', 'x-aws-ec2-metadata-token'],
      ['sensitive-headers', 'a b'],
      ['metadata', '[]'],
      ['trace-id', 'x'.repeat(256)],
    ];
    test('what is refused, before the provider hears of it', async (t) => {
      const { ask, upstream } = await start(t);
      for (const [header, value] of refused) {
        const answer = await ask({ [`${prefix}-${header}`]: value });
        assert.equal(answer.status, 400, `${header}: ${value.slice(0, 40)}`);
        const { code, param } = answer.json().error;
        assert.deepEqual([code, param], ['invalid_header', header]);
        assert.ok(answer.headers[`${prefix}-request-id`]);
      }
      assert.equal(upstream.requests.length, 0);
    });

    test('flags that say neither true nor false', async (t) => {
      const { ask, upstream } = await start(t);
      for (const name of [
        ...['strict-open-ai-compliance', 'strict-openai-compliance', 'debug', 'explain'],
        ...['cache-force-refresh', 'fetch-integrated-models'],
      ]) {
        for (const value of ['1', 'yes', 'treu', '"true"']) {
          const answer = await ask({ [`${prefix}-${name}`]: value });
          assert.equal(answer.status, 400, `${name}: ${value}`);
          const { code, param, message } = answer.json().error;
          assert.deepEqual([code, param], ['invalid_header', name]);
          assert.match(message, /Send true or false/);
        }
      }
      assert.equal(upstream.requests.length, 0);
    });

    test('strict compliance', async (t) => {
      const { ask } = await start(t);
      const body = { ...question, thinking: { type: 'enabled', budget_tokens: 1024 } };
      for (const [value, status] of [
        ['false', 200],
        ['FALSE', 200],
        ['true', 400],
        ['', 400],
      ] as const) {
        for (const name of ['strict-open-ai-compliance', 'strict-openai-compliance']) {
          const answer = await ask({ [`${prefix}-${name}`]: value }, body);
          assert.equal(answer.status, status, `${name}: ${value}`);
        }
      }
    });

    test('the cache', async (t) => {
      const { ask } = await cachedGateway(t);
      const told: readonly [headers: Readonly<Record<string, string>>, said: string][] = [
        [{}, 'MISS answer 1'],
        [{ 'cache-force-refresh': 'false' }, 'HIT answer 1'],
        [{ 'cache-force-refresh': '' }, 'HIT answer 1'],
        [{ 'cache-force-refresh': 'True' }, 'REFRESH answer 2'],
        [{ 'cache-namespace': '' }, 'HIT answer 2'],
        [{ 'cache-namespace': 'docs' }, 'MISS answer 3'],
        [{ 'cache-namespace': 'docs', metadata: '{"a":"b"}' }, 'HIT answer 3'],
        [{ metadata: '{"a":"b"}' }, 'MISS answer 4'],
        [{ debug: 'true' }, 'HIT answer 2'],
        [{ debug: 'false' }, 'DISABLED answer 5'],
        [{ debug: 'False' }, 'DISABLED answer 6'],
      ];
      for (const [own, said] of told) {
        const headers = Object.entries(own).map(([name, value]) => [`${prefix}-${name}`, value]);
        const answer = await ask({ headers: Object.fromEntries(headers) as Record<string, string> });
        assert.equal(brief(answer), said, JSON.stringify(own));
      }
    });
  });
}

test('the 101 of a WebSocket speaks under the alias too', async (t) => {
  const { gateway } = await startRealtime(t);
  const client = await connect(t, gateway.port);
  client.write(handshake({ 'x-portkey-api-key': secret, 'x-portkey-trace-id': 'trace-9' }));
  const head = await client.until('\r\n\r\n');
  assert.match(head, /^HTTP\/1\.1 101 /);
  for (const prefix of ['x-service', 'x-portkey']) {
    assert.match(head, new RegExp(`\r\n${prefix}-trace-id: trace-9\r\n`));
    assert.match(head, new RegExp(`\r\n${prefix}-provider: up\r\n`));
    assert.match(head, new RegExp(`\r\n${prefix}-last-used-option-index: config\r\n`));
  }
});
