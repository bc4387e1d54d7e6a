// What configs say about caching, at a whole gateway with several targets.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import auth from '../../plugins/auth/index.ts';
import cache, { type CacheOptions } from '../../plugins/cache/index.ts';
import { ManualClock } from '../conformance/manual-clock.ts';
import { asking, brief, counting, type Asked } from '../kit/cache-kit.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../kit/gateway-kit.ts';
import { send, startUpstream, until, type Answering, type Received } from '../kit/http-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';

const failing: Answering = (_request, response) => {
  response.writeHead(503, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error: { message: 'away' } }));
};

interface Parts extends TestGatewayOptions {
  readonly options?: CacheOptions;
  readonly first?: Answering;
}

async function begin(t: TestContext, { options, first = failing, ...rest }: Parts = {}) {
  const down = await startUpstream(t, first);
  const up = await startUpstream(t, counting());
  const gateway = await startTestGateway(t, {
    plugins: [
      auth,
      { plugin: cache, options: options ?? { mode: 'config' } },
      providerPlugin({ default: 'up' }),
    ],
    keys: { wk_one: testKey() },
    providers: {
      down: { base_url: down.url, api_key: 'held' },
      up: { base_url: up.url, api_key: 'held-too' },
    },
    ...rest,
  });
  const ask = (config: object | undefined, more: Asked = {}): Promise<Received> => {
    const named: Record<string, string> =
      config === undefined ? {} : { 'x-service-config': JSON.stringify(config) };
    return send(gateway.url, asking({ ...more, headers: { ...more.headers, ...named } }));
  };
  return {
    gateway,
    down,
    up,
    ask,
    told: async (config: object | undefined, more?: Asked): Promise<string> => brief(await ask(config, more)),
  };
}

const target = { provider: '@up' };
const fallback = (down: object, up: object): object => ({
  strategy: { mode: 'fallback' },
  targets: [
    { provider: '@down', ...down },
    { provider: '@up', ...up },
  ],
});
const simple = { cache: { mode: 'simple' } };

describe('a config', () => {
  test('decides whether anything is cached', async (t) => {
    const { told } = await begin(t);
    assert.equal(await told(undefined), 'DISABLED answer 1');
    assert.equal(await told(target), 'DISABLED answer 2');
    assert.equal(await told({ ...target, ...simple }), 'MISS answer 3');
    assert.equal(await told({ ...target, ...simple }), 'HIT answer 3');
    assert.equal(await told(target), 'DISABLED answer 4');
  });

  test('counts max_age in seconds', async (t) => {
    const clock = new ManualClock();
    const { told } = await begin(t, { clock });
    const config = { ...target, cache: { mode: 'simple', max_age: 60 } };
    await told(config);
    clock.advance(59_999);
    assert.equal(await told(config), 'HIT answer 1');
    clock.advance(1);
    assert.equal(await told(config), 'MISS answer 2');
  });

  test('gets no longer max_age than the plugin allows', async (t) => {
    const clock = new ManualClock();
    const { told } = await begin(t, { clock, options: { mode: 'config', max_age_limit: 10 } });
    const config = { ...target, cache: { mode: 'simple', max_age: 60 } };
    await told(config);
    clock.advance(10_000);
    assert.equal(await told(config), 'MISS answer 2');
  });

  test('asks for similar questions where the plugin has none: the very same are found', async (t) => {
    const { told, gateway } = await begin(t);
    const config = { ...target, cache: { mode: 'semantic' } };
    assert.deepEqual([await told(config), await told(config)], ['MISS answer 1', 'HIT answer 1']);
    assert.equal(gateway.lines.filter(({ message }) => message.includes('semantic cache')).length, 1);
  });
});

describe('a request that is tried at two targets', () => {
  const count = ({ rawHeaders }: Received): number =>
    rawHeaders.filter((one) => one.toLowerCase() === 'x-service-cache-status').length;

  test('says once what the cache did, of the last one', async (t) => {
    const { ask, down, up } = await begin(t);
    const config = fallback(simple, {});
    for (let i = 1; i <= 2; i++) {
      const answer = await ask(config);
      assert.equal(brief(answer), `DISABLED answer ${i}`);
      assert.equal(count(answer), 1);
    }
    assert.deepEqual([down.requests.length, up.requests.length], [2, 2], 'nothing was kept for the first');
  });

  test('keeps the answer of the one that gave it', async (t) => {
    const { told, down, up } = await begin(t);
    const config = fallback(simple, simple);
    assert.equal(await told(config), 'MISS answer 1');
    assert.equal(await told(config), 'HIT answer 1');
    assert.deepEqual([down.requests.length, up.requests.length], [2, 1]);
  });

  test('keeps it for the one that gave it within a namespace, too', async (t) => {
    const { told, down, up } = await begin(t);
    const config = fallback(simple, simple);
    const more = { headers: { 'x-service-cache-namespace': 'docs' } };
    assert.equal(await told(config, more), 'MISS answer 1');
    assert.equal(await told(config, more), 'HIT answer 1');
    assert.deepEqual([down.requests.length, up.requests.length], [2, 1]);
  });

  test('lets those who wait for the first go on as soon as that has failed', async (t) => {
    const answers: (() => void)[] = [];
    const { told, down } = await begin(t, {
      first: (...call) => void answers.push(() => failing(...call)),
    });
    const config = fallback(simple, simple);
    const all = [told(config), told(config)];
    await until(() => down.requests.length === 1, 'the first call');
    answers[0]?.();
    await until(() => down.requests.length === 2, 'the call of the one who waited');
    answers[1]?.();
    for (const one of await Promise.all(all)) assert.match(one, /^(?:MISS|HIT) answer [12]$/);
  });
});
