import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { providerPlugin } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { credentialsOf, ok, ours } from '../../tests/kit/routing-kit.ts';
import { asHeader, bearer, body, path, refusal, started, theirs } from './stored-providers.test-support.ts';
import { integration, provider } from './stored-records.test-support.ts';

describe('a provider of the store', () => {
  const ways: readonly [string, Record<string, string>, object, string][] = [
    ['its slug in the provider header', { 'x-service-provider': '@mine' }, body, ''],
    ['the virtual key header', { 'x-service-virtual-key': 'mine' }, body, 'mine'],
    ['the model', {}, { ...body, model: '@mine/m' }, ''],
    ['a config', asHeader({ provider: '@mine' }), body, ''],
    ['a config with a virtual key', asHeader({ virtual_key: 'mine' }), body, 'mine'],
    [
      'a header beside a config without one',
      { 'x-service-provider': '@mine', ...asHeader({ retry: { attempts: 1 } }) },
      body,
      '',
    ],
    [
      'the model beside a config without one',
      asHeader({ retry: { attempts: 1 } }),
      { ...body, model: '@mine/m' },
      '',
    ],
  ];
  for (const [name, headers, asked, virtualKey] of ways) {
    test(`is named by ${name}`, async (t) => {
      const { ask, upstream, gateway } = await started(t);
      const answer = await ask(headers, asked);
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(credentialsOf(upstream), bearer('sk-stored'));
      assert.deepEqual(JSON.parse(upstream.requests[0]?.body.toString() ?? ''), body);
      const { facts } = await gateway.untilSettled();
      assert.deepEqual(
        [facts.provider, facts.aiService, facts.virtualKey, facts.modelRequested],
        ['mine', 'plain', virtualKey, 'm'],
      );
    });
  }

  test('stands behind one of the configuration with its slug', async (t) => {
    const { ask, upstream } = await started(t, [
      integration({ key: 'sk-stored' }),
      provider({}, { slug: 'held' }),
    ]);
    await ask({ 'x-service-provider': '@held' });
    assert.deepEqual(credentialsOf(upstream), bearer('held-secret'));
  });

  test('may have the name of a built-in one, which then needs its @', async (t) => {
    const { ask, upstream } = await started(t, [
      integration({ key: 'sk-stored' }),
      provider({}, { slug: 'plain' }),
    ]);
    await ask({ 'x-service-provider': 'plain', authorization: 'Bearer sk-own' });
    assert.deepEqual(credentialsOf(upstream), bearer('sk-own'));
    await ask({ 'x-service-provider': '@plain', authorization: 'Bearer sk-own' });
    assert.deepEqual(credentialsOf(upstream), bearer('sk-stored'));
  });

  test('is another one in each workspace, also for the same config', async (t) => {
    const second = { id: 'i2', workspaceId: 'ws-2' };
    const { gateway, upstream } = await started(t, [
      integration({ key: 'sk-one' }),
      provider(),
      integration({ key: 'sk-two' }, {}, second),
      provider({}, { id: 'p2', workspaceId: 'ws-2', parentId: 'i2' }),
    ]);
    for (const headers of [{ 'x-service-provider': '@mine' }, asHeader({ provider: '@mine' })]) {
      for (const [secret, expected] of [
        [ours, 'sk-one'],
        [theirs, 'sk-two'],
        [ours, 'sk-one'],
      ] as const) {
        const answer = await send(gateway.url, {
          path,
          headers: { 'x-service-api-key': secret, ...headers },
          body,
        });
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(credentialsOf(upstream), bearer(expected));
      }
    }
  });

  test('of another workspace is one that does not exist', async (t) => {
    const { gateway } = await started(t);
    const asked = async (name: string) =>
      refusal(
        await send(gateway.url, {
          path,
          headers: { 'x-service-api-key': theirs, 'x-service-provider': name },
          body,
        }),
      );
    const { status, code, message } = await asked('@mine');
    assert.deepEqual([status, code], [400, 'provider_unknown']);
    assert.equal(message.replaceAll('mine', 'nobody'), (await asked('@nobody')).message);
  });

  test('suggests those of the workspace', async (t) => {
    const { ask } = await started(t);
    const { code, message } = refusal(await ask({ 'x-service-virtual-key': 'mime' }));
    assert.deepEqual(
      [code, message],
      ['provider_unknown', 'There is no virtual key "mime". Did you mean "mine"?'],
    );
  });

  test('is not there for requests of nobody', async (t) => {
    const { gateway } = await started(t, undefined, { plugins: [providerPlugin()] });
    const answer = await send(gateway.url, { path, headers: { 'x-service-provider': '@mine' }, body });
    assert.equal(refusal(answer).code, 'provider_unknown');
  });

  test('has its new key from the next request on', async (t) => {
    const { ask, upstream, directory } = await started(t);
    const config = asHeader({ provider: '@mine' });
    await ask(config);
    directory.put(integration({ key: 'sk-rotated' }, {}, { version: 2 }));
    await ask(config);
    assert.deepEqual(credentialsOf(upstream), bearer('sk-rotated'));
  });

  test('never loses its credential to a host that the request names', async (t) => {
    const foreign = await startUpstream(t, ok);
    const { ask } = await started(t, undefined, {
      security: { trusted_hosts: [new URL(foreign.url).host] },
    });
    for (const headers of [
      { 'x-service-provider': '@mine', 'x-service-custom-host': foreign.url },
      asHeader({ provider: '@mine', custom_host: foreign.url }),
    ]) {
      assert.equal((await ask(headers)).status, 200);
      assert.deepEqual(credentialsOf(foreign), {
        authorization: undefined,
        boxed: undefined,
        azure: undefined,
      });
    }
  });

  test('falls back to another one, and the log says which served', async (t) => {
    const { ask, upstream, gateway } = await started(
      t,
      [
        integration({ key: 'sk-one' }),
        provider(),
        integration({ key: 'boxed-two' }, { aiProviderId: 'boxed' }, { id: 'i2', workspaceId: undefined }),
        provider({}, { id: 'p2', slug: 'spare', parentId: 'i2' }),
      ],
      {
        answer: (request, response) =>
          void response
            .writeHead(request.url?.startsWith('/boxed') === true ? 200 : 503, {
              'content-type': 'application/json',
            })
            .end('{}'),
      },
    );
    const answer = await ask(
      asHeader({
        strategy: { mode: 'fallback' },
        targets: [{ virtual_key: 'mine' }, { virtual_key: 'spare' }],
      }),
    );
    assert.equal(answer.status, 200);
    assert.deepEqual(credentialsOf(upstream), {
      ...bearer('x'),
      authorization: undefined,
      boxed: 'boxed-two',
    });
    const { facts } = await gateway.untilSettled();
    assert.deepEqual([facts.provider, facts.virtualKey, facts.config], ['spare', 'spare', 'inline']);
    assert.deepEqual(
      facts.attemptRecords.map(({ provider: name, status }) => [name, status]),
      [
        ['mine', 503],
        ['spare', 200],
      ],
    );
  });
});

test('what a config of the operator sets is made for each provider that is named beside it', async (t) => {
  const { ask, upstream } = await started(t, undefined, {
    configs: { set: { openai_project: 'p' } },
  });
  for (const name of ['@held', '@held-boxed', '@mine'])
    assert.equal((await ask({ 'x-service-config': 'set', 'x-service-provider': name })).status, 200);
  assert.deepEqual(
    upstream.requests.map(({ headers }) => headers['authorization'] ?? headers['x-api-key']),
    ['Bearer held-secret', 'held-secret', 'Bearer sk-stored'],
  );
});
