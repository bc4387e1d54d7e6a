// What configs say about caching, and what the plugin makes of it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  RecordingMetrics,
  recordingLog,
  type Line,
} from '../../core/lifecycle/recording-services.test-support.ts';
import type { Answer } from '../../core/pipeline/answer.ts';
import type { Hooks } from '../../core/pipeline/plugin.ts';
import type { CacheSettings } from '../../core/ports/cache.ts';
import { settle } from '../../tests/conformance/manual-clock.ts';
import { attemptContext, type TestAttemptContext } from '../../tests/kit/attempt-kit.ts';
import { completion, question } from '../../tests/kit/cache-kit.ts';
import { testOutcome, testScope } from '../../tests/kit/plugin-kit.ts';
import cache, { type CacheOptions } from './index.ts';

const settings = (change: Partial<CacheSettings> = {}): CacheSettings => ({
  mode: 'simple',
  maxAgeMs: undefined,
  threshold: undefined,
  ...change,
});

async function begin(options: CacheOptions = {}) {
  const lines: Line[] = [];
  const { scope, clock } = testScope({ log: recordingLog(lines) });
  const hooks: Hooks = await cache.create(options, scope);
  /** One request that asks, answered by a provider when the cache does not. */
  const ask = async (said?: CacheSettings, more: object = {}): Promise<string> => {
    const context = await attemptContext({
      body: question,
      ...(said === undefined ? {} : { cache: said }),
      ...more,
    });
    await attempt(hooks, context);
    await hooks.settled?.(context, testOutcome());
    return context.facts.cacheStatus;
  };
  return { ask, hooks, clock, lines };
}

/** The attempt as the router makes it. */
async function attempt(hooks: Hooks, context: TestAttemptContext, text = 'a'): Promise<Answer | undefined> {
  const found = await hooks.attempt?.(context);
  if (found !== undefined) return found;
  const answer: Answer = {
    status: 200,
    source: 'provider',
    headers: ['content-type', 'application/json'],
    body: Buffer.from(JSON.stringify(completion(text))),
  };
  await hooks.attempted?.(context, answer);
  return undefined;
}

describe('the mode', () => {
  const table: readonly (readonly [CacheOptions['mode'], CacheSettings | undefined, string])[] = [
    ['simple', undefined, 'HIT'],
    ['simple', settings(), 'HIT'],
    ['simple', settings({ mode: 'off' }), 'DISABLED'],
    ['simple', settings({ mode: 'semantic' }), 'HIT'],
    ['config', undefined, 'DISABLED'],
    ['config', settings(), 'HIT'],
    ['config', settings({ mode: 'off' }), 'DISABLED'],
  ];
  for (const [mode, said, second] of table) {
    test(`${mode}, and a config that says ${said?.mode ?? 'nothing'}`, async () => {
      const { ask } = await begin(mode === undefined ? {} : { mode });
      assert.equal(await ask(said), second === 'HIT' ? 'MISS' : 'DISABLED');
      assert.equal(await ask(said), second);
    });
  }

  test('semantic where the plugin has no vectors is simple, and said once', async () => {
    const { ask, lines } = await begin();
    const said = settings({ mode: 'semantic' });
    assert.deepEqual([await ask(said), await ask(said)], ['MISS', 'HIT']);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['warn'],
    );
    assert.match(lines[0]?.message ?? '', /only the very same questions .* option "semantic"/);
  });
});

describe('max_age', () => {
  const table: readonly (readonly [string, CacheOptions, number | undefined, number])[] = [
    ['that of the plugin when the config has none', { max_age: 60 }, undefined, 60_000],
    ['that of the config', { max_age: 60 }, 120_000, 120_000],
    ['a shorter one of the config', { max_age: 60 }, 5000, 5000],
    ['no longer than the limit', { max_age: 60, max_age_limit: 90 }, 120_000, 90_000],
    ['one second at the least', {}, 5, 1000],
    ['one second for zero, too', {}, 0, 1000],
    ['90 days at the most', {}, 1e12, 7_776_000_000],
  ];
  for (const [what, options, maxAgeMs, lasts] of table) {
    test(what, async () => {
      const { ask, clock } = await begin(options);
      const said = settings({ maxAgeMs });
      await ask(said);
      clock.advance(lasts - 1);
      assert.equal(await ask(said), 'HIT');
      clock.advance(1);
      assert.equal(await ask(said), 'MISS');
    });
  }

  test('who wants a young answer does not get an old one that others still use', async () => {
    const { ask, clock } = await begin();
    await ask();
    clock.advance(61_000);
    assert.equal(await ask(), 'HIT');
    assert.equal(await ask(settings({ maxAgeMs: 60_000 })), 'MISS');
    assert.equal(await ask(settings({ maxAgeMs: 60_000 })), 'HIT');
  });
});

describe('the threshold', () => {
  /** Cosine to the first one: 0.8. */
  const vectors: Readonly<Record<string, readonly number[]>> = { one: [1, 0], near: [0.8, 0.6] };
  const saying = (content: string) => ({ body: { ...question, messages: [{ role: 'user', content }] } });
  const start = async (mode: CacheOptions['mode'], hold?: Promise<void>) => {
    const lines: Line[] = [];
    const { scope } = testScope({
      log: recordingLog(lines),
      metrics: new RecordingMetrics(),
      embeddings: {
        problem: () => undefined,
        async embed(text) {
          if (text === 'near') await hold;
          return Float32Array.from(vectors[text] ?? []);
        },
      },
    });
    const options: CacheOptions = { semantic: { provider: 'openai', threshold: 0.9 } };
    const hooks: Hooks = await cache.create(mode === undefined ? options : { ...options, mode }, scope);
    const ask = async (said: CacheSettings | undefined, content: string): Promise<string> => {
      const context = await attemptContext({
        ...saying(content),
        ...(said === undefined ? {} : { cache: said }),
      });
      await attempt(hooks, context);
      await hooks.settled?.(context, testOutcome());
      return context.facts.cacheStatus;
    };
    return { ask, lines };
  };
  const semantic = (threshold?: number): CacheSettings => settings({ mode: 'semantic', threshold });

  const table: readonly (readonly [CacheOptions['mode'], CacheSettings | undefined, string])[] = [
    ['semantic', undefined, 'SEMANTIC MISS'],
    ['semantic', semantic(), 'SEMANTIC MISS'],
    ['semantic', semantic(0.79), 'SEMANTIC HIT'],
    ['semantic', settings(), 'MISS'],
    ['config', semantic(0.79), 'SEMANTIC HIT'],
    ['simple', semantic(0.79), 'SEMANTIC HIT'],
    ['simple', undefined, 'MISS'],
  ];
  for (const [mode, said, status] of table) {
    test(`${mode}, and a config that says ${said?.mode ?? 'nothing'} of ${said?.threshold ?? 'nothing'}`, async () => {
      const { ask, lines } = await start(mode);
      await ask(said, 'one');
      assert.equal(await ask(said, 'near'), status);
      assert.deepEqual(lines, []);
    });
  }

  test('who waits for one that was content with less goes on alone', async () => {
    let go = (): void => undefined;
    const { ask } = await start('semantic', new Promise((resolve) => (go = resolve)));
    await ask(undefined, 'one');
    const content = ask(semantic(0.7), 'near');
    await settle();
    const all = [ask(semantic(0.75), 'near'), ask(semantic(0.85), 'near'), ask(settings(), 'near')];
    await settle();
    go();
    assert.equal(await content, 'SEMANTIC HIT');
    assert.deepEqual(await Promise.all(all), ['SEMANTIC HIT', 'SEMANTIC MISS', 'MISS']);
  });
});

describe('several attempts of one request', () => {
  test('the header tells of the last one', async () => {
    const { hooks } = await begin();
    const context = await attemptContext({ body: question });
    await hooks.attempt?.(context);
    assert.equal(context.facts.cacheStatus, 'MISS');
    context.abandon();
    const second = (await attemptContext({ cache: settings({ mode: 'off' }) })).attempt;
    await hooks.attempt?.(Object.assign(context, { attempt: second }));
    assert.equal(context.facts.cacheStatus, 'DISABLED');
  });

  test('an answer of a target that is not cached is not kept for one that is', async () => {
    const { hooks, ask } = await begin();
    const context = await attemptContext({ body: question });
    await hooks.attempt?.(context);
    context.abandon();
    const second = (await attemptContext({ body: question, cache: settings({ mode: 'off' }) })).attempt;
    await attempt(hooks, Object.assign(context, { attempt: second }));
    await hooks.settled?.(context, testOutcome());
    assert.equal(await ask(), 'MISS');
  });

  test('each is kept under its own target', async () => {
    const { hooks, ask } = await begin();
    const context = await attemptContext({ body: question });
    await hooks.attempt?.(context);
    context.abandon();
    const second = (await attemptContext({ body: question, target: 'target-2' })).attempt;
    await attempt(hooks, Object.assign(context, { attempt: second }));
    await hooks.settled?.(context, testOutcome());
    assert.equal(await ask(undefined, { target: 'target-2' }), 'HIT');
    assert.equal(await ask(), 'MISS');
  });
});
