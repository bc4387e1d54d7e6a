import * as up from '../../tests/kit/upstream-scenes.ts';
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { providerPlugin, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { until } from '../../tests/kit/http-kit.ts';
import { type Asked, startPlanGateway } from '../../tests/kit/plan-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { key as ofKey, ours } from '../../tests/kit/routing-kit.ts';
import auth from '../../plugins/auth/index.ts';
import policies from '../../plugins/policies/index.ts';
import { createPrices } from '../../adapters/pricing/genai-prices.ts';
import { recordingLog } from '../lifecycle/recording-services.test-support.ts';
import { type ExpectedUse, nothingUsed, type RateLimit } from '../ports/budgets.ts';
import { definePlugin } from '../pipeline/plugin.ts';
import type { Limiter } from '../ports/counters.ts';
import type { IntegrationData } from '../ports/record-kinds.ts';
import type { StoredRecord } from '../ports/records.ts';
import { integration, model, provider, recordsDirectory } from './stored-records.test-support.ts';

const theirs = 'wk_of-another-workspace';
const requests = (value: number) => ({ type: 'requests', unit: 'rpm', value }) as const satisfies RateLimit;
const tokens = (value: number) => ({ type: 'tokens', unit: 'rpm', value }) as const satisfies RateLimit;
const single = { provider: '@one' };
const two = { strategy: { mode: 'fallback' }, targets: [{ provider: '@one' }, { provider: '@two' }] };
const fallback = (more: object) => ({ ...two, strategy: { mode: 'fallback', ...more } });
const chat = { headers: ofKey };

/** A provider that speaks to `http://a.test` or `http://b.test`, with its integration. */
function stored(
  slug: 'one' | 'two',
  rateLimits: readonly RateLimit[] = [],
  data: Partial<IntegrationData> = {},
): readonly StoredRecord[] {
  const row = slug === 'one' ? 'row-a' : 'row-b';
  return [
    integration({ key: 'k' }, { aiProviderId: row, ...data }, { id: `i-${slug}`, slug: `of-${slug}` }),
    provider({ rateLimits }, { id: `p-${slug}`, slug, parentId: `i-${slug}` }),
  ];
}

const access = (...rateLimits: readonly RateLimit[]) => ({ enabled: true, usageLimits: [], rateLimits });

type Scenes = Parameters<typeof startPlanGateway>[1];

async function started(
  t: TestContext,
  records: readonly StoredRecord[],
  { scenes = {}, ...more }: TestGatewayOptions & { scenes?: Scenes } = {},
) {
  const directory = recordsDirectory(records);
  const kit = await startPlanGateway(
    t,
    { a: [up.chat('from a')], b: [up.chat('from b')], ...scenes },
    {
      directory,
      plugins: [auth, policies, providerPlugin()],
      keys: { [ours]: testKey(), [theirs]: testKey({ id: 'key-2', workspaceId: 'ws-2' }) },
      table: new Map(
        ['a', 'b'].map((name) => [`row-${name}`, { base_url: `http://${name}.test/v1` }] as const),
      ),
      ...more,
    },
  );
  const ask = (config: object | undefined, options = chat): Promise<Asked> => kit.answer(config, options);
  const told = async (config: object | undefined, options = chat) => {
    const answer = await ask(config, options);
    return { status: answer.status, code: (answer.json().error?.code ?? '') as string };
  };
  return { ...kit, directory, ask, told };
}

const limited = { status: 429, code: 'provider_rate_limited' };
const good = { status: 200, code: '' };

describe('a target over its limit', () => {
  const ways: [string, object | undefined, Record<string, string>][] = [
    ['a config', single, {}],
    ['a header', undefined, { 'x-service-provider': '@one' }],
    ['a virtual key', undefined, { 'x-service-virtual-key': 'one' }],
  ];
  for (const [name, config, headers] of ways) {
    test(`that ${name} names answers 429 without being asked, until there is room again`, async (t) => {
      const { ask, called, clock } = await started(t, stored('one', [requests(1)]));
      const options = { headers: { ...ofKey, ...headers } };
      assert.equal((await ask(config, options)).status, 200);
      const refused = await ask(config, options);
      assert.equal(refused.status, 429);
      const { code, type, message } = refused.json().error;
      assert.deepEqual([code, type], ['provider_rate_limited', 'rate_limit_error']);
      assert.match(message, /^The rate limit of the provider "@one" \(1 request per minute\) is used up\./);
      const wait = Number(refused.headers['retry-after']);
      assert.ok(wait >= 60 && wait <= 61, String(wait));
      const { facts } = await refused.settled();
      assert.deepEqual([facts.attempts, facts.upstreamStartedAt, called()], [0, 0, ['a']]);
      await clock.pass(wait * 1000);
      assert.equal((await ask(config, options)).status, 200);
    });
  }

  test('gives way to the next target of a fallback', async (t) => {
    const { ask, called } = await started(t, [...stored('one', [requests(1)]), ...stored('two')]);
    await ask(two);
    const answer = await ask(two);
    assert.equal(answer.json().choices[0].message.content, 'from b');
    assert.equal(answer.headers['x-service-last-used-option-index'], 'config.targets[1]');
    assert.deepEqual(called(), ['a', 'b']);
    const { facts } = await answer.settled();
    assert.equal(facts.attempts, 1);
    assert.deepEqual(
      facts.attemptRecords.map(({ provider: name, status, error, lost }) => [name, status, error, lost]),
      [
        ['one', 429, 'provider_rate_limited', true],
        ['two', 200, '', false],
      ],
    );
    assert.deepEqual(facts.limits, ['provider "@one" (1 request per minute)']);
    assert.match(facts.attemptRecords[0]?.skipped ?? '', /"@one" \(1 request per minute\) is used up/);
    assert.equal(facts.attemptRecords[1]?.skipped, undefined);
  });

  test('says in the decision of a request why it was skipped', async (t) => {
    const { ask } = await started(t, [...stored('one', [requests(1)]), ...stored('two')]);
    await ask(two);
    const answer = await ask(two, { headers: { ...ofKey, 'x-service-explain': 'true' } } as typeof chat);
    const { attempts } = JSON.parse((await answer.settled()).facts.decision);
    assert.match(attempts[0].skipped, /^The rate limit of the provider "@one" \(1 request per minute\)/);
    assert.deepEqual([attempts.length, Object.hasOwn(attempts[1], 'skipped')], [2, false]);
  });

  const codes: [string, object, object][] = [
    ['that falls back on 429', { on_status_codes: [429] }, good],
    ['that falls back on other codes only', { on_status_codes: [500] }, limited],
  ];
  for (const [name, strategy, expected] of codes) {
    test(`in a fallback ${name} is ${expected === good ? 'passed over' : 'the answer'}`, async (t) => {
      const { told } = await started(t, [...stored('one', [requests(1)]), ...stored('two')]);
      await told(fallback(strategy));
      assert.deepEqual(await told(fallback(strategy)), expected);
    });
  }

  test('is not retried: it is known that there is no room', async (t) => {
    const { told, clock, called } = await started(t, stored('one', [requests(1)]));
    const config = { ...single, retry: { attempts: 3, on_status_codes: [429] } };
    await told(config);
    const before = clock.now();
    assert.deepEqual(await told(config), limited);
    assert.deepEqual([clock.now() - before, called()], [0, ['a']]);
  });

  test('counts every retry, which is a request to the provider', async (t) => {
    const scenes = { a: [up.fails(500)] };
    const { told, called } = await started(t, stored('one', [requests(2)]), { scenes });
    const config = { ...single, retry: { attempts: 3, on_status_codes: [500, 429] } };
    assert.deepEqual([await told(config), called()], [limited, ['a', 'a']]);
  });

  test('has not failed: its breaker stays closed', async (t) => {
    const { ask, called, clock } = await started(t, [...stored('one', [requests(1)]), ...stored('two')]);
    const config = fallback({ cb_config: { failure_threshold: 1, cooldown_interval: 600_000 } });
    for (let count = 0; count < 4; count++) await ask(config);
    await clock.pass(61_001);
    await ask(config);
    assert.deepEqual(called(), ['a', 'b', 'b', 'b', 'a']);
  });

  test('loses a race at once', async (t) => {
    const { ask, called } = await started(t, [...stored('one', [requests(1)]), ...stored('two')]);
    const config = { ...two, hedge: { after_ms: 300, max: 1 } };
    await ask(config);
    const answer = await ask(config);
    assert.equal(answer.json().choices[0].message.content, 'from b');
    assert.deepEqual(called(), ['a', 'b']);
  });

  test('is one by what the administration says of it now', async (t) => {
    const [ofOne, before] = stored('one', [requests(1)]) as [StoredRecord, StoredRecord<'provider'>];
    const { told, directory } = await started(t, [ofOne, before]);
    await told(single);
    assert.deepEqual(await told(single), limited);
    directory.put({ ...before, version: 2, data: { ...before.data, rateLimits: [requests(2)] } });
    assert.deepEqual(await told(single), good);
    assert.deepEqual(await told(single), limited);
    directory.put({ ...before, version: 3, data: { ...before.data, rateLimits: [] } });
    assert.deepEqual(await told(single), good);
  });
});

describe('the limit of a workspace at an integration', () => {
  const ofAll = (data: Partial<IntegrationData>) =>
    integration(
      { key: 'k' },
      { aiProviderId: 'row-a', ...data },
      { id: 'i', slug: 'shared', workspaceId: undefined },
    );
  const named = (slug: string, workspaceId = 'ws-1') =>
    provider({}, { id: `${workspaceId}-${slug}`, slug, workspaceId, parentId: 'i' });
  const other = { headers: { 'x-service-api-key': theirs } };

  test('is shared by its providers there, and by nobody elsewhere', async (t) => {
    const records = [
      ofAll({ workspaces: { 'ws-1': access(requests(2)), 'ws-2': access(requests(1)) } }),
      ...[named('one'), named('two'), named('one', 'ws-2')],
    ];
    const { ask, told } = await started(t, records);
    assert.deepEqual([await told(single), await told({ provider: '@two' })], [good, good]);
    const refused = await ask(single);
    assert.match(
      refused.json().error.message,
      /of the integration "shared" in this workspace \(2 requests per minute\)/,
    );
    assert.deepEqual([await told(single, other), await told(single, other)], [good, limited]);
  });

  test('is that of all workspaces where the integration does not name it', async (t) => {
    const records = [
      ofAll({ globalAccess: access(requests(1)), workspaces: { 'ws-2': access() } }),
      ...[named('one'), named('one', 'ws-2')],
    ];
    const { told } = await started(t, records);
    assert.deepEqual([await told(single), await told(single)], [good, limited]);
    assert.deepEqual([await told(single, other), await told(single, other)], [good, good]);
  });

  test('holds beside those of the provider: what one refuses counts in neither', async (t) => {
    const records = [
      ofAll({ globalAccess: access(requests(2)) }),
      provider({ rateLimits: [requests(1)] }, { id: 'p', slug: 'one', parentId: 'i' }),
      named('two'),
    ];
    const { told } = await started(t, records);
    assert.deepEqual([await told(single), await told(single), await told(single)], [good, limited, limited]);
    assert.deepEqual(await told({ provider: '@two' }), good);
    assert.deepEqual(await told({ provider: '@two' }), limited);
  });
});

describe('a limit of tokens at a target', () => {
  /** Takes about 40 tokens at first; an answer has used 7 of them, and so many are taken for the next one. */
  const bounded = { ...chat, body: { max_tokens: 20 } };

  test('takes what an attempt will probably use, and counts what it has used', async (t) => {
    const { told } = await started(t, stored('one', [tokens(100)]));
    const answers = [];
    for (let count = 0; count < 20; count++) answers.push((await told(single, bounded)).status);
    const served = answers.indexOf(429);
    assert.ok(served >= 12 && served <= 14, answers.join());
  });

  test('holds them while an answer is on its way', async (t) => {
    const scenes = { a: [up.after(5000, up.chat('from a'))] };
    const { ask, begin, transport, told } = await started(t, stored('one', [tokens(60)]), { scenes });
    const first = begin(single, bounded);
    await until(() => transport.calls.length > 0, 'the provider is asked');
    assert.deepEqual(await told(single, bounded), limited);
    await first.finish();
    assert.equal((await ask(single, bounded)).status, 200);
  });

  const failures: [string, Scenes, object][] = [
    ['was refused', { a: [up.fails(500)] }, single],
    ['broke off', { a: [up.refuses()] }, single],
    ['gave way to another target', { a: [up.fails(500)] }, two],
    ['was made again', { a: [up.fails(500)] }, { ...single, retry: { attempts: 1, on_status_codes: [500] } }],
  ];
  for (const [name, scenes, config] of failures) {
    test(`gets back everything of an attempt that ${name}`, async (t) => {
      const records = [...stored('one', [tokens(60)]), ...stored('two')];
      const { ask, called } = await started(t, records, { scenes: { b: [up.chat('from b')], ...scenes } });
      for (let count = 0; count < 4; count++) await ask(config, bounded);
      assert.ok(called().filter((one) => one === 'a').length >= 4, called().join());
    });
  }

  test('counts what an attempt has used whose good answer was passed over', async (t) => {
    const { told } = await started(t, [...stored('one', [tokens(10)]), ...stored('two')]);
    const config = fallback({ on_status_codes: [200] });
    assert.deepEqual([await told(config, bounded), await told(config, bounded)], [good, limited]);
  });

  test('counts what an attempt that lost a race was sent', async (t) => {
    const scenes = { a: [up.silent()] };
    const { ask, called } = await started(t, [...stored('one', [tokens(60)]), ...stored('two')], { scenes });
    const config = { ...two, hedge: { after_ms: 300, max: 1 } };
    for (let count = 0; count < 2; count++) await ask(config, bounded);
    // What it was sent leaves too little for another one.
    assert.deepEqual(called(), ['a', 'b', 'b']);
  });

  test('counts what the winner of a race has used', async (t) => {
    const scenes = { a: [up.after(400, up.chat('from a'))], b: [up.silent()] };
    const { ask, told } = await started(t, [...stored('one', [tokens(60)]), ...stored('two')], { scenes });
    assert.equal((await ask({ ...two, hedge: { after_ms: 300, max: 1 } }, bounded)).status, 200);
    const { status } = await told(single, bounded);
    assert.equal(status, 200);
  });
});

describe('what requests use', () => {
  test('is learned once of each, whether its key or its target has limits, or both', async (t) => {
    const limit = { type: 'tokens', creditLimit: 1_000_000 } as const;
    const limitedKey = { [ours]: testKey({ usageLimits: [{ limit, createdAt: 1 }] }) };
    const places: [name: string, rates: readonly RateLimit[], more: TestGatewayOptions][] = [
      ['the key', [], { keys: limitedKey }],
      ['the target', [tokens(1_000_000)], {}],
      ['both', [tokens(1_000_000)], { keys: limitedKey }],
    ];
    for (const [name, rates, more] of places) {
      const expected: number[] = [];
      const limiter: Limiter = {
        admit(_charges, one) {
          expected.push(one.tokens);
          return { isAdmitted: true, reserved: nothingUsed, settle: () => undefined };
        },
      };
      const said = (completion: number) =>
        up.answers(200, {
          ...{ id: 'x', model: 'm', choices: [{ index: 0, message: { role: 'assistant', content: 'Yes' } }] },
          usage: { prompt_tokens: 30, completion_tokens: completion, total_tokens: 30 + completion },
        });
      const scenes = { a: [said(10), said(110), said(10)] };
      const { ask } = await started(t, stored('one', rates), { limiter, scenes, ...more });
      for (let count = 0; count < 3; count++) await (await ask(single)).settled();
      // A tenth of what the second one has used more.
      assert.equal(expected.at(-1), 30 + 10 + (110 - 10) / 10, name);
    }
  });
});

describe('what a request will cost is told to limits before it is sent', () => {
  const dollars = { type: 'cost', creditLimit: 100 } as const;
  const pricing = { requestToken: 0.001, responseToken: 0.01 };
  const body = { model: 'priced', max_tokens: 50 };
  const slug = { ...body, model: '@one/priced' };
  const renamed = { ...single, override_params: { model: 'priced' } };
  const byOne = { 'x-service-provider': '@one' };
  const ways: [
    how: string,
    config: object | undefined,
    more: Readonly<Record<string, string>>,
    sent: object,
  ][] = [
    ['a header', undefined, byOne, body],
    ['a virtual key', undefined, { 'x-service-virtual-key': 'one' }, body],
    ['the model', undefined, {}, slug],
    ['a config', single, {}, body],
    ['a config that names the model', renamed, {}, { ...body, model: 'other' }],
    ['a config that leaves the provider to the request', { retry: { attempts: 1 } }, byOne, body],
    ['the first target of a config', two, {}, body],
  ];
  for (const [how, config, more, sent] of ways) {
    test(`at the price of the integration, where ${how} says where it goes`, async (t) => {
      const expected: ExpectedUse[] = [];
      const limiter: Limiter = { admit: (_charges, one) => void expected.push(one) };
      const [ofOne, one] = stored('one', [], { models: [model('priced', { pricing })] });
      const limited = { ...one, data: { ...one?.data, usageLimits: dollars } };
      const records = [ofOne, limited, ...stored('two')] as StoredRecord[];
      const key = testKey({ usageLimits: [{ limit: dollars, createdAt: 1 }] });
      const { ask } = await started(t, records, {
        limiter,
        keys: { [ours]: key },
        prices: createPrices({ log: recordingLog([]) }),
        plugins: [auth, policies, providerPlugin()],
      });
      const answer = await ask(config, { headers: { ...ofKey, ...more }, body: sent } as typeof chat);
      assert.equal(answer.status, 200, answer.text);
      const costs = expected.map(({ cost = 0, tokens }) => [Math.round(cost * 1000), tokens > 50] as const);
      const [ofKeys] = expected;
      // 50 tokens of the answer at ten thousandths of a dollar, and those of the request at one.
      const cost = 500 + (ofKeys?.tokens ?? 0) - 50;
      const isCloseTo = (told: number): boolean => Math.abs(told - cost) <= 5;
      assert.ok(
        expected.length === 2 && costs.every(([told, isMore]) => isMore && isCloseTo(told)),
        String(costs),
      );
    });
  }

  test('a config that is none says nothing, and is refused for that', async (t) => {
    const key = testKey({ usageLimits: [{ limit: dollars, createdAt: 1 }] });
    const { told } = await started(t, stored('one'), { keys: { [ours]: key } });
    assert.deepEqual(await told({ strategy: {} }), { status: 400, code: 'invalid_config' });
  });
});

describe('while the store that counts is away', () => {
  const away = (told: unknown[]): Limiter => ({
    admit(_charges, _tokens, onFailure) {
      told.push(onFailure);
      return Promise.resolve(undefined);
    },
  });
  for (const said of [undefined, 'open', 'closed'] as const) {
    test(`the choice of the plugin \`policies\` holds: ${said ?? 'nothing said'}`, async (t) => {
      const told: unknown[] = [];
      const options = said === undefined ? {} : { on_store_failure: said };
      const { ask } = await started(t, stored('one', [requests(1), tokens(1)]), {
        limiter: away(told),
        plugins: [auth, { plugin: policies, options }, providerPlugin()],
      });
      assert.equal((await ask(single)).status, 200);
      assert.deepEqual(told, [said]);
    });
  }

  test('a target without a limit never asks it', async (t) => {
    const told: unknown[] = [];
    const { ask } = await started(t, stored('one'), { limiter: away(told) });
    assert.equal((await ask(single)).status, 200);
    assert.deepEqual(told, []);
  });

  test('a client that leaves meanwhile is not served, and what was taken is given back', async (t) => {
    let decide: (() => void) | undefined;
    const used: number[] = [];
    const slow: Limiter = {
      admit: () =>
        new Promise((resolve) => {
          decide = () =>
            resolve({
              isAdmitted: true,
              reserved: { cost: 0, tokens: 20, requests: 0 },
              settle: ({ tokens: count }) => void used.push(count),
            });
        }),
    };
    let hasLeft = false;
    const watching = definePlugin({
      name: 'watching',
      create: () => ({ request: (context) => void context.onAbort(() => (hasLeft = true)) }),
    });
    const { begin, called, gateway } = await started(t, stored('one', [tokens(20)]), {
      limiter: slow,
      plugins: [auth, watching, providerPlugin()],
    });
    const asked = begin(single, chat);
    await until(() => decide !== undefined, 'the limiter is asked');
    asked.abort();
    await until(() => hasLeft, 'the gateway knows that the client has left');
    decide?.();
    await gateway.untilSettled();
    assert.deepEqual([used, called()], [[0], []]);
  });
});
