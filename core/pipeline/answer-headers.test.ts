import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { definePlugin, GatewayError } from './plugin.ts';
import { Exchange } from './exchange.ts';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send, type Received } from '../../tests/kit/http-kit.ts';
import { ours, routed } from '../../tests/kit/routing-kit.ts';

/** The gateway's own headers of an answer, by what follows the prefix. */
function said({ headers }: Received, prefix: string): Record<string, string> {
  const own = Object.entries(headers).filter(([name]) => name.startsWith(`${prefix}-`));
  return Object.fromEntries(own.map(([name, value]) => [name.slice(prefix.length + 1), String(value)]));
}

/** Says of each request what a router would. */
const routing = definePlugin({
  name: 'routing',
  create: () => ({
    attempt({ facts }) {
      facts.retries = 2;
      facts.option = 'config.targets[1].targets[0]';
      facts.cacheStatus = 'MISS';
    },
  }),
});

const start = (t: TestContext, options: TestGatewayOptions = {}) =>
  routed(t, { plugins: [auth, routing, providerPlugin()], ...options });
const asked = (prefix: string, more: Readonly<Record<string, string>> = {}) => ({
  path: '/v1/x',
  headers: { [`${prefix}-api-key`]: ours, [`${prefix}-provider`]: 'held', ...more },
});

describe('what the gateway says of an answer', () => {
  for (const [prefix, spellings] of [
    ['x-service', ['x-service']],
    ['x-portkey', ['x-service', 'x-portkey']],
  ] as const) {
    test(`to a client that writes ${prefix}-…`, async (t) => {
      const { gateway } = await start(t);
      const answer = await send(gateway.url, asked(prefix, { [`${prefix}-trace-id`]: 'trace-1' }));
      const { id } = await gateway.untilSettled();
      for (const spelling of spellings) {
        assert.deepEqual(said(answer, spelling), {
          'request-id': id,
          'trace-id': 'trace-1',
          provider: 'held',
          'cache-status': 'MISS',
          'retry-attempt-count': '2',
          'last-used-option-index': 'config.targets[1].targets[0]',
        });
      }
      if (prefix === 'x-service') assert.deepEqual(said(answer, 'x-portkey'), {});
    });
  }

  test('without a cache, retries and a config', async (t) => {
    const { gateway } = await routed(t);
    const answer = said(await send(gateway.url, asked('x-service')), 'x-service');
    const {
      'cache-status': cache,
      'retry-attempt-count': retries,
      'last-used-option-index': option,
    } = answer;
    assert.deepEqual([cache, retries, option], ['DISABLED', '0', 'config']);
  });

  test('when the provider cannot be reached', async (t) => {
    const { gateway } = await start(t, {
      providers: { held: { base_url: 'http://127.0.0.1:1/v1', api_key: 's' } },
    });
    const answer = await send(gateway.url, asked('x-portkey'));
    assert.equal(answer.status, 502);
    assert.equal(said(answer, 'x-portkey')['provider'], 'held');
    assert.equal(said(answer, 'x-portkey')['retry-attempt-count'], '2');
  });

  test('nothing of a provider where none was chosen', async (t) => {
    const { gateway } = await start(t);
    const refused: readonly Readonly<Record<string, string>>[] = [
      { 'x-portkey-provider': 'held' },
      { 'x-portkey-api-key': ours, 'x-portkey-provider': 'nobody' },
      { 'x-portkey-api-key': ours, 'x-portkey-metadata': 'nonsense' },
    ];
    for (const headers of refused) {
      const answer = await send(gateway.url, { path: '/v1/x', headers });
      assert.ok(answer.status === 400 || answer.status === 401);
      for (const spelling of ['x-service', 'x-portkey']) {
        const names = Object.keys(said(answer, spelling)).filter((name) => name !== 'trace-id');
        assert.deepEqual(names, ['request-id']);
      }
    }
  });

  test('under every alias that the request uses, and its own prefix', async (t) => {
    const { gateway } = await start(t, {
      server: { header_prefix: 'x-acme', header_aliases: ['x-portkey', 'x-old', 'x-unused'] },
    });
    const headers = { 'x-old-api-key': ours, 'X-Portkey-Provider': 'held', 'x-portkey-span-id': 's' };
    const answer = await send(gateway.url, { path: '/v1/x', headers });
    const own = said(answer, 'x-acme');
    assert.equal(own['provider'], 'held');
    assert.deepEqual(said(answer, 'x-old'), own);
    assert.deepEqual(said(answer, 'x-portkey'), own);
    assert.deepEqual(said(answer, 'x-unused'), {});
  });

  test('what plugins add under the prefix comes under the alias too, other headers once', async (t) => {
    const adding = definePlugin({
      name: 'adding',
      create: () => ({
        request(context) {
          context.addResponseHeader('X-Service-Stamp', '1');
          context.addResponseHeader('x-other', '2');
        },
      }),
    });
    const { gateway } = await start(t, { plugins: [auth, adding, providerPlugin()] });
    const answer = await send(gateway.url, asked('x-portkey'));
    assert.deepEqual([answer.headers['x-service-stamp'], answer.headers['x-portkey-stamp']], ['1', '1']);
    assert.equal(answer.headers['x-other'], '2');
  });

  test('the cache’s verdict is that of the last attempt, once', async (t) => {
    const telling = definePlugin({
      name: 'telling',
      create: () => ({
        attempt(context) {
          context.addResponseHeader('x-service-cache-status', 'MISS');
          context.addResponseHeader('x-service-cache-status', 'REFRESH');
          context.facts.cacheStatus = 'REFRESH';
        },
      }),
    });
    const { gateway } = await start(t, { plugins: [auth, telling, providerPlugin()] });
    const answer = await send(gateway.url, asked('x-portkey'));
    assert.equal(answer.headers['x-service-cache-status'], 'REFRESH');
    assert.equal(answer.headers['x-portkey-cache-status'], 'REFRESH');
  });

  test('a refusal of a guard behind the answer still names the provider', async (t) => {
    const guard = definePlugin({
      name: 'guard',
      create: () => ({
        response() {
          throw new GatewayError('hooks_failed', 'No.');
        },
      }),
    });
    const { gateway } = await start(t, { plugins: [auth, guard, providerPlugin()] });
    const answer = await send(gateway.url, asked('x-portkey'));
    assert.equal(answer.status, 446);
    assert.equal(answer.headers['x-portkey-provider'], 'held');
  });

  test('is not said of administration', async (t) => {
    const { gateway } = await start(t, {
      plugins: [
        auth,
        definePlugin({
          name: 'own-answer',
          capabilities: { answers: true },
          create: () => ({ request: () => ({ status: 204, headers: [], body: null }) }),
        }),
      ],
    });
    const answer = await send(gateway.url, asked('x-service'));
    assert.deepEqual(Object.keys(said(answer, 'x-service')).sort(), ['request-id', 'trace-id']);
  });
});

test('a fork of a request speaks under the same aliases', async (t) => {
  let forked: string[] = [];
  const forking = definePlugin({
    name: 'forking',
    create: () => ({
      attempt(context) {
        assert.ok(context instanceof Exchange);
        const fork = context.fork();
        fork.facts.provider = 'other';
        fork.answerHeaders.append(fork, (forked = []));
      },
    }),
  });
  const { gateway } = await start(t, { plugins: [auth, forking, providerPlugin()] });
  const answer = await send(gateway.url, asked('x-portkey'));
  assert.equal(forked[forked.indexOf('x-portkey-provider') + 1], 'other');
  assert.equal(answer.headers['x-portkey-provider'], 'held');
});
