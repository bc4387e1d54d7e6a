import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { definePlugin, type AnyPlugin } from '../../core/pipeline/plugin.ts';
import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import { providerPlugin } from '../../tests/kit/gateway-kit.ts';
import { startUpstream, type Answering } from '../../tests/kit/http-kit.ts';
import { testOutcome, testScope } from '../../tests/kit/plugin-kit.ts';
import auth from '../auth/index.ts';
import { attemptContext } from '../../tests/kit/attempt-kit.ts';
import { cachedGateway, counting, type Asked } from '../../tests/kit/cache-kit.ts';
import { AnswerCache, Flights } from './answer-cache.ts';
import cache from './index.ts';

describe('who shares an answer', () => {
  const cases: readonly (readonly [string, Asked, string])[] = [
    ['another key of the workspace does', { headers: { 'x-service-api-key': 'wk_same' } }, 'HIT answer 1'],
    ['another workspace does not', { headers: { 'x-service-api-key': 'wk_two' } }, 'MISS answer 2'],
    ['another provider does not', { headers: { 'x-service-provider': 'other' } }, 'MISS answer 2'],
    ['other metadata do not', { headers: { 'x-service-metadata': '{"team":"a"}' } }, 'MISS answer 2'],
    ['another question does not', { body: { temperature: 1 } }, 'MISS answer 2'],
    ['a namespace does not', { headers: { 'x-service-cache-namespace': 'docs' } }, 'MISS answer 2'],
  ];
  for (const [name, asked, expected] of cases) {
    test(name, async (t) => {
      const { told } = await cachedGateway(t);
      await told();
      assert.equal(await told(asked), expected);
      assert.equal(await told(asked), expected.replace('MISS', 'HIT'));
    });
  }

  test('within a namespace everybody of the workspace does who asks the same provider, whatever the metadata', async (t) => {
    const { told } = await cachedGateway(t);
    const space = { 'x-service-cache-namespace': 'docs' };
    await told({ headers: space });
    const others = { 'x-service-metadata': '{"team":"a"}', 'openai-beta': 'x' };
    assert.equal(await told({ headers: { ...space, ...others } }), 'HIT answer 1');
    assert.equal(await told({ headers: { ...space, 'x-service-api-key': 'wk_two' } }), 'MISS answer 2');
    assert.equal(await told({ headers: { ...space, 'x-service-provider': 'other' } }), 'MISS answer 3');
  });

  test('within a namespace nobody gets the answer of a host that another request named', async (t) => {
    const foreign = await startUpstream(t, counting());
    const { told } = await cachedGateway(t, { security: { trusted_hosts: ['127.0.0.1'] } });
    const space = { 'x-service-cache-namespace': 'docs' };
    const named = { ...space, 'x-service-custom-host': foreign.url };
    const config = JSON.stringify({ provider: 'openai', api_key: 'mine', custom_host: foreign.url });
    assert.equal(await told({ headers: named }), 'MISS answer 1');
    assert.equal(await told({ headers: { ...space, 'x-service-config': config } }), 'MISS answer 2');
    assert.equal(await told({ headers: space }), 'MISS answer 1');
    assert.equal(foreign.requests.length, 2);
    assert.equal(await told({ headers: named }), 'HIT answer 1');
    assert.equal(await told({ headers: space }), 'HIT answer 1');
  });

  test('a request whose config refuses what its target cannot be told does not', async (t) => {
    const answer: Answering = (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const content = [{ type: 'text', text: 'answer 1' }];
      response.end(JSON.stringify({ type: 'message', role: 'assistant', content, stop_reason: 'end_turn' }));
    };
    const claude = await startUpstream(t, answer);
    const provider = { dialect: 'anthropic-messages', base_url: claude.url, api_key: 'held' } as const;
    const { told } = await cachedGateway(t, { providers: { claude: provider } });
    const asked = (on_drop: string): Asked => ({
      headers: { 'x-service-config': JSON.stringify({ provider: '@claude', on_drop }) },
      body: { logit_bias: { '1': 1 } },
    });
    assert.equal(await told(asked('report')), 'MISS answer 1');
    assert.equal(await told(asked('report')), 'HIT answer 1');
    assert.match(await told(asked('refuse')), /400$/);
  });

  test('a caller with another credential of his own does not', async (t) => {
    const { upstream, told } = await cachedGateway(t, {
      security: { trusted_hosts: ['127.0.0.1'] },
    });
    const as = (credential: string): Asked => ({
      headers: { 'x-service-custom-host': upstream.url, authorization: `Bearer ${credential}` },
    });
    assert.equal(await told(as('sk-1')), 'MISS answer 1');
    assert.equal(await told(as('sk-2')), 'MISS answer 2');
    assert.equal(await told(as('sk-1')), 'HIT answer 1');
  });

  test('a request that is refused without a cache is refused with it', async (t) => {
    const { told } = await cachedGateway(t);
    await told();
    assert.match(await told({ headers: { 'x-service-provider': 'nowhere' } }), /400$/);
    assert.match(await told({ headers: { 'x-service-api-key': 'wk_unknown' } }), /401$/);
  });

  test('what a plugin made of the question decides, not what was sent', async (t) => {
    const turning = definePlugin({
      name: 'turning',
      capabilities: { changes: ['request.json'] },
      create: () => ({ request: ({ body }) => body.set(['temperature'], 0) }),
    });
    const { told } = await cachedGateway(t, {
      plugins: [auth, cache, turning, providerPlugin({ default: 'up' })],
    });
    assert.equal(await told({ body: { temperature: 1 } }), 'MISS answer 1');
    assert.equal(await told({ body: { temperature: 2 } }), 'HIT answer 1');
  });
});

describe('the store', () => {
  const started = (t: TestContext, store: Cache) => {
    const withStore: AnyPlugin = {
      ...cache,
      create: (_options, scope) => cache.create({}, { ...scope, cache: store }),
    };
    return cachedGateway(t, { plugins: [auth, withStore, providerPlugin({ default: 'up' })] });
  };

  test('may answer later', async (t) => {
    const kept = new Map<string, CachedValue>();
    const store = {
      get: (key: string) => Promise.resolve(kept.get(key)),
      set: (key: string, bytes: Uint8Array) => {
        kept.set(key, { bytes, storedAt: Date.now(), expiresAt: Infinity });
        return Promise.resolve();
      },
      delete: () => Promise.resolve(),
    };
    const { told } = await started(t, store);
    assert.equal(await told(), 'MISS answer 1');
    assert.equal(await told(), 'HIT answer 1');
    const [[key, value]] = [...kept] as [[string, CachedValue]];
    assert.match(key, /^[A-Za-z0-9_-]{43}$/);
    assert.doesNotMatch(
      Buffer.from(value.bytes).toString(),
      /req_1|a=b|held|wk_one/,
      'nothing of the delivery',
    );
  });

  test('that has forgotten, or holds what nobody wrote, is a miss', async (t) => {
    const values = [undefined, 'no line', 'no json\n{}', '{}\n{}', '{"form":"json","headers":[1]}\n{}'];
    let at = 0;
    let asked: string | undefined;
    const store = {
      get: (key: string) => {
        const value = key === (asked ??= key) ? values[at++] : undefined;
        if (value === undefined) return undefined;
        return { bytes: Buffer.from(value), storedAt: 0, expiresAt: Infinity };
      },
      set: () => undefined,
      delete: () => undefined,
    };
    const { told } = await started(t, store);
    for (let i = 1; i <= values.length; i++) assert.equal(await told(), `MISS answer ${i}`);
  });
});

describe('calls on their way', () => {
  const begin = (store: Partial<Cache> = {}) => {
    const { scope } = testScope();
    const cache: Cache = Object.assign(Object.create(scope.cache) as Cache, store);
    const flights = new Flights();
    const taken: string[] = [];
    const noting = {
      find: (key: string) => flights.find(key),
      takeOff: (key: string) => {
        taken.push(key);
        return flights.takeOff(key);
      },
    };
    const answers = new AnswerCache({
      cache,
      clock: scope.clock,
      log: scope.log,
      flights: noting,
      mode: 'simple',
      similar: undefined,
      maxAgeMs: 1000,
      maxAgeLimitMs: 1000,
      maxValueBytes: 1000,
      maxWaitMs: 1000,
      endpoints: new Set(['chat.completions']),
    });
    return { answers, open: () => taken.filter((key) => flights.find(key) !== undefined).length, taken };
  };

  test('end with their request, however that ends', async () => {
    for (const kind of ['completed', 'refused', 'failed', 'cancelled'] as const) {
      const { answers, open } = begin();
      const context = await attemptContext();
      void answers.attempt(context);
      assert.equal(open(), 1);
      answers.settled(context, testOutcome({ kind }));
      assert.equal(open(), 0, kind);
    }
  });

  test('end when their attempt is given up, and only then', async () => {
    const { answers, open, taken } = begin();
    const context = await attemptContext();
    void answers.attempt(context);
    void answers.attempt(
      Object.assign(context, { attempt: (await attemptContext({ target: 'target-2' })).attempt }),
    );
    assert.equal(taken.length, 2);
    assert.equal(open(), 2, 'two attempts may run at once');
    context.abandon();
    assert.equal(open(), 1);
  });

  test('are passed on by an attempt that is given up before it is its turn', async () => {
    const { answers, open } = begin();
    const [leader, late] = [await attemptContext(), await attemptContext()];
    void answers.attempt(leader);
    const waiting = answers.attempt(late);
    late.abandon();
    answers.settled(leader, testOutcome({ kind: 'cancelled' }));
    await waiting;
    assert.equal(open(), 0);
  });

  test('are not taken for an attempt that was given up while the store was read', async () => {
    const { answers, taken } = begin({ get: () => Promise.resolve(undefined) });
    const context = await attemptContext();
    const looking = answers.attempt(context);
    assert.equal(taken.length, 1);
    context.abandon();
    await looking;
    assert.equal(taken.length, 1);
  });

  test('are handed on by a request that is over before it is its turn', async () => {
    const { answers, open } = begin();
    const [leader, late, patient] = [await attemptContext(), await attemptContext(), await attemptContext()];
    void answers.attempt(leader);
    const waits = [answers.attempt(late), answers.attempt(patient)];
    answers.settled(late, testOutcome({ kind: 'failed' }));
    answers.settled(leader, testOutcome({ kind: 'cancelled' }));
    for (const wait of waits) await wait;
    assert.equal(open(), 1);
    answers.settled(patient, testOutcome());
    assert.equal(open(), 0);
  });
});
