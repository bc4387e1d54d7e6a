import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig } from '../../core/config/schema.ts';
import { definePlugin, providerCall, type AnyPlugin } from '../../core/pipeline/plugin.ts';
import type { BodyRow, StoredCall } from '../../core/ports/request-row.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream, type Answering } from '../../tests/kit/http-kit.ts';
import { TestJournal, testKey } from '../../tests/kit/plugin-kit.ts';
import auth from '../auth/index.ts';
import logger from './index.ts';

type Providers = NonNullable<GatewayConfig['providers']>;

const content = [{ type: 'text', text: 'I am ann@example.com' }];
const message = { type: 'message', role: 'assistant', content, stop_reason: 'end_turn' };
/** A host that speaks two wires, and fails where the path says so. */
const both: Answering = ({ url }, response) => {
  const status = url.startsWith('/failing') ? 500 : 200;
  response.writeHead(status, { 'content-type': 'application/json', 'x-own': 'own', 'request-id': 'req_1' });
  response.end(url.endsWith('/messages') ? JSON.stringify(message) : '{"id":"1","choices":[]}');
};

interface Setup extends Omit<TestGatewayOptions, 'plugins' | 'providers'> {
  readonly logs?: Readonly<Record<string, unknown>>;
  readonly between?: readonly AnyPlugin[];
  readonly providers?: (url: string) => Providers;
}

async function begin(t: TestContext, { logs = {}, between = [], providers, ...rest }: Setup = {}) {
  const upstream = await startUpstream(t, both);
  const { url } = upstream;
  const journal = new TestJournal();
  const held: unknown[] = [];
  const gateway = await startTestGateway(t, {
    plugins: [auth, ...between, providerPlugin({ default: 'claude' }), { plugin: logger, options: logs }],
    keys: { wk_one: testKey(), wk_quiet: testKey({ id: 'quiet', defaults: { logBodies: false } }) },
    providers: providers?.(url) ?? {
      claude: { dialect: 'anthropic-messages', base_url: url, api_key: 'held' },
      same: { base_url: url, api_key: 'held' },
      failing: { base_url: `${url}/failing`, api_key: 'held' },
    },
    journal,
    ...rest,
    onSettled: (exchange) => void held.push(exchange.get(providerCall)),
  });
  let sent = 0;
  const ask = async (headers: Record<string, string> = {}, body: Record<string, unknown> = {}) => {
    const answer = await send(gateway.url, {
      path: '/v1/chat/completions',
      headers: { 'x-service-api-key': 'wk_one', ...headers },
      body: { model: 'm', messages: [{ role: 'user', content: 'I am ann@example.com' }], ...body },
    });
    sent += 1;
    await gateway.untilSettled(sent);
    // A redacted row is written a turn later.
    for (let turns = 0; turns < 50 && journal.lines.bodies.length < sent; turns += 1)
      await new Promise((resolve) => setImmediate(resolve));
    const row = journal.rows<BodyRow>('bodies').at(-1);
    const call = row?.provider_call === undefined ? undefined : (JSON.parse(row.provider_call) as StoredCall);
    return { answer, row, call };
  };
  return { ask, upstream, journal, gateway, held };
}

const through = (config: object) => ({ 'x-service-config': JSON.stringify(config) });

describe('logger: what a provider was sent', () => {
  test('in its wire, and what it answered; no second copy of the client’s own body', async (t) => {
    const { ask, upstream } = await begin(t);
    const { call, row } = await ask();
    assert.equal(call?.request.url, `${upstream.url}/messages`);
    assert.equal(call.request.body, upstream.requests[0]?.body.toString());
    assert.deepEqual([call.response?.status, call.response?.body], [200, JSON.stringify(message)]);
    assert.deepEqual(
      [call.response?.headers['x-own'], call.response?.headers['request-id']],
      ['***', 'req_1'],
    );
    assert.notEqual(JSON.stringify(row?.response), call.response?.body);
    const same = await ask({ 'x-service-provider': 'same' });
    assert.deepEqual([same.call?.request.own, same.call?.request.body], [true, undefined]);
    assert.equal(same.call?.response, undefined);
  });

  test('is that of the last attempt which was sent', async (t) => {
    const { ask, upstream } = await begin(t);
    const targets = [{ provider: '@failing' }, { provider: '@claude' }, { provider: '@same' }];
    const { call } = await ask(through({ strategy: { mode: 'fallback' }, targets }));
    assert.equal(call?.request.url, `${upstream.url}/messages`);
    const backwards = through({ strategy: { mode: 'fallback' }, targets: [...targets].reverse().slice(1) });
    assert.equal((await ask(backwards)).call?.request.url, `${upstream.url}/messages`);
    const all = await ask(through({ strategy: { mode: 'fallback' }, targets: [targets[1], targets[0]] }));
    assert.equal(all.call?.response?.status, 200);
    const failed = await ask(through({ retry: { attempts: 1 }, ...targets[0] }));
    assert.equal(failed.call?.request.url, `${upstream.url}/failing/chat/completions`);
  });

  test('is that of the attempt which wins a race', async (t) => {
    const { ask, upstream } = await begin(t);
    const targets = [{ provider: '@failing' }, { provider: '@claude' }];
    const racing = { strategy: { mode: 'fallback' }, hedge: { after_ms: 10_000 }, targets };
    const { call } = await ask(through(racing));
    assert.equal(call?.request.url, `${upstream.url}/messages`);
    assert.equal(call.response?.body, JSON.stringify(message));
  });

  test('nothing is held where bodies are not kept', async (t) => {
    const { ask, held, journal } = await begin(t);
    await ask({ 'x-service-debug': 'false' });
    await ask({ 'x-service-api-key': 'wk_quiet' });
    const without = await begin(t, { logs: { bodies: false } });
    await without.ask();
    assert.deepEqual([...held, ...without.held], [undefined, undefined, undefined]);
    assert.equal(journal.lines.bodies.length, 0);
    await ask();
    assert.ok(held[2] !== undefined);
  });

  test('within the bound of a body, and without it where memory is short', async (t) => {
    const { ask } = await begin(t, { logs: { max_body_bytes: 1024 } });
    const long = { messages: [{ role: 'user', content: 'ä'.repeat(200_000) }] };
    const { call } = await ask({}, long);
    assert.deepEqual(
      [call?.request.truncated, Buffer.byteLength(call?.request.body ?? '') <= 1024],
      [true, true],
    );
    const short = await begin(t, { server: { max_body_bytes: 600_000, max_buffered_bytes: 4_000_000 } });
    const { answer, call: cut } = await short.ask({}, long);
    assert.equal(answer.status, 200);
    assert.ok(Buffer.byteLength(cut?.request.body ?? '') <= 262_144);
    const none = await begin(t, { server: { max_body_bytes: 10_000, max_buffered_bytes: 10_300 } });
    const full = { messages: [{ role: 'user', content: 'a'.repeat(9_000) }] };
    const tight = await none.ask({}, full);
    assert.equal(tight.answer.status, 200);
    assert.deepEqual([tight.call?.request.body, tight.call?.request.truncated], ['', true]);
  });

  test('patterns are taken out of both directions; with paths, translated bodies are not kept', async (t) => {
    const patterns = await begin(t, { logs: { redact: [{ pattern: 'email' }] } });
    const { call } = await patterns.ask();
    assert.match(call?.request.body ?? '', /I am \[redacted\]/);
    assert.match(call?.response?.body ?? '', /I am \[redacted\]/);
    assert.doesNotMatch(patterns.journal.lines.bodies.join(), /ann@/);
    const paths = await begin(t, { logs: { redact: [{ path: 'messages[*].content' }] } });
    const translated = (await paths.ask()).call;
    assert.deepEqual([translated?.request.body, translated?.response?.body], [undefined, undefined]);
    assert.equal(translated?.response?.status, 200);
    const same = await paths.ask({ 'x-service-provider': 'same' });
    assert.equal(same.call?.request.own, true);
    assert.match(JSON.stringify(same.row?.request), /\[redacted\]/);
  });

  test('an answer that a plugin judges or changes is not kept as it was', async (t) => {
    const changing = definePlugin({
      name: 'changing',
      capabilities: { changes: ['response.json'], stream: 'ignore' },
      create: () => ({ response: ({ response }) => response.setTexts(() => 'gone') }),
    });
    const judging = definePlugin({
      name: 'judging',
      capabilities: { guardrail: true },
      create: () => ({ attempted: () => undefined }),
    });
    for (const plugin of [changing, judging]) {
      const { ask } = await begin(t, { between: [plugin] });
      const { call } = await ask();
      assert.deepEqual([typeof call?.request.body, call?.response], ['string', undefined]);
    }
  });
});

describe('property: what is stored holds no secret of the request or of the target', () => {
  const secret = fc
    .tuple(fc.constantFrom('', 'sk-', 'ghp_'), fc.stringMatching(/^[a-z]{8}[0-9]{6}[A-Za-z0-9]{10,20}$/))
    .map((parts) => parts.join(''));
  const wires = [
    'openai-chat',
    'anthropic-messages',
    'google-gemini',
    'cohere-v2',
    'bedrock-converse',
  ] as const;

  test('in every wire, whole and streamed', async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(secret, { minLength: 9, maxLength: 9 }), async (secrets) => {
        const [key = '', own = '', beta = '', id = '', signing = '', mine, cookie, bearer, session = ''] =
          secrets;
        const service = `wk_${secrets.join('').slice(0, 40)}`;
        const aws = {
          aws_access_key_id: id,
          aws_secret_access_key: signing,
          aws_session_token: session,
          aws_region: 'us-east-1',
        };
        const provider = (dialect: (typeof wires)[number], base_url: string) => ({
          dialect,
          base_url,
          headers: { 'x-own': own, 'openai-beta': beta, 'user-agent': beta },
          ...(dialect === 'bedrock-converse' ? aws : { api_key: key }),
        });
        const { ask, journal, upstream } = await begin(t, {
          keys: { [service]: testKey() },
          providers: (url) => Object.fromEntries(wires.map((wire) => [wire, provider(wire, url)])),
        });
        for (const wire of wires) {
          for (const stream of [false, true]) {
            const headers = {
              'x-service-api-key': service,
              'x-service-provider': wire,
              cookie: `a=${cookie}`,
              authorization: `Bearer ${bearer}`,
              'x-mine': `${mine}`,
              'x-service-forward-headers': 'x-mine',
            };
            const { call } = await ask(headers, { stream });
            assert.ok(call?.request.url.startsWith(upstream.url), wire);
          }
        }
        assert.equal(upstream.requests.length, 2 * wires.length);
        assert.match(JSON.stringify(upstream.requests.map(({ headers }) => headers)), new RegExp(key));
        const stored = [...journal.lines.requests, ...journal.lines.bodies].join('\n');
        for (const one of [...secrets, service]) assert.ok(!stored.includes(one), one);
      }),
      { numRuns: 5 },
    );
  });
});
