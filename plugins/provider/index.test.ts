import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Answer } from '../../core/pipeline/plugin.ts';
import type { RouteOptions, Router } from '../../core/pipeline/router.ts';
import { optionErrors, TestContext, testScope } from '../../tests/kit/plugin-kit.ts';
import provider from './index.ts';

const answer: Answer = { status: 200, headers: [], body: null };

/** A router that notes what it was asked. */
function notingRouter() {
  const asked: RouteOptions[] = [];
  const router: Router = {
    answer(_context, options) {
      asked.push(options);
      return Promise.resolve(answer);
    },
    expectedPrice: () => undefined,
    missingConfig: (slug) => (slug === 'known' ? undefined : `There is no config "${slug}".`),
    unusableGuardrail: () => undefined,
    toolGuardrails: () => undefined,
    checkConfig: () => undefined,
    explainConfig: () => Promise.reject(new Error('not asked')),
    credentialFor: () => [],
    storedPrices: () => undefined,
    providers: new Map(),
  };
  return { router, asked };
}

describe('provider', () => {
  test('answers with what the router brings', async () => {
    const { router, asked } = notingRouter();
    const hooks = await provider.create({}, testScope({ router }).scope);
    assert.equal(await hooks.request?.(new TestContext({})), answer);
    assert.deepEqual(asked, [
      {
        defaultProvider: undefined,
        defaultConfig: undefined,
        connectTimeoutMs: 10_000,
        headTimeoutMs: 600_000,
        idleTimeoutMs: 120_000,
        requestTimeoutMs: 0,
        firstTokenTimeoutMs: 0,
        maxAnswerBytes: 67_108_864,
        strictOpenAiCompliance: true,
        onDrop: 'report',
        configOnDrop: undefined,
        forwardHeaders: [],
        sensitiveHeaders: [],
      },
    ]);
  });

  test('every option reaches the router', async () => {
    const { router, asked } = notingRouter();
    const options = {
      default: 'up',
      config: 'known',
      connect_timeout_ms: 1,
      head_timeout_ms: 2,
      idle_timeout_ms: 0,
      request_timeout_ms: 3,
      first_token_timeout_ms: 4,
      max_answer_bytes: 1024,
      strict_open_ai_compliance: false,
      on_drop: 'refuse' as const,
    };
    assert.equal(optionErrors(provider, options), '');
    const hooks = await provider.create(options, testScope({ router }).scope);
    await hooks.request?.(new TestContext({}));
    assert.deepEqual(asked, [
      {
        defaultProvider: 'up',
        defaultConfig: 'known',
        connectTimeoutMs: 1,
        headTimeoutMs: 2,
        idleTimeoutMs: 0,
        requestTimeoutMs: 3,
        firstTokenTimeoutMs: 4,
        maxAnswerBytes: 1024,
        strictOpenAiCompliance: false,
        onDrop: 'refuse',
        configOnDrop: undefined,
        forwardHeaders: [],
        sensitiveHeaders: [],
      },
    ]);
  });

  test('a config that is not there keeps the generation from starting', () => {
    const { router } = notingRouter();
    assert.throws(
      () => provider.create({ config: 'other' }, testScope({ router }).scope),
      /no config "other"/,
    );
  });

  test('what the router refuses at once is thrown', async () => {
    const { router } = notingRouter();
    const refusing: Router = {
      ...router,
      answer() {
        throw new TypeError('no target');
      },
    };
    const hooks = await provider.create({}, testScope({ router: refusing }).scope);
    assert.throws(() => hooks.request?.(new TestContext({})), /no target/);
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
