import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Outcome } from './context.ts';
import {
  defineKey,
  definePlugin,
  GatewayError,
  type AnyPlugin,
  type Capabilities,
  type Hooks,
} from './plugin.ts';
import { jsonAnswer } from './settle.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { begin, connect, send, startUpstream, until } from '../../tests/kit/http-kit.ts';

const chat = {
  path: '/v1/chat/completions',
  body: { model: 'm', messages: [{ role: 'user', content: 'x' }] },
};

/** A plugin that notes each of its hooks as `name.hook`, then does what `hooks` say. */
function noting(
  notes: string[],
  name: string,
  hooks: Hooks = {},
  capabilities: Capabilities = {},
): AnyPlugin {
  const note = (hook: string): void => void notes.push(`${name}.${hook}`);
  return definePlugin({
    name,
    capabilities: { stream: 'ignore', ...capabilities },
    create: () => ({
      request(context) {
        note('request');
        return hooks.request?.(context);
      },
      attempt(context) {
        note('attempt');
        return hooks.attempt?.(context);
      },
      response(context) {
        note('response');
        return hooks.response?.(context);
      },
      settled(context, outcome) {
        note(`settled(${outcome.kind})`);
        return hooks.settled?.(context, outcome);
      },
    }),
  });
}

async function withUpstream(
  t: TestContext,
  plugins: NonNullable<TestGatewayOptions['plugins']>,
  answer = '{"ok":1}',
) {
  const upstream = await startUpstream(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(answer);
  });
  const gateway = await startTestGateway(t, { plugins, providers: { up: { base_url: upstream.url } } });
  return { gateway, upstream };
}

describe('the order of the phases', () => {
  test('request and attempt in file order, response in reverse, settled in file order', async (t) => {
    const notes: string[] = [];
    const { gateway } = await withUpstream(t, [
      noting(notes, 'a'),
      noting(notes, 'b'),
      providerPlugin({ default: 'up' }),
      noting(notes, 'c'),
    ]);
    assert.equal((await send(gateway.url, chat)).status, 200);
    await gateway.untilSettled();
    assert.deepEqual(notes, [
      ...['a.request', 'b.request', 'a.attempt', 'b.attempt', 'c.attempt', 'b.response', 'a.response'],
      ...['a.settled(completed)', 'b.settled(completed)', 'c.settled(completed)'],
    ]);
  });

  const early: readonly [string, Hooks, number, Outcome['kind'], readonly string[]][] = [
    [
      'an answer of plugin b',
      { request: () => jsonAnswer(201, 'early') },
      201,
      'completed',
      ['a.request', 'b.request', 'a.response'],
    ],
    [
      'an answer of plugin b, as a promise',
      { request: () => Promise.resolve(jsonAnswer(201, 'early')) },
      201,
      'completed',
      ['a.request', 'b.request', 'a.response'],
    ],
    [
      'a refusal of plugin b',
      {
        request() {
          throw new GatewayError('hooks_failed', 'No.');
        },
      },
      446,
      'refused',
      ['a.request', 'b.request', 'a.response'],
    ],
    [
      'a refusal of plugin b, as a promise',
      { request: () => Promise.reject(new GatewayError('rate_limited', 'No.')) },
      429,
      'refused',
      ['a.request', 'b.request', 'a.response'],
    ],
    [
      'a failure of plugin b',
      {
        request() {
          throw new TypeError('broken');
        },
      },
      500,
      'failed',
      ['a.request', 'b.request', 'a.response'],
    ],
    [
      'an answer of an attempt hook passes everything before the provider',
      { attempt: () => jsonAnswer(203, 'cached') },
      203,
      'completed',
      [
        'a.request',
        'b.request',
        'c.request',
        'a.attempt',
        'b.attempt',
        'c.response',
        'b.response',
        'a.response',
      ],
    ],
    [
      'a refusal of a response hook is seen only by those before it',
      {
        response() {
          throw new GatewayError('hooks_failed', 'No.');
        },
      },
      446,
      'refused',
      [
        ...['a.request', 'b.request', 'c.request', 'a.attempt', 'b.attempt', 'c.attempt', 'd.attempt'],
        ...['c.response', 'b.response', 'a.response'],
      ],
    ],
  ];
  for (const [name, hooks, status, kind, expected] of early) {
    test(name, async (t) => {
      const notes: string[] = [];
      const { gateway, upstream } = await withUpstream(t, [
        noting(notes, 'a'),
        noting(notes, 'b', hooks),
        noting(notes, 'c'),
        providerPlugin({ default: 'up' }),
        noting(notes, 'd'),
      ]);
      const answer = await send(gateway.url, chat);
      assert.equal(answer.status, status);
      const { outcome } = await gateway.untilSettled();
      assert.deepEqual([outcome.kind, outcome.status], [kind, status]);
      const settled = ['a', 'b', 'c', 'd'].map((plugin) => `${plugin}.settled(${kind})`);
      assert.deepEqual(notes, [...expected, ...settled]);
      assert.equal(upstream.requests.length, hooks.response ? 1 : 0);
    });
  }

  test('a refusal during a refusal replaces it, for those before', async (t) => {
    const notes: string[] = [];
    const refuse = (code: 'hooks_failed' | 'rate_limited') => () => {
      throw new GatewayError(code, 'No.');
    };
    const { gateway } = await withUpstream(t, [
      noting(notes, 'a'),
      noting(notes, 'b', { response: refuse('rate_limited') }),
      noting(notes, 'c', { request: refuse('hooks_failed') }),
      providerPlugin({ default: 'up' }),
    ]);
    assert.equal((await send(gateway.url, chat)).status, 429);
    assert.deepEqual(
      notes.filter((note) => note.endsWith('response')),
      ['b.response', 'a.response'],
    );
    assert.equal((await gateway.untilSettled()).outcome.error?.code, 'rate_limited');
  });

  test('nobody answers: 500 that names the pipeline', async (t) => {
    const gateway = await startTestGateway(t, { plugins: [noting([], 'a')] });
    const answer = await send(gateway.url, chat);
    assert.equal(answer.status, 500);
    assert.match(answer.json().error.message, /No plugin of the pipeline "gateway" answered/);
  });
});

describe('synchronous hooks', () => {
  test('are never awaited: all of them run within one turn', async (t) => {
    const notes: string[] = [];
    const first = noting(notes, 'a', { request: () => queueMicrotask(() => notes.push('a later turn')) });
    const answering = noting(notes, 'c', { request: () => jsonAnswer(200, {}) });
    const gateway = await startTestGateway(t, { plugins: [first, noting(notes, 'b'), answering] });
    await send(gateway.url, chat);
    const hooks = ['a.request', 'b.request', 'c.request', 'b.response'];
    assert.deepEqual(notes.slice(0, hooks.length), hooks);
    assert.ok(notes.includes('a later turn'));
  });
});

describe('settled', () => {
  test('a failing hook keeps nobody from running, and the generation is held until all have ended', async (t) => {
    const notes: string[] = [];
    let end: (() => void) | undefined;
    const fail = (): never => {
      throw new Error('broken');
    };
    const { gateway } = await withUpstream(t, [
      noting(notes, 'a', { settled: fail }),
      noting(notes, 'b', { settled: () => new Promise<void>((resolve) => (end = resolve)) }),
      noting(notes, 'c', { settled: () => Promise.reject(new Error('broken, too')) }),
      providerPlugin({ default: 'up' }),
      noting(notes, 'd'),
    ]);
    assert.equal((await send(gateway.url, chat)).status, 200);
    await gateway.untilSettled();
    assert.deepEqual(
      notes.filter((note) => note.includes('settled')),
      ['a', 'b', 'c', 'd'].map((name) => `${name}.settled(completed)`),
    );
    await until(() => gateway.pluginErrors.length === 2, 'both failures');
    assert.deepEqual(gateway.pluginErrors, ['a/settled', 'c/settled']);
    assert.equal(gateway.held(), 1);
    end?.();
    await until(() => gateway.held() === 0, 'the release');
  });

  test('it never delays the client', async (t) => {
    const { gateway } = await withUpstream(t, [
      noting([], 'a', { settled: () => new Promise<void>(() => undefined) }),
      providerPlugin({ default: 'up' }),
    ]);
    assert.equal((await send(gateway.url, chat)).status, 200);
    assert.equal((await send(gateway.url, chat)).status, 200);
  });

  test('it sees what was sent and answered', async (t) => {
    let seen: Outcome | undefined;
    const keeping = noting(
      [],
      'keeping',
      { settled: (_, outcome) => void (seen = outcome) },
      { keepsResponseBytes: 9 },
    );
    const { gateway } = await withUpstream(t, [keeping, providerPlugin({ default: 'up' })], '{"answer":42}');
    await send(gateway.url, chat);
    await gateway.untilSettled();
    assert.equal(seen?.requestBody?.toString(), JSON.stringify(chat.body));
    assert.equal(seen?.requestIsJson, true);
    assert.equal(seen?.responseBody?.toString(), '{"answer"');
    assert.equal(seen?.responseTruncated, true);
    assert.equal(seen?.responseIsJson, false, 'a part of a document is none');
    assert.equal(seen?.responseContentType, 'application/json');
    assert.ok((seen?.latencyMs ?? 0) > 0);
    assert.equal(seen?.price.status, 'none');
  });

  test('a refusal that nobody counts on has no bodies', async (t) => {
    const gateway = await startTestGateway(t, {
      plugins: [noting([], 'a', { request: () => Promise.reject(new GatewayError('key_missing', 'No.')) })],
    });
    await send(gateway.url, chat);
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.requestBody, outcome.error?.plugin], [undefined, 'a']);
  });
});

describe('on_error', () => {
  const broken = (hook: 'request' | 'attempt' | 'response') =>
    noting([], 'broken', {
      [hook]: () => {
        throw new TypeError('a secret');
      },
    });
  for (const hook of ['request', 'attempt', 'response'] as const) {
    test(`skip goes on without a failing ${hook} hook`, async (t) => {
      const { gateway } = await withUpstream(t, [
        { plugin: broken(hook), onError: 'skip' },
        providerPlugin({ default: 'up' }),
      ]);
      const answer = await send(gateway.url, chat);
      assert.deepEqual([answer.status, answer.json()], [200, { ok: 1 }]);
      assert.deepEqual(gateway.pluginErrors, [`broken/${hook}`]);
      assert.equal(gateway.lines[0]?.fields['plugin'], 'broken');
    });

    test(`fail answers 500 for a failing ${hook} hook, names the plugin and keeps its secret`, async (t) => {
      const { gateway } = await withUpstream(t, [broken(hook), providerPlugin({ default: 'up' })]);
      const answer = await send(gateway.url, chat);
      assert.equal(answer.status, 500);
      assert.equal(answer.json().error.code, 'plugin_failed');
      assert.match(answer.json().error.message, /"broken"/);
      assert.doesNotMatch(answer.text, /secret/);
      const { outcome } = await gateway.untilSettled();
      assert.deepEqual([outcome.kind, outcome.error?.plugin], ['failed', 'broken']);
    });
  }

  test('a refusal is no failure: skip does not swallow it', async (t) => {
    const guard = noting([], 'guard', {
      request: () => Promise.reject(new GatewayError('hooks_failed', 'No.')),
    });
    const { gateway } = await withUpstream(t, [
      { plugin: guard, onError: 'skip' },
      providerPlugin({ default: 'up' }),
    ]);
    assert.equal((await send(gateway.url, chat)).status, 446);
    assert.deepEqual(gateway.pluginErrors, []);
  });

  test('a hook that does not finish is bounded', async (t) => {
    const hanging = noting([], 'hanging', { request: () => new Promise(() => undefined) });
    const failing = await withUpstream(t, [
      { plugin: hanging, timeoutMs: 40 },
      providerPlugin({ default: 'up' }),
    ]);
    const answer = await send(failing.gateway.url, chat);
    assert.deepEqual([answer.status, answer.json().error.code], [500, 'plugin_timeout']);
    assert.match(answer.json().error.message, /"hanging" did not finish its request hook within 40 ms/);
    const skipping = await withUpstream(t, [
      { plugin: hanging, timeoutMs: 40, onError: 'skip' },
      providerPlugin({ default: 'up' }),
    ]);
    assert.equal((await send(skipping.gateway.url, chat)).status, 200);
    assert.deepEqual(skipping.gateway.pluginErrors, ['hanging/request']);
  });
});

describe('what a hook sees', () => {
  test('slots, headers for every answer, texts that follow a change', async (t) => {
    const key = defineKey<number>('count');
    const seen: unknown[] = [];
    const first = noting(
      [],
      'first',
      {
        request(context) {
          context.set(key, 1);
          context.addResponseHeader('x-first', 'yes');
          seen.push(context.conversation.texts[0]?.text);
          context.body.set(['messages', 0, 'content'], 'changed');
        },
      },
      { changes: ['request.text'] },
    );
    const second = noting([], 'second', {
      request(context) {
        seen.push(context.get(key), context.conversation.texts[0]?.text, context.get(defineKey('count')));
        throw new GatewayError('hooks_failed', 'No.');
      },
    });
    const { gateway } = await withUpstream(t, [first, second, providerPlugin({ default: 'up' })]);
    const answer = await send(gateway.url, chat);
    assert.deepEqual(seen, ['x', 1, 'changed', undefined]);
    assert.equal(answer.headers['x-first'], 'yes');
  });

  test('the attempt', async (t) => {
    let seen: unknown;
    const looking = noting([], 'looking', {
      attempt: ({ attempt: { body, ...rest } }) => void (seen = { ...rest, changed: body.changed }),
    });
    const { gateway } = await withUpstream(t, [looking, providerPlugin({ default: 'up' })]);
    await send(gateway.url, chat);
    const names = { provider: 'up', aiService: 'up', model: 'm' };
    assert.deepEqual(seen, { number: 1, ...names, changed: false, cache: undefined, guardrails: undefined });
  });

  test('asking for what is not there yet is a failure of the plugin', async (t) => {
    for (const hooks of [
      { request: (context: object) => void ('response' in context && context.response) },
      { request: (context: object) => void ('attempt' in context && context.attempt) },
    ]) {
      const { gateway } = await withUpstream(t, [
        noting([], 'early', hooks),
        providerPlugin({ default: 'up' }),
      ]);
      assert.equal((await send(gateway.url, chat)).status, 500);
    }
  });
});

describe('a client that leaves', () => {
  test('during a hook: the later ones do not run, and nothing is sent', async (t) => {
    const notes: string[] = [];
    let goOn: (() => void) | undefined;
    const aborted: string[] = [];
    const { gateway, upstream } = await withUpstream(t, [
      noting(notes, 'slow', {
        request(context) {
          context.onAbort(() => aborted.push('heard'));
          context.onAbort(() => aborted.push('unregistered'))();
          return new Promise<void>((resolve) => (goOn = resolve));
        },
      }),
      noting(notes, 'later'),
      providerPlugin({ default: 'up' }),
    ]);
    const client = await connect(t, gateway.port);
    client.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => goOn !== undefined, 'the hook');
    client.socket.destroy();
    await until(() => aborted.length > 0, 'the abort');
    goOn?.();
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual(
      [outcome.kind, outcome.status, outcome.error?.code],
      ['cancelled', 499, 'client_closed'],
    );
    assert.deepEqual(notes, ['slow.request', 'slow.settled(cancelled)', 'later.settled(cancelled)']);
    assert.deepEqual(aborted, ['heard']);
    assert.equal(upstream.requests.length, 0);
  });

  test('during an attempt hook: nothing is sent', async (t) => {
    let goOn: (() => void) | undefined;
    const { gateway, upstream } = await withUpstream(t, [
      noting([], 'slow', { attempt: () => new Promise<void>((resolve) => (goOn = resolve)) }),
      providerPlugin({ default: 'up' }),
    ]);
    const client = await connect(t, gateway.port);
    client.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => goOn !== undefined, 'the hook');
    client.socket.destroy();
    await until(() => gateway.server.connections() === 0, 'the end of the connection');
    goOn?.();
    assert.equal((await gateway.untilSettled()).outcome.kind, 'cancelled');
    assert.equal(upstream.connections, 0);
  });

  test('before the provider answers: its call ends', async (t) => {
    const upstream = await startUpstream(t, () => undefined);
    const gateway = await startTestGateway(t, { providers: { up: { base_url: upstream.url } } });
    const client = await connect(t, gateway.port);
    client.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => upstream.requests.length === 1, 'the call');
    client.socket.destroy();
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status], ['cancelled', 499]);
    await until(() => upstream.open.size === 0, 'the end of the call');
    assert.deepEqual(gateway.transport.stats(), { origins: 0, connections: 0, pending: 0, running: 0 });
  });

  test('during a response hook', async (t) => {
    let goOn: (() => void) | undefined;
    const { gateway } = await withUpstream(t, [
      noting([], 'slow', { response: () => new Promise<void>((resolve) => (goOn = resolve)) }),
      providerPlugin({ default: 'up' }),
    ]);
    const client = await connect(t, gateway.port);
    client.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => goOn !== undefined, 'the hook');
    client.socket.destroy();
    await until(() => gateway.server.connections() === 0, 'the end of the connection');
    goOn?.();
    assert.equal((await gateway.untilSettled()).outcome.kind, 'cancelled');
  });

  test('an answer that an early hook had ready is released', async (t) => {
    let cancelled: string | undefined;
    let goOn: (() => void) | undefined;
    const caching = noting([], 'caching', {
      async request() {
        await new Promise<void>((resolve) => (goOn = resolve));
        const body = {
          pipe() {},
          resume() {},
          cancel: (error: GatewayError) => void (cancelled = error.code),
        };
        return { status: 200, headers: [], body };
      },
    });
    const gateway = await startTestGateway(t, { plugins: [caching] });
    const { port } = gateway;
    const client = await connect(t, port);
    client.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => goOn !== undefined, 'the hook');
    client.socket.destroy();
    await until(() => gateway.server.connections() === 0, 'the end of the connection');
    goOn?.();
    await gateway.untilSettled();
    assert.equal(cancelled, 'client_closed');
  });
});

test('a request settles once, whatever comes together', async (t) => {
  const { gateway } = await withUpstream(t, [providerPlugin({ default: 'up' })]);
  await Promise.all(
    Array.from({ length: 30 }, async (_, i) => {
      const { request, response } = await begin(gateway.url, chat);
      if (i % 2 === 0) request.destroy();
      else response.resume();
    }),
  );
  await gateway.untilSettled(30);
  assert.equal(new Set(gateway.settled.map(({ id }) => id)).size, 30);
  await until(() => gateway.gateway.activeRequests === 0, 'all settled');
  assert.equal(gateway.settled.length, 30);
});
