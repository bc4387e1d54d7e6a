// Similar questions at a whole gateway: the vectors come from a provider that the test plays.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import auth from '../../plugins/auth/index.ts';
import cache, { type CacheOptions } from '../../plugins/cache/index.ts';
import management from '../../plugins/management/index.ts';
import { ManualClock } from '../conformance/manual-clock.ts';
import { asking, brief, counting, type Asked } from '../kit/cache-kit.ts';
import { delta, done, finish } from '../kit/chat-stream-kit.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../kit/gateway-kit.ts';
import { send, startUpstream, until, type Answering, type Received } from '../kit/http-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';

/** Texts about the same thing point nearly the same way. */
const directions: Readonly<Record<string, readonly number[]>> = {
  'How do I reset my password?': [1, 0.02, 0],
  'I forgot my password, how can I change it?': [1, 0.1, 0.05],
  'What does it cost?': [0, 0.1, 1],
};
const [reset, forgot, cost] = Object.keys(directions) as [string, string, string];

/** Embeds what it knows; everything else gets an error. */
const embedding: Answering = (request, response) => {
  const { input } = JSON.parse(request.body.toString()) as { input: string };
  const vector = directions[input];
  response.writeHead(vector === undefined ? 500 : 200, { 'content-type': 'application/json' });
  response.end(
    JSON.stringify({ data: [{ index: 0, embedding: vector }], usage: { prompt_tokens: 3, total_tokens: 3 } }),
  );
};

interface Parts extends TestGatewayOptions {
  readonly answer?: Answering;
  readonly embed?: Answering;
  readonly options?: CacheOptions;
}

const semantic = { provider: 'vectors', model: 'small' };

async function begin(t: TestContext, { answer, embed, options, ...rest }: Parts = {}) {
  const upstream = await startUpstream(t, answer ?? counting());
  const vectors = await startUpstream(t, embed ?? embedding);
  const gateway = await startTestGateway(t, {
    pipelines: [
      { name: 'admin', match: { routes: 'contributed' }, plugins: [auth, management] },
      {
        plugins: [
          auth,
          { plugin: cache, options: { mode: 'semantic', semantic, ...options } },
          providerPlugin({ default: 'up' }),
        ],
      },
    ],
    keys: { wk_one: testKey(), wk_two: testKey({ id: 'key-2', workspaceId: 'ws-2' }) },
    providers: {
      up: { base_url: upstream.url, api_key: 'held', also_speaks: ['anthropic-messages'] },
      vectors: { base_url: vectors.url, api_key: 'held-too' },
    },
    ...rest,
  });
  const ask = (content: string, { body, ...more }: Asked = {}): Promise<Received> =>
    send(gateway.url, asking({ ...more, body: { messages: [{ role: 'user', content }], ...body } }));
  return {
    gateway,
    upstream,
    vectors,
    ask,
    told: async (content: string, more: Asked = {}): Promise<string> => brief(await ask(content, more)),
    embedded: () => vectors.requests.length,
  };
}

describe('a similar question', () => {
  test('gets the answer of the one before, without a call', async (t) => {
    const { ask, told, gateway, upstream, embedded, vectors } = await begin(t);
    const first = await ask(reset);
    assert.equal(brief(first), 'SEMANTIC MISS answer 1');
    const similar = await ask(forgot);
    assert.equal(brief(similar), 'SEMANTIC HIT answer 1');
    assert.equal(similar.text, first.text);
    assert.equal(similar.headers['age'], '0');
    assert.equal(await told(cost), 'SEMANTIC MISS answer 2');
    assert.deepEqual([upstream.requests.length, embedded()], [2, 3]);
    assert.equal(vectors.requests[0]?.headers['authorization'], 'Bearer held-too');
    const { facts } = await gateway.untilSettled(2);
    assert.deepEqual([facts.cacheStatus, facts.usage, facts.attempts], ['SEMANTIC HIT', undefined, 0]);
    assert.equal(gateway.metrics.get('weir_cache_embeddings_total{result=made}'), 3);
    assert.equal(gateway.metrics.get('weir_embedding_tokens_total{provider=vectors,model=small}'), 9);
  });

  test('the very same is found first, and nothing is embedded for it', async (t) => {
    const { told, embedded } = await begin(t);
    await told(reset);
    assert.equal(await told(reset), 'HIT answer 1');
    assert.equal(embedded(), 1);
  });

  test('must be as similar as wanted', async (t) => {
    const { told } = await begin(t, { options: { semantic: { ...semantic, threshold: 0.999 } } });
    await told(reset);
    assert.equal(await told(forgot), 'SEMANTIC MISS answer 2');
  });

  const apart: readonly (readonly [string, Asked])[] = [
    ['other parameters', { body: { temperature: 0.5 } }],
    ['another model', { body: { model: 'm-2' } }],
    ['tools', { body: { tools: [{ type: 'function', function: { name: 'f' } }] } }],
    ['another workspace', { headers: { 'x-service-api-key': 'wk_two' } }],
    ['a namespace', { headers: { 'x-service-cache-namespace': 'docs' } }],
    [
      'other instructions',
      {
        body: {
          messages: [
            { role: 'system', content: 'x' },
            { role: 'user', content: forgot },
          ],
        },
      },
    ],
  ];
  for (const [what, more] of apart) {
    test(`is another one with ${what}`, async (t) => {
      const { told } = await begin(t);
      await told(reset);
      assert.equal(await told(forgot, more), 'SEMANTIC MISS answer 2');
    });
  }

  test('instructions may differ with ignore_system_prompt', async (t) => {
    const { told } = await begin(t, { options: { semantic: { ...semantic, ignore_system_prompt: true } } });
    await told(reset);
    const messages = [
      { role: 'system', content: 'x' },
      { role: 'user', content: forgot },
    ];
    assert.equal(await told(forgot, { body: { messages } }), 'SEMANTIC HIT answer 1');
  });

  test('a conversation that is too long is looked for as it is', async (t) => {
    const { told, embedded } = await begin(t);
    const messages = Array.from({ length: 5 }, () => ({ role: 'user', content: reset }));
    assert.equal(await told('', { body: { messages } }), 'MISS answer 1');
    assert.equal(await told('', { body: { messages } }), 'HIT answer 1');
    assert.equal(embedded(), 0);
  });

  test('asking anew makes the new answer the one that is found', async (t) => {
    const { told } = await begin(t);
    await told(reset);
    const headers = { 'x-service-cache-force-refresh': 'true' };
    assert.equal(await told(reset, { headers }), 'REFRESH answer 2');
    assert.equal(await told(forgot), 'SEMANTIC HIT answer 2');
  });

  test('ends with the answer', async (t) => {
    const clock = new ManualClock();
    const { told } = await begin(t, { clock, options: { max_age: 60 } });
    await told(reset);
    clock.advance(59_999);
    assert.equal(await told(forgot), 'SEMANTIC HIT answer 1');
    clock.advance(1);
    assert.equal(await told(forgot), 'SEMANTIC MISS answer 2');
  });
});

describe('the form of the answer', () => {
  test('a stream is kept and becomes an answer in one piece', async (t) => {
    const { ask } = await begin(t, {
      answer: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end(delta('answer 1') + finish + done);
      },
    });
    const streamed = await ask(reset, { body: { stream: true } });
    assert.match(streamed.text, /\[DONE\]/);
    const whole = await ask(forgot);
    assert.equal(whole.headers['x-service-cache-status'], 'SEMANTIC HIT');
    assert.match(whole.text, /"content":"answer 1"/);
    assert.doesNotMatch(whole.text, /^data:/m);
  });

  test('and the other way round', async (t) => {
    const { ask } = await begin(t);
    await ask(reset);
    const streamed = await ask(forgot, { body: { stream: true } });
    assert.equal(streamed.headers['x-service-cache-status'], 'SEMANTIC HIT');
    assert.match(String(streamed.headers['content-type']), /^text\/event-stream/);
    assert.match(streamed.text, /answer 1[^]*\[DONE\]/);
  });

  test('messages of Anthropic, too', async (t) => {
    let calls = 0;
    const { ask } = await begin(t, {
      answer: (_request, response) => {
        const content = [{ type: 'text', text: `answer ${++calls}` }];
        const usage = { input_tokens: 1, output_tokens: 1 };
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(
          JSON.stringify({
            id: 'm',
            type: 'message',
            role: 'assistant',
            content,
            model: 'c',
            stop_reason: 'end_turn',
            usage,
          }),
        );
      },
    });
    const more = { path: '/v1/messages', body: { max_tokens: 10 } };
    assert.equal(brief(await ask(reset, more)), 'SEMANTIC MISS answer 1');
    assert.equal(brief(await ask(forgot, more)), 'SEMANTIC HIT answer 1');
  });
});

describe('a provider of vectors that does not give any', () => {
  test('fails: the request goes on, and the answer is kept for the very same question', async (t) => {
    const { told, gateway } = await begin(t, {
      embed: (_request, response) => void response.writeHead(503).end('{}'),
    });
    assert.equal(await told(reset), 'SEMANTIC MISS answer 1');
    assert.equal(await told(reset), 'HIT answer 1');
    assert.equal(await told(forgot), 'SEMANTIC MISS answer 2');
    assert.equal(gateway.pluginErrors.length, 0);
    const warnings = gateway.lines.filter(({ level }) => level === 'warn');
    assert.equal(warnings.length, 1);
    assert.match(warnings[0]?.message ?? '', /cannot be embedded/);
  });

  test('is slow: the request waits no longer than timeout_ms', async (t) => {
    const clock = new ManualClock();
    const { told, vectors } = await begin(t, { clock, embed: () => undefined });
    const waiting = told(reset);
    await until(() => vectors.requests.length === 1, 'the question for a vector');
    clock.advance(2000);
    assert.equal(await waiting, 'SEMANTIC MISS answer 1');
  });
});

test('the same new question at the same time is embedded once and asked once', async (t) => {
  const { told, embedded, upstream } = await begin(t);
  const all = await Promise.all(Array.from({ length: 20 }, () => told(reset)));
  assert.equal(all.filter((one) => one === 'SEMANTIC MISS answer 1').length, 1);
  assert.equal(all.filter((one) => one === 'HIT answer 1').length, 19);
  assert.deepEqual([embedded(), upstream.requests.length], [1, 1]);
});

test('who waits for one that is answered by a similar question is told so', async (t) => {
  let go = (): void => undefined;
  const held = new Promise<void>((resolve) => (go = resolve));
  const { told, vectors } = await begin(t, {
    embed: (...call) => {
      const [request] = call;
      if (request.body.includes('forgot')) void held.then(() => embedding(...call));
      else embedding(...call);
    },
  });
  await told(reset);
  const all = [told(forgot), told(forgot)];
  await until(() => vectors.requests.length === 2, 'the second question for a vector');
  go();
  assert.deepEqual(await Promise.all(all), ['SEMANTIC HIT answer 1', 'SEMANTIC HIT answer 1']);
});

describe('DELETE /cache', () => {
  const remove = (url: string, query: string, key = 'wk_one'): Promise<Received> =>
    send(url, { method: 'DELETE', path: `/v1/cache${query}`, headers: { 'x-service-api-key': key } });
  const docs = { headers: { 'x-service-cache-namespace': 'docs' } };

  test('ends the answers of one namespace, similar ones included', async (t) => {
    const clock = new ManualClock();
    const { told, gateway } = await begin(t, { clock });
    await told(reset, docs);
    await told(reset);
    const reply = await remove(gateway.url, '?namespace=docs');
    assert.equal(reply.status, 200);
    const { success, data } = reply.json() as { success: boolean; data: Record<string, unknown> };
    assert.equal(success, true);
    assert.deepEqual(
      [data['namespace'], data['invalidated_at']],
      ['docs', new Date(clock.now()).toISOString()],
    );
    clock.advance(1);
    assert.equal(await told(reset), 'HIT answer 2');
    assert.equal(await told(forgot, docs), 'SEMANTIC MISS answer 3');
    assert.equal(await told(reset, docs), 'SEMANTIC HIT answer 3');
  });

  test('ends all answers of the workspace, and no other’s', async (t) => {
    const clock = new ManualClock();
    const { told, gateway } = await begin(t, { clock });
    const other = { headers: { 'x-service-api-key': 'wk_two' } };
    for (const more of [{}, docs, other]) await told(reset, more);
    assert.equal((await remove(gateway.url, '?all=true')).status, 200);
    clock.advance(1);
    assert.equal(await told(reset), 'SEMANTIC MISS answer 4');
    assert.equal(await told(reset, docs), 'SEMANTIC MISS answer 5');
    assert.equal(await told(reset, other), 'HIT answer 3');
  });

  test('wants to be told what', async (t) => {
    const { gateway } = await begin(t);
    for (const query of ['', '?namespace=', '?namespace=a&all=true', '?all=maybe', '?name=a'])
      assert.equal((await remove(gateway.url, query)).status, 400, query);
    assert.equal((await remove(gateway.url, '?all=true&workspace_id=ws-2')).status, 403);
  });

  test('wants a key that may', async (t) => {
    const keys = { wk_one: testKey({ scopes: ['logs.view'] }) };
    const { gateway } = await begin(t, { keys });
    assert.equal((await remove(gateway.url, '?all=true')).status, 403);
  });
});
