import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Answer } from '../../core/pipeline/plugin.ts';
import type { RouteOptions, Router, Target } from '../../core/ports/router.ts';
import { optionErrors, TestContext, testScope } from '../../tests/kit/plugin-kit.ts';
import provider from './index.ts';

const answer: Answer = { status: 200, headers: [], body: null };

/** A router that notes what it was asked. */
function notingRouter() {
  const asked: { resolve: RouteOptions[]; execute: [Target, RouteOptions][] } = { resolve: [], execute: [] };
  const target = { provider: 'up' } as Target;
  const router: Router = {
    resolve(_context, options) {
      asked.resolve.push(options);
      return target;
    },
    execute(_context, given, options) {
      asked.execute.push([given, options]);
      return Promise.resolve(answer);
    },
  };
  return { router, asked, target };
}

describe('provider', () => {
  test('answers with what the router brings from the target that it resolved', async () => {
    const { router, asked, target } = notingRouter();
    const hooks = await provider.create({}, testScope({ router }).scope);
    assert.equal(await hooks.request?.(new TestContext({})), answer);
    assert.equal(asked.execute[0]?.[0], target);
    assert.deepEqual(asked.resolve[0], {
      defaultProvider: undefined,
      connectTimeoutMs: 10_000,
      headTimeoutMs: 600_000,
      idleTimeoutMs: 120_000,
      maxAnswerBytes: 67_108_864,
      strictOpenAiCompliance: true,
      onDrop: 'report',
    });
    assert.deepEqual(asked.execute[0]?.[1], asked.resolve[0]);
  });

  test('every option reaches the router', async () => {
    const { router, asked } = notingRouter();
    const options = {
      default: 'up',
      connect_timeout_ms: 1,
      head_timeout_ms: 2,
      idle_timeout_ms: 0,
      max_answer_bytes: 1024,
      strict_open_ai_compliance: false,
      on_drop: 'refuse' as const,
    };
    assert.equal(optionErrors(provider, options), '');
    const hooks = await provider.create(options, testScope({ router }).scope);
    await hooks.request?.(new TestContext({}));
    assert.deepEqual(asked.resolve[0], {
      defaultProvider: 'up',
      connectTimeoutMs: 1,
      headTimeoutMs: 2,
      idleTimeoutMs: 0,
      maxAnswerBytes: 1024,
      strictOpenAiCompliance: false,
      onDrop: 'refuse',
    });
  });

  test('a target that is only known when the body has come is waited for', async () => {
    const { router, asked, target } = notingRouter();
    const later: Router = { ...router, resolve: () => Promise.resolve(target) };
    const hooks = await provider.create({}, testScope({ router: later }).scope);
    assert.equal(await hooks.request?.(new TestContext({})), answer);
    assert.equal(asked.execute[0]?.[0], target);
  });

  test('a target that cannot be resolved refuses before anything is sent', async () => {
    const { router, asked } = notingRouter();
    const refusing: Router = {
      ...router,
      resolve() {
        throw new TypeError('no target');
      },
    };
    const hooks = await provider.create({}, testScope({ router: refusing }).scope);
    assert.throws(() => hooks.request?.(new TestContext({})), /no target/);
    assert.equal(asked.execute.length, 0);
  });

  const wrong: readonly [string, unknown, RegExp][] = [
    ['an unknown option', { retries: 3 }, /additional properties/],
    ['an empty default', { default: '' }, /default/],
    ['a negative timeout', { head_timeout_ms: -1 }, /head_timeout_ms/],
    ['a bound below 1 KiB', { max_answer_bytes: 1 }, /max_answer_bytes/],
    ['a flag that is none', { strict_open_ai_compliance: 'yes' }, /strict_open_ai_compliance/],
  ];
  for (const [name, options, message] of wrong) {
    test(`refused: ${name}`, () => assert.match(optionErrors(provider, options), message));
  }

  test('says that it answers, and has no bound beside its own timeouts', () => {
    assert.deepEqual(provider.capabilities, { answers: true, timeoutMs: 0 });
  });
});
