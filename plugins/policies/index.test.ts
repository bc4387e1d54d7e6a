import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { readFeatures } from '../../core/access/features.ts';
import { noUsage } from '../../core/dialects/usage.ts';
import type { Hooks } from '../../core/pipeline/plugin.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import type { Budgets, UsageCrossing } from '../../core/ports/budgets.ts';
import type { Limiter } from '../../core/ports/counters.ts';
import type { RateLimitPolicyData } from '../../core/ports/record-kinds.ts';
import type { RecordKind, RecordPlace, StoredRecord } from '../../core/ports/records.ts';
import {
  optionErrors,
  TestContext,
  testKey,
  testOutcome,
  testScope,
  type TestRequest,
} from '../../tests/kit/plugin-kit.ts';
import policies, { type PoliciesOptions } from './index.ts';

type PolicyRecord = StoredRecord<'rate_limit_policy'>;

let made = 0;

/** A policy of one request per minute for each key of the workspace; override what the test is about. */
function policy(data: Partial<RateLimitPolicyData> = {}, record: Partial<PolicyRecord> = {}): PolicyRecord {
  const id = `policy-${++made}`;
  return {
    ...{ kind: 'rate_limit_policy', id, organisationId: 'org-1', workspaceId: 'ws-1', slug: id, name: id },
    ...{ status: 'active', parentId: '', secrets: {}, createdBy: 'ann', updatedBy: 'ann' },
    ...{ createdAt: 1, updatedAt: 1, version: 1 },
    data: {
      ...{ type: 'requests', unit: 'rpm', value: 1 },
      conditions: [{ key: 'workspace_id', value: 'ws-1' }],
      groupBy: [{ key: 'api_key' }],
      ...data,
    },
    ...record,
  };
}

interface Setting {
  readonly tell?: (crossing: UsageCrossing) => void;
  readonly options?: PoliciesOptions;
  readonly limiter?: Limiter;
  readonly off?: boolean;
  /** Slugs of configs, prompts and providers by id. */
  readonly slugs?: Readonly<Record<string, string>>;
}

/** The plugin with these policies, which a test may change. */
async function enforce(records: PolicyRecord[], setting: Setting = {}) {
  const places: RecordPlace[] = [];
  let shown: readonly PolicyRecord[] = [...records];
  const { scope, clock } = testScope({
    ...(setting.limiter && { limiter: setting.limiter }),
    ...(setting.tell && { budgets: { tell: setting.tell } as Budgets }),
    features: readFeatures(setting.off === true ? { POLICY_ENABLED: 'OFF' } : {}),
  });
  const directory = {
    ...scope.directory,
    ...withoutStore,
    records(kind: RecordKind, place: RecordPlace) {
      if (kind === 'usage_limit_policy') return [];
      assert.equal(kind, 'rate_limit_policy');
      places.push(place);
      return shown as never;
    },
    record(_kind: RecordKind, _place: RecordPlace, name: string) {
      const slug = setting.slugs?.[name];
      return slug === undefined ? undefined : ({ slug } as never);
    },
  };
  const hooks: Hooks = await policies.create(setting.options ?? {}, { ...scope, directory });
  const send = async (
    request: TestRequest = {},
    metadata: Record<string, string> = {},
  ): Promise<TestContext> => {
    const context = new TestContext({ key: testKey(), ...request });
    context.facts.metadata = metadata;
    await hooks.request?.(context);
    return context;
  };
  return {
    send,
    clock,
    places,
    hooks,
    show: (next: readonly PolicyRecord[]) => void (shown = next),
    async refused(request: TestRequest = {}, metadata: Record<string, string> = {}): Promise<GatewayError> {
      try {
        await send(request, metadata);
      } catch (error) {
        assert.equal((error as GatewayError).code, 'rate_limited', String(error));
        return error as GatewayError;
      }
      return assert.fail('the request was not refused');
    },
  };
}

describe('policies: requests', () => {
  const units = [
    ['rpm', 'minute', 60],
    ['rph', 'hour', 3600],
    ['rpd', '24 hours', 86_400],
    ['rpw', '7 days', 604_800],
  ] as const;
  for (const [unit, period, seconds] of units) {
    test(`are limited per ${period}, and the refusal names the policy`, async () => {
      const { send, refused, clock } = await enforce([policy({ unit, value: 2 }, { name: 'Fair "use"' })]);
      await send();
      await send();
      const error = await refused();
      assert.deepEqual([error.code, error.status], ['rate_limited', 429]);
      assert.match(error.message, new RegExp(`"Fair \\\\"use\\\\"" \\(2 requests per ${period}\\)`));
      const [name, wait] = error.headers;
      assert.equal(name, 'retry-after');
      assert.equal(Number(wait), seconds);
      clock.advance(Number(wait) * 1000);
      await send();
    });
  }

  test('of nobody known, and without policies, pass', async () => {
    const { hooks } = await enforce([policy({ value: 0 })]);
    await hooks.request?.(new TestContext({}));
    const none = await enforce([]);
    await none.send();
  });

  test('are limited by what holds in the place of their key', async () => {
    const { send, places } = await enforce([]);
    await send({ key: testKey({ organisationId: 'org-7', workspaceId: 'ws-7' }) });
    assert.deepEqual(places, [{ organisationId: 'org-7', workspaceId: 'ws-7' }]);
  });

  test('pass while policies are switched off', async () => {
    const { send, places } = await enforce([policy({ value: 0 })], { off: true });
    await send();
    assert.deepEqual(places, []);
  });

  test('that one policy refuses count in none', async () => {
    const wide = policy({ unit: 'rph', value: 3 });
    const { send, refused, clock } = await enforce([policy(), wide]);
    await send();
    for (let count = 0; count < 5; count++) await refused();
    clock.advance(62_000);
    await send();
    clock.advance(62_000);
    await send();
    clock.advance(62_000);
    assert.match((await refused()).message, /3 requests per hour/);
  });
});

describe('policies: alerts', () => {
  test('a policy that refuses tells it once a day, of each of its groups', async () => {
    const told: UsageCrossing[] = [];
    const perUser = policy({ groupBy: [{ key: 'metadata._user' }], unit: 'rpd' }, { name: 'Per user' });
    const { send, refused, clock } = await enforce([perUser], { tell: (one) => void told.push(one) });
    for (const user of ['ann', 'bob']) await send({}, { _user: user });
    assert.equal(told.length, 0);
    await refused({}, { _user: 'ann' });
    await refused({}, { _user: 'ann' });
    await refused({}, { _user: 'bob' });
    assert.deepEqual(
      told.map(({ subject, unit, limit, per, workspaceId }) => [
        subject.valueKey,
        unit,
        limit,
        per,
        workspaceId,
      ]),
      [
        ['metadata._user:ann', 'requests', 1, 'rpd', 'ws-1'],
        ['metadata._user:bob', 'requests', 1, 'rpd', 'ws-1'],
      ],
    );
    assert.match(told[0]?.mark ?? '', /^\d+:1$/);
    clock.advance(86_400_000);
    await send({}, { _user: 'ann' });
    await refused({}, { _user: 'ann' });
    assert.equal(told.length, 3);
    assert.notEqual(told[2]?.id, told[0]?.id);
  });

  test('limits of a key tell nobody', async () => {
    const { hooks } = await enforce([policy({ value: 9 })], { tell: () => assert.fail('told') });
    const key = testKey({ rateLimits: [{ type: 'requests', unit: 'rpm', value: 0 }] });
    await assert.rejects(async () => hooks.request?.(new TestContext({ key })), { code: 'rate_limited' });
  });
});

describe('policies: conditions', () => {
  const chat = (model: string): TestRequest => ({ body: { model } });
  const headers = (given: Record<string, string>): TestRequest => ({
    headers: Object.fromEntries(Object.entries(given).map(([name, value]) => [`x-service-${name}`, value])),
  });
  const cases: [string, string, TestRequest, boolean, Record<string, string>?][] = [
    ['api_key', 'key-1', {}, true],
    ['api_key', 'key-2', {}, false],
    ['workspace_id', 'ws-1', {}, true],
    ['workspace_id', 'ws-2', {}, false],
    ['organisation_id', 'org-1', {}, true],
    ['organisation_id', '*', {}, true],
    ['model', 'gpt-4o', chat('gpt-4o'), true],
    ['model', 'gpt-4o', chat('gpt-4o-mini'), false],
    ['model', 'gpt-4*', chat('gpt-4o-mini'), true],
    ['model', 'gpt-4o', chat('@fast/gpt-4o'), true],
    ['model', '*', {}, false],
    ['model', 'gemini-2', { path: '/v1beta/models/gemini-2:generateContent', body: {} }, true],
    ['model', 'rt', { method: 'GET', path: '/realtime', query: '?model=rt' }, true],
    ['provider', 'openai', headers({ provider: 'openai' }), true],
    ['provider', 'openai', headers({ provider: 'anthropic' }), false],
    ['provider', 'fast', headers({ provider: '@fast' }), true],
    ['provider', 'fast', headers({ 'virtual-key': 'fast' }), true],
    ['provider', 'fast', chat('@fast/gpt-4o'), true],
    ['provider', 'fast', headers({ provider: 'id-of-fast' }), true],
    ['virtual_key', 'fast', headers({ 'virtual-key': 'id-of-fast' }), true],
    ['virtual_key', 'fast', headers({ provider: '@fast' }), true],
    ['virtual_key', 'fast', headers({ provider: 'fast' }), false],
    ['virtual_key', 'fast', chat('@fast/gpt-4o'), true],
    ['config', 'pc-main', headers({ config: 'pc-main' }), true],
    ['config', 'pc-main', headers({ config: 'id-of-main' }), true],
    ['config', 'pc-main', headers({ config: ' {"provider":"x"}' }), false],
    ['config', 'pc-main', { key: testKey({ defaults: { configId: 'pc-main' } }) }, true],
    ['config', '*', {}, false],
    ['prompt', 'pp-hello', { path: '/prompts/pp-hello/completions' }, true],
    ['prompt', 'pp-hello', { path: '/prompts/pp-hello@12/completions' }, true],
    ['prompt', 'pp-hello', { path: '/prompts/pp-hello%40latest/completions' }, true],
    ['prompt', 'pp-hello', { path: '/prompts/pp-other/completions' }, false],
    ['metadata.team', 'red', {}, true, { team: 'red' }],
    ['metadata.team', 'red', {}, false, { team: 'blue' }],
    ['metadata.team', '*', {}, false],
    ['metadata.constructor', '*', {}, false],
    ['metadata._user', '*', {}, true, { _user: 'ann' }],
    ['no_such_key', '*', {}, false],
  ];
  for (const [key, value, request, holds, metadata = {}] of cases) {
    const name = `${key} = ${value} ${holds ? 'holds' : 'does not hold'} for ${JSON.stringify(request).slice(0, 90)} ${JSON.stringify(metadata)}`;
    test(name, async () => {
      const slugs = { 'id-of-fast': 'fast', 'id-of-main': 'pc-main' };
      const rules = { conditions: [{ key, value }], value: 0 };
      const { send, refused } = await enforce([policy(rules)], { slugs });
      if (holds) await refused(request, metadata);
      else await send(request, metadata);
    });
  }

  test('must all hold', async () => {
    const conditions = [
      { key: 'metadata.team', value: 'red' },
      { key: 'model', value: 'gpt-4o' },
    ];
    const { send, refused } = await enforce([policy({ conditions, value: 0 })]);
    await send(chat('gpt-4o'), { team: 'blue' });
    await send(chat('other'), { team: 'red' });
    await refused(chat('gpt-4o'), { team: 'red' });
  });

  const oneOf: [RateLimitPolicyData['conditions'][number], TestRequest, boolean][] = [
    [{ key: 'model', value: ['gpt-4o', 'o3*'] }, chat('gpt-4o'), true],
    [{ key: 'model', value: ['gpt-4o', 'o3*'] }, chat('o3-mini'), true],
    [{ key: 'model', value: ['gpt-4o', 'o3*'] }, chat('o4'), false],
    [{ key: 'model', value: '*', excludes: 'gpt-4o-mini' }, chat('gpt-4o'), true],
    [{ key: 'model', value: '*', excludes: 'gpt-4o-mini' }, chat('gpt-4o-mini'), false],
    [{ key: 'model', value: 'gpt-*', excludes: ['gpt-4o*', 'gpt-5'] }, chat('gpt-4o-mini'), false],
    [{ key: 'model', value: 'gpt-*', excludes: ['gpt-4o*', 'gpt-5'] }, chat('gpt-5'), false],
    [{ key: 'model', value: 'gpt-*', excludes: ['gpt-4o*', 'gpt-5'] }, chat('gpt-4.1'), true],
    [{ key: 'model', value: '*', excludes: 'x' }, {}, false],
    [{ key: 'endpoint_type', value: ['embeddings', 'chat.completions'] }, chat('gpt-4o'), true],
    [{ key: 'endpoint_type', value: 'embeddings' }, chat('gpt-4o'), false],
    [{ key: 'endpoint_type', value: '*', excludes: 'files' }, { path: '/files', method: 'GET' }, false],
  ];
  for (const [condition, request, holds] of oneOf)
    test(`${JSON.stringify(condition)} ${holds ? 'holds' : 'does not hold'} for ${JSON.stringify(request)}`, async () => {
      const { send, refused } = await enforce([policy({ conditions: [condition], value: 0 })]);
      if (holds) await refused(request);
      else await send(request);
    });

  test('leave uploads unread', async () => {
    const { send } = await enforce([policy({ conditions: [{ key: 'model', value: '*' }], value: 0 })]);
    const headers = { 'content-type': 'multipart/form-data; boundary=x' };
    const { body } = await send({ path: '/audio/transcriptions', headers, body: 'x' });
    assert.equal(body.loaded, false);
  });
});

describe('policies: groups', () => {
  test('have a count each, of all that they are grouped by', async () => {
    const groupBy = [{ key: 'metadata.team' }, { key: 'model' }];
    const { send, refused } = await enforce([policy({ groupBy })]);
    await send({ body: { model: 'a' } }, { team: 'red' });
    await send({ body: { model: 'b' } }, { team: 'red' });
    await send({ body: { model: 'a' } }, { team: 'blue' });
    await refused({ body: { model: 'a' } }, { team: 'red' });
    // No caller gets into another count by the text of a request.
    await send({ body: { model: '' } }, { team: 'red","a' });
  });

  test('that callers invent are bounded: new ones are refused, and none that counts is forgotten', async () => {
    const groupBy = [{ key: 'metadata.user' }];
    const { send, refused, clock } = await enforce([policy({ groupBy })], { options: { max_groups: 2 } });
    await send({}, { user: 'a' });
    await send({}, { user: 'b' });
    const error = await refused({}, { user: 'c' });
    assert.equal(error.code, 'rate_limited');
    assert.match(error.message, /counts as many groups as it can/);
    assert.match((await refused({}, { user: 'a' })).message, /is used up/);
    clock.advance(60_000);
    await send({}, { user: 'c' });
  });

  test('of keys are not: the one that was used longest ago makes room, and goes on counting', async () => {
    const { send, refused } = await enforce([policy()], { options: { max_groups: 1 } });
    for (const id of ['a', 'b', 'c']) await send({ key: testKey({ id }) });
    for (const id of ['a', 'b', 'c']) await refused({ key: testKey({ id }) });
  });

  test('with long names are counted under a digest', async () => {
    const groupBy = [{ key: 'metadata.user' }];
    const { send, refused } = await enforce([policy({ groupBy })]);
    await send({}, { user: 'a'.repeat(1000) });
    await send({}, { user: `${'a'.repeat(1000)}b` });
    await refused({}, { user: 'a'.repeat(1000) });
  });

  test('go on counting when the policy changes', async () => {
    const before = policy({ value: 3 });
    const { send, refused, show } = await enforce([before]);
    await send();
    await send();
    show([{ ...before, version: 2, data: { ...before.data, value: 2 } }]);
    await refused();
    show([{ ...before, version: 3, data: { ...before.data, value: 3 } }]);
    await send();
  });
});

describe('policies: tokens', () => {
  const tokens = (value: number) => policy({ type: 'tokens', value });
  const body = { model: 'm', max_tokens: 40, messages: [{ role: 'user', content: 'x'.repeat(160) }] };
  const used = (totalTokens: number) => ({ ...noUsage, totalTokens });

  test('are reserved, and counted as they were used', async () => {
    const { send, refused, hooks } = await enforce([tokens(1000)]);
    const context = await send({ body });
    context.facts.usage = used(995);
    await hooks.settled?.(context, testOutcome());
    const error = await refused({ body });
    assert.match(error.message, /1000 tokens per minute/);
    assert.equal(error.headers[0], 'retry-after');
    assert.ok(Number(error.headers[1]) >= 1);
  });

  test('that were reserved and not used are given back', async () => {
    const { send, hooks } = await enforce([tokens(100)]);
    for (let count = 0; count < 20; count++) {
      const context = await send({ body });
      const outcome = testOutcome({ kind: count % 2 === 0 ? 'refused' : 'failed' });
      await hooks.settled?.(context, outcome);
    }
  });

  test('of answers from the cache do not count', async () => {
    const { send, hooks } = await enforce([tokens(100)]);
    for (let count = 0; count < 5; count++) {
      const context = await send({ body });
      context.facts.usage = used(90);
      context.facts.cacheStatus = 'SEMANTIC HIT';
      await hooks.settled?.(context, testOutcome());
    }
  });

  test('of a request that the client left stay reserved when nobody knows them', async () => {
    const { send, refused, hooks } = await enforce([tokens(100)]);
    const context = await send({ body });
    context.facts.attempts = 1;
    await hooks.settled?.(context, testOutcome({ kind: 'cancelled' }));
    await refused({ body });
  });

  test('while others are on their way are limited by what these reserved', async () => {
    const { send, refused } = await enforce([tokens(100)]);
    await send({ body });
    await refused({ body });
  });

  test('a request that asks for more than the limit passes when nothing else was used', async () => {
    const { send, refused } = await enforce([tokens(10)]);
    await send({ body });
    await refused({ body });
    const none = await enforce([tokens(0)]);
    await none.refused({ body });
  });

  test('a request that is refused for them counts as no request', async () => {
    const { send, refused, hooks } = await enforce([policy({ value: 2 }), tokens(100)]);
    const context = await send({ body });
    context.facts.usage = used(100);
    for (let count = 0; count < 3; count++) assert.match((await refused({ body })).message, /tokens/);
    context.facts.usage = used(0);
    await hooks.settled?.(context, testOutcome());
    await send({ body });
  });

  test('never add up to more than the limit and the last answer', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 500 }),
        fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 30 }),
        async (limit, answers) => {
          const { send, hooks } = await enforce([tokens(limit)]);
          let total = 0;
          for (const one of answers) {
            const before = total;
            const context = await send({ body }).catch(() => undefined);
            if (context === undefined) continue;
            assert.ok(before < limit, `let in at ${before} of ${limit}`);
            context.facts.usage = used(one);
            await hooks.settled?.(context, testOutcome());
            total += one;
          }
        },
      ),
      { numRuns: 50 },
    );
  });
});

describe('policies: the store', () => {
  test('may answer later', async () => {
    const { scope } = testScope();
    const limiter: Limiter = {
      admit: (charges, tokens) => Promise.resolve(scope.limiter.admit(charges, tokens)),
    };
    const { send, refused } = await enforce([policy(), policy({ type: 'tokens', value: 9000 })], {
      limiter,
    });
    await send();
    assert.equal((await refused()).code, 'rate_limited');
  });

  for (const configured of [undefined, 'local', 'open', 'closed'] as const) {
    test(`is told what to do when it is away: ${configured ?? 'nothing said'}`, async () => {
      const told: unknown[] = [];
      const limiter: Limiter = { admit: (_charges, _tokens, onFailure) => void told.push(onFailure) };
      const options = configured === undefined ? {} : { on_store_failure: configured };
      const records = [policy(), policy({ type: 'tokens' })];
      const { send, hooks } = await enforce(records, { limiter, options });
      await hooks.settled?.(await send(), testOutcome());
      assert.deepEqual(told, [configured ?? 'local'], 'it is one decision');
    });
  }

  test('is told whose windows they are', async () => {
    const groups: unknown[] = [];
    const limiter: Limiter = {
      admit: ({ requests }) => void groups.push(...(requests?.windows ?? []).map(({ group }) => group)),
    };
    const { send } = await enforce([policy()], { limiter });
    await send();
    assert.deepEqual(groups, ['org-1']);
  });
});

test('policies: options', () => {
  assert.equal(optionErrors(policies, {}), '');
  assert.equal(optionErrors(policies, { max_groups: 5, on_store_failure: 'closed' }), '');
  assert.match(optionErrors(policies, { max_groups: 0 }), />= 1/);
  assert.match(optionErrors(policies, { requests_per_minute: 1 }), /additional/);
});
