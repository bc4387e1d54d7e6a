import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Hooks, Scope } from '../../core/pipeline/plugin.ts';
import type { Counters, Window } from '../../core/ports/counters.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { optionErrors, TestContext, testKey, testScope } from '../../tests/kit/plugin-kit.ts';
import rateLimit, { type RateLimitOptions } from './index.ts';

async function limiter(
  options: RateLimitOptions,
  scope: Scope,
): Promise<(key?: KeyRecord) => Promise<TestContext>> {
  const hooks: Hooks = await rateLimit.create(options, scope);
  return async (key = testKey()) => {
    const context = new TestContext({ key });
    await hooks.request?.(context);
    return context;
  };
}

async function refusalOf(request: Promise<unknown>): Promise<GatewayError> {
  try {
    await request;
  } catch (error) {
    return error as GatewayError;
  }
  return assert.fail('the request was not refused');
}

describe('rate-limit: each window', () => {
  const cases: [RateLimitOptions, string, number][] = [
    [{ requests_per_minute: 2 }, '2 requests per minute for this key', 60],
    [{ requests_per_hour: 2 }, '2 requests per hour for this key', 3600],
    [{ requests_per_day: 2 }, '2 requests per day for this key', 86_400],
  ];
  for (const [options, rule, seconds] of cases) {
    test(rule, async () => {
      const { scope, clock } = testScope();
      const request = await limiter(options, scope);
      await request();
      await request();
      const error = await refusalOf(request());
      assert.equal(error.code, 'rate_limited');
      assert.match(error.limit ?? '', /^rate-limit per \w+ \(\d+ requests per \w+\)$/);
      assert.equal(error.status, 429);
      assert.ok(error.message.includes(rule), error.message);
      const [name, wait] = error.headers;
      assert.equal(name, 'retry-after');
      assert.match(String(wait), /^\d+$/);
      assert.ok(Number(wait) >= 1 && Number(wait) <= seconds * (61 / 60), `wait ${wait}`);
      clock.advance(Number(wait) * 1000);
      await request();
    });
  }

  test('a refused request takes nothing from the other windows', async () => {
    const { scope, clock } = testScope();
    const request = await limiter({ requests_per_minute: 1, requests_per_day: 3 }, scope);
    await request();
    for (let i = 0; i < 5; i += 1) await refusalOf(request());
    clock.advance(62_000);
    assert.equal((await request()).responseHeaders['x-service-ratelimit-remaining'], '0');
    clock.advance(62_000);
    assert.equal((await request()).responseHeaders['x-service-ratelimit-limit'], '3');
    clock.advance(62_000);
    assert.match((await refusalOf(request())).message, /3 requests per day/);
  });

  test('never more than the limit within a window, whatever the pace', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 5 }),
        fc.array(fc.integer({ min: 0, max: 40_000 }), { maxLength: 40 }),
        async (limit, pauses) => {
          const { scope, clock } = testScope();
          const request = await limiter({ requests_per_minute: limit }, scope);
          const accepted: number[] = [];
          for (const pause of pauses) {
            clock.advance(pause);
            await request().then(
              () => accepted.push(clock.now()),
              () => undefined,
            );
          }
          for (const at of accepted) {
            assert.ok(accepted.filter((one) => one >= at && one < at + 60_000).length <= limit);
          }
        },
      ),
      { numRuns: 50 },
    );
  });
});

describe('rate-limit: headers', () => {
  test('tell of the window with the least left', async () => {
    const { scope } = testScope();
    const request = await limiter({ requests_per_minute: 10, requests_per_hour: 3 }, scope);
    assert.deepEqual((await request()).responseHeaders, {
      'x-service-ratelimit-limit': '3',
      'x-service-ratelimit-remaining': '2',
      'x-service-ratelimit-reset': '0',
    });
  });

  test('of two windows with nothing left, the one that takes longer', async () => {
    const { scope } = testScope();
    const request = await limiter({ requests_per_minute: 1, requests_per_day: 1 }, scope);
    const { responseHeaders } = await request();
    assert.equal(responseHeaders['x-service-ratelimit-remaining'], '0');
    assert.ok(Number(responseHeaders['x-service-ratelimit-reset']) > 3600);
  });

  test('come with a refusal too, under the configured prefix', async () => {
    const { scope } = testScope({ headerPrefix: 'x-acme' });
    const hooks = await rateLimit.create({ requests_per_minute: 1 }, scope);
    await hooks.request?.(new TestContext({ key: testKey() }));
    const context = new TestContext({ key: testKey() });
    assert.throws(() => hooks.request?.(context), { code: 'rate_limited' });
    assert.equal(context.responseHeaders['x-acme-ratelimit-limit'], '1');
    assert.equal(context.responseHeaders['x-acme-ratelimit-remaining'], '0');
    assert.ok(Number(context.responseHeaders['x-acme-ratelimit-reset']) >= 1);
  });
});

describe('rate-limit: who shares a count', () => {
  const other = { id: 'key-2' };
  const cases: [RateLimitOptions['per'], Partial<KeyRecord>, boolean][] = [
    ['key', {}, true],
    ['key', other, false],
    ['key', { ...other, workspaceId: 'ws-2' }, false],
    ['key', { organisationId: 'org-2' }, false],
    ['workspace', other, true],
    ['workspace', { ...other, workspaceId: 'ws-2' }, false],
    ['workspace', { ...other, organisationId: 'org-2' }, false],
    ['organisation', { ...other, workspaceId: 'ws-2' }, true],
    ['organisation', { ...other, organisationId: 'org-2' }, false],
  ];
  for (const [per, second, shared] of cases) {
    test(`per ${per}: ${JSON.stringify(second)} ${shared ? 'shares' : 'has its own'}`, async () => {
      const request = await limiter({ requests_per_minute: 1, ...(per ? { per } : {}) }, testScope().scope);
      await request(testKey());
      const next = request(testKey(second));
      if (shared) assert.match((await refusalOf(next)).message, new RegExp(`for this ${per}`));
      else await next;
    });
  }

  test('limits with different names are counted apart, those without one together', async () => {
    const { scope } = testScope();
    const plain = await limiter({ requests_per_minute: 1 }, scope);
    const again = await limiter({ requests_per_minute: 1 }, scope);
    const named = await limiter({ requests_per_minute: 1, name: 'images' }, scope);
    await plain();
    await refusalOf(again());
    await named();
  });
});

describe('rate-limit: reload', () => {
  test('goes on counting where the old generation was', async () => {
    const { scope } = testScope();
    const before = await limiter({ requests_per_minute: 2 }, scope);
    await before();
    await before();
    const after = await limiter({ requests_per_minute: 2 }, scope);
    await refusalOf(after());
  });

  test('a raised limit counts what was used; a lowered one refuses at once', async () => {
    const { scope } = testScope();
    const before = await limiter({ requests_per_minute: 3 }, scope);
    await before();
    await before();
    const raised = await limiter({ requests_per_minute: 5 }, scope);
    assert.equal((await raised()).responseHeaders['x-service-ratelimit-remaining'], '2');
    await refusalOf((await limiter({ requests_per_minute: 1 }, scope))());
  });
});

describe('rate-limit: the store', () => {
  test('may answer later', async () => {
    const { scope } = testScope();
    const remote: Counters = {
      take: (windows, amount) => Promise.resolve(scope.counters.take(windows, amount)),
      adjust: () => Promise.resolve(),
    };
    const request = await limiter({ requests_per_minute: 1 }, { ...scope, counters: remote });
    assert.equal((await request()).responseHeaders['x-service-ratelimit-remaining'], '0');
    assert.equal((await refusalOf(request())).code, 'rate_limited');
  });

  const broken: [string, Counters['take']][] = [
    [
      'throws',
      () => {
        throw new Error('store is down');
      },
    ],
    ['rejects', () => Promise.reject(new Error('store is down'))],
  ];
  for (const [how, take] of broken) {
    test(`that ${how} is a failure, left to on_error, and no refusal`, async () => {
      const counters: Counters = { take, adjust: () => undefined };
      const request = await limiter({ requests_per_minute: 1 }, testScope({ counters }).scope);
      const error = await refusalOf(request());
      assert.equal(error.message, 'store is down');
    });
  }

  const policies: [RateLimitOptions['on_store_failure'], string][] = [
    [undefined, 'local'],
    ['local', 'local'],
    ['open', 'open'],
    ['closed', 'closed'],
  ];
  for (const [configured, asked] of policies) {
    test(`is told what to do when it is away: ${configured ?? 'nothing said'} means ${asked}`, async () => {
      const told: unknown[] = [];
      const { scope } = testScope();
      const counters: Counters = {
        take(windows, amount, onFailure) {
          told.push(onFailure);
          return scope.counters.take(windows, amount);
        },
        adjust: () => undefined,
      };
      const option = configured === undefined ? {} : { on_store_failure: configured };
      await (
        await limiter({ requests_per_minute: 1, ...option }, { ...scope, counters })
      )();
      assert.deepEqual(told, [asked]);
    });
  }

  test('that is away and lets requests through leaves no headers', async () => {
    const counters: Counters = {
      take: () => Promise.resolve({ allowed: true, refusedBy: -1, windows: [] }),
      adjust: () => undefined,
    };
    const request = await limiter({ requests_per_minute: 1 }, testScope({ counters }).scope);
    assert.deepEqual((await request()).responseHeaders, {});
  });

  test('that is away and refuses is a refusal like any other', async () => {
    const refusal = new GatewayError('limits_unavailable', 'No store.', { headers: ['retry-after', '2'] });
    const counters: Counters = { take: () => Promise.reject(refusal), adjust: () => undefined };
    const request = await limiter({ requests_per_minute: 1 }, testScope({ counters }).scope);
    const error = await refusalOf(request());
    assert.deepEqual(
      [error.code, error.status, error.headers],
      ['limits_unavailable', 503, ['retry-after', '2']],
    );
  });

  test('is told whose windows they are', async () => {
    const seen: Window[] = [];
    const { scope } = testScope();
    const counters: Counters = {
      take(windows, amount) {
        seen.push(...windows);
        return scope.counters.take(windows, amount);
      },
      adjust: () => undefined,
    };
    const request = await limiter({ requests_per_minute: 1, requests_per_day: 9 }, { ...scope, counters });
    await request(testKey({ organisationId: 'org-7' }));
    assert.deepEqual(
      seen.map(({ group }) => group),
      ['org-7', 'org-7'],
    );
  });

  test('is asked once for all windows, with the same objects for the same key', async () => {
    const calls: (readonly Window[])[] = [];
    const { scope } = testScope();
    const counters: Counters = {
      take(windows, amount) {
        calls.push(windows);
        return scope.counters.take(windows, amount);
      },
      adjust: () => undefined,
    };
    const options = { requests_per_minute: 9, requests_per_hour: 9, requests_per_day: 9 };
    const request = await limiter(options, { ...scope, counters });
    const key = testKey();
    await request(key);
    await request(key);
    assert.equal(calls.length, 2);
    assert.equal(calls[0], calls[1]);
    assert.deepEqual(
      calls[0]?.map((window) => window.windowMs),
      [60_000, 3_600_000, 86_400_000],
    );
  });
});

test('rate-limit: options', () => {
  assert.equal(optionErrors(rateLimit, { requests_per_day: 1, per: 'workspace', name: 'a-1' }), '');
  for (const policy of ['local', 'open', 'closed'])
    assert.equal(optionErrors(rateLimit, { requests_per_day: 1, on_store_failure: policy }), '');
  assert.match(
    optionErrors(rateLimit, { requests_per_day: 1, on_store_failure: 'fail' }),
    /on_store_failure/,
  );
  assert.match(optionErrors(rateLimit, { per: 'key' }), /anyOf/);
  assert.match(optionErrors(rateLimit, { requests_per_minute: 0 }), />= 1/);
  assert.match(optionErrors(rateLimit, { requests_per_minute: 1.5 }), /integer/);
  assert.match(optionErrors(rateLimit, { requests_per_second: 1, requests_per_minute: 1 }), /additional/);
});
