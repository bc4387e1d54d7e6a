import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { providerPlugin, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream, type Answering } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { credentialsOf, key, ok, ours, routed } from '../../tests/kit/routing-kit.ts';
import type { StoredRecord } from '../ports/records.ts';
import type { RouteConfigInput } from '../ports/route-config.ts';
import { integration, model, provider, recordsDirectory } from './stored-records.test-support.ts';

const path = '/v1/chat/completions';
const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const asHeader = (config: RouteConfigInput) => ({ 'x-service-config': JSON.stringify(config) });
const theirs = 'wk_of-another-workspace';

async function started(
  t: TestContext,
  records: readonly StoredRecord[] = [integration({ key: 'sk-stored' }), provider()],
  options: TestGatewayOptions & { answer?: Answering } = {},
) {
  const directory = recordsDirectory(records);
  const all = await routed(t, {
    directory,
    keys: { [ours]: testKey(), [theirs]: testKey({ id: 'key-2', workspaceId: 'ws-2' }) },
    ...options,
  });
  const ask = (headers: Record<string, string>, asked: object = body) =>
    send(all.gateway.url, { path, headers: { ...key, ...headers }, body: asked });
  return { ...all, directory, ask };
}

const bearer = (text: string) => ({ authorization: `Bearer ${text}`, boxed: undefined, azure: undefined });
const refusal = (answer: Awaited<ReturnType<typeof send>>) => {
  const { code, message } = answer.json().error as { code: string; message: string };
  return { status: answer.status, code, message };
};

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
      facts.tries.map(({ provider: name, status }) => [name, status]),
      [
        ['mine', 503],
        ['spare', 200],
      ],
    );
  });
});

describe('a provider of the store that may not be used', () => {
  const access = { enabled: false, usageLimits: [], rateLimits: [] };
  const ofAll = { workspaceId: undefined };
  const rows: readonly [string, readonly StoredRecord[], number, string, RegExp][] = [
    [
      'has expired',
      [integration({ key: 'k' }), provider({ expiresAt: 1000 })],
      403,
      'provider_disabled',
      /expired at 1970-01-01T00:00:01/,
    ],
    [
      'is archived',
      [integration({ key: 'k' }), provider({}, { status: 'archived' })],
      400,
      'provider_unknown',
      /There is no provider slug "@mine"/,
    ],
    [
      'has an archived integration',
      [integration({ key: 'k' }, {}, { status: 'archived' }), provider()],
      403,
      'provider_disabled',
      /no active integration/,
    ],
    [
      'is of an integration of nobody',
      [integration({ key: 'k' }, { globalAccess: access }, ofAll), provider()],
      403,
      'provider_disabled',
      /not enabled for this workspace/,
    ],
    [
      'is of an integration of others',
      [integration({ key: 'k' }, { workspaces: { 'ws-1': access } }, ofAll), provider()],
      403,
      'provider_disabled',
      /not enabled for this workspace/,
    ],
    [
      'is of an unknown kind',
      [integration({ key: 'k' }, { aiProviderId: 'gone' }), provider()],
      403,
      'provider_disabled',
      /no provider "gone"/,
    ],
    [
      'has a private address',
      [integration({ key: 'k' }, { configurations: { base_url: 'http://169.254.169.254/v1' } }), provider()],
      400,
      'custom_host_refused',
      /private/,
    ],
    [
      'has an address in a field of its address',
      [integration({ key: 'k' }, { configurations: { aws_region: 'x.example.com/#' } }), provider()],
      403,
      'provider_disabled',
      /aws_region/,
    ],
    [
      'has settings that are none',
      [integration({ key: 'k' }, { configurations: { dialect: 'latin' } }), provider()],
      403,
      'provider_disabled',
      /dialect/,
    ],
  ];
  for (const [name, records, status, code, said] of rows) {
    test(name, async (t) => {
      const { ask, upstream } = await started(t, records);
      const found = refusal(await ask({ 'x-service-provider': '@mine' }));
      assert.deepEqual([found.status, found.code, upstream.requests.length], [status, code, 0]);
      assert.match(found.message, said);
      assert.doesNotMatch(found.message, /ws-\d|org-\d/);
    });
  }

  test('is enabled for a workspace by name, or by being its own', async (t) => {
    const enabled = { ...access, enabled: true };
    const { ask, directory } = await started(t, [
      integration({ key: 'k' }, { globalAccess: access, workspaces: { 'ws-1': enabled } }, ofAll),
      provider(),
    ]);
    assert.equal((await ask({ 'x-service-provider': '@mine' })).status, 200);
    directory.put(integration({ key: 'k' }, { globalAccess: access }));
    assert.equal((await ask({ 'x-service-provider': '@mine' })).status, 200);
  });
});

describe('the models of an integration', () => {
  const restricted = (more: Parameters<typeof integration>[1] = {}) => [
    integration(
      { key: 'k' },
      {
        allowAllModels: false,
        models: [model('gpt-4o-mini'), model('gpt-off', { enabled: false })],
        ...more,
      },
    ),
    provider(),
  ];
  const named = { 'x-service-provider': '@mine' };

  test('that are enabled may be asked for, others not', async (t) => {
    const { ask, upstream } = await started(t, restricted());
    assert.equal((await ask(named, { ...body, model: 'gpt-4o-mini' })).status, 200);
    for (const [asked, said] of [
      ['gpt-4o-mimi', /the model "gpt-4o-mimi"\. Did you mean "gpt-4o-mini"\?/],
      ['gpt-off', /It allows "gpt-4o-mini"\./],
      ['', /names no model/],
    ] as const) {
      const found = refusal(await ask(named, { ...body, model: asked }));
      if (found.code === 'invalid_request') continue;
      assert.deepEqual([found.status, found.code], [403, 'model_not_allowed'], found.message);
      assert.match(found.message, said);
    }
    assert.equal(upstream.requests.length, 1);
  });

  test('are those that go out, whatever the client wrote', async (t) => {
    const { ask, upstream } = await started(t, restricted());
    const config = asHeader({ provider: '@mine', override_params: { model: 'gpt-9' } });
    assert.equal(refusal(await ask(config, { ...body, model: 'gpt-4o-mini' })).code, 'model_not_allowed');
    const allowed = asHeader({ provider: '@mine', override_params: { model: 'gpt-4o-mini' } });
    assert.equal((await ask(allowed, { ...body, model: 'gpt-9' })).status, 200);
    assert.equal(upstream.requests.length, 1);
  });

  test('hold for JSON that the gateway does not read otherwise', async (t) => {
    const { gateway, upstream } = await started(t, restricted());
    const answer = await send(gateway.url, {
      path: '/v1/fine_tuning/jobs',
      headers: { ...key, ...named },
      body: { model: 'gpt-9', training_file: 'file-1' },
    });
    assert.deepEqual([refusal(answer).code, upstream.requests.length], ['model_not_allowed', 0]);
  });

  test('have prices: their own, those of their base, and a factor', async (t) => {
    const own = { requestToken: 0.000001, responseToken: 0.000002 };
    const priced: unknown[] = [];
    const { ask, gateway } = await started(
      t,
      [
        integration(
          { key: 'k' },
          {
            priceMultiplier: 1.5,
            models: [
              model('mine-1', { isCustom: true, pricing: own }),
              model('mine-2', { baseModelSlug: 'gpt-4o' }),
            ],
          },
        ),
        provider(),
      ],
      {
        prices: {
          price: (_usage, by) => {
            priced.push(by);
            return { cost: '0', status: 'none', version: '' };
          },
          rates: () => undefined,
        },
      },
    );
    for (const name of ['mine-1', 'mine-2', 'other']) await ask(named, { ...body, model: name });
    await ask({ 'x-service-provider': '@held' });
    await gateway.untilSettled(4);
    const found = gateway.settled.map(({ outcome, facts }) => {
      void outcome.price;
      return facts.pricedBy ?? facts.aiService;
    });
    assert.deepEqual(priced, found);
    const rule = { service: 'plain', model: '', own: undefined, multiplier: 1.5 };
    assert.deepEqual(found, [{ ...rule, own }, { ...rule, model: 'gpt-4o' }, rule, 'held']);
  });

  test('may stand at another address, with the credential of their integration', async (t) => {
    const elsewhere = await startUpstream(t, ok);
    const { ask, upstream, other } = await started(
      t,
      [
        integration(
          { key: 'k', 'models.far.headers': '{"x-far":"1"}' },
          { models: [model('far', { configurations: { custom_host: `${elsewhere.url}/far` } })] },
        ),
        provider(),
      ],
      { security: { trusted_hosts: [new URL(elsewhere.url).host] } },
    );
    await ask(named, { ...body, model: 'far' });
    await ask(named, { ...body, model: 'near' });
    assert.deepEqual([upstream.requests.length, other.requests.length], [1, 0]);
    const [request] = elsewhere.requests;
    assert.deepEqual(
      [request?.url, request?.headers['authorization'], request?.headers['x-far']],
      ['/far/chat/completions', 'Bearer k', '1'],
    );
    assert.equal(upstream.requests[0]?.headers['x-far'], undefined);
  });

  test('are deployments of Azure by their alias or model', async (t) => {
    const { upstream, ask } = await started(t, [
      integration(
        { key: 'k' },
        {
          aiProviderId: 'azure',
          configurations: {
            ...{ dialect: 'azure-openai', azure_deployment_id: 'dep-a', azure_api_version: '2024-10-21' },
            deployments: [
              {
                deployment_id: 'dep-a',
                alias: 'a',
                api_version: '2024-10-21',
                model: 'gpt-4o',
                is_default: true,
              },
              {
                deployment_id: 'dep-b',
                alias: 'b',
                api_version: '2024-06-01',
                model: 'gpt-4',
                is_default: false,
              },
            ],
          },
        },
      ),
      provider(),
    ]);
    for (const asked of ['b', 'gpt-4', 'a', 'whatever']) await ask(named, { ...body, model: asked });
    assert.deepEqual(
      upstream.requests.map(({ url }) => url),
      [
        '/deployments/dep-b/chat/completions?api-version=2024-06-01',
        '/deployments/dep-b/chat/completions?api-version=2024-06-01',
        '/deployments/dep-a/chat/completions?api-version=2024-10-21',
        '/deployments/dep-a/chat/completions?api-version=2024-10-21',
      ],
    );
    assert.equal(credentialsOf(upstream).azure, 'k');
  });
});

describe('secrets of integrations', () => {
  const mapping = {
    ...{ targetField: 'key', secretReferenceId: 'ref-1', secretKey: 'token' },
    valueFormat: 'string' as const,
  };
  const reference = (allowed: boolean): StoredRecord<'secret_reference'> => {
    const envelope = integration({}, {}, { id: 'ref-1', workspaceId: undefined });
    return {
      ...envelope,
      kind: 'secret_reference',
      secrets: {},
      data: {
        ...{ description: '', managerType: 'file', authConfig: {}, secretPath: 'x', secretKey: '' },
        ...{ allowAllWorkspaces: allowed, allowedWorkspaces: [] },
      },
    };
  };
  const records = (allowed = true) => [
    integration({}, { secretMappings: [mapping] }),
    provider(),
    reference(allowed),
  ];

  test('may come from references, at once or fetched, and change', async (t) => {
    const values: (string | Promise<string>)[] = [Promise.resolve('v1'), 'v1', 'v2'];
    const keys: unknown[] = [];
    const { ask, upstream } = await started(t, records(), {
      secretManagers: {
        refusal: () => undefined,
        value: (_reference, _box, secretKey) => {
          keys.push(secretKey);
          return values.shift() ?? '';
        },
      },
    });
    for (const expected of ['v1', 'v1', 'v2']) {
      assert.equal((await ask({ 'x-service-provider': '@mine' })).status, 200);
      assert.deepEqual(credentialsOf(upstream), bearer(expected));
    }
    values.push(Promise.resolve('v3'));
    await ask(asHeader({ provider: '@mine' }));
    assert.deepEqual(credentialsOf(upstream), bearer('v3'));
    assert.deepEqual(keys, ['token', 'token', 'token', 'token']);
  });

  test('from references that are not for the workspace, or not there, are refused', async (t) => {
    const secretManagers = { refusal: () => undefined, value: () => 'never' };
    for (const [kept, said] of [
      [records(false), /this workspace may not use/],
      [records().slice(0, 2), /does not exist any more/],
    ] as const) {
      const { ask, upstream } = await started(t, kept, { secretManagers });
      const { status, code, message } = refusal(await ask({ 'x-service-provider': '@mine' }));
      assert.deepEqual([status, code, upstream.requests.length], [502, 'credentials_failed', 0]);
      assert.match(message, said);
    }
  });

  test('can be settings and headers, too', async (t) => {
    const { ask, upstream } = await started(t, [
      integration({ key: 'k', 'configurations.headers': '{"x-tenant":"t-1"}' }),
      provider(),
    ]);
    await ask({ 'x-service-provider': '@mine' });
    assert.equal(upstream.requests[0]?.headers['x-tenant'], 't-1');
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

describe('GET /models', () => {
  const list = async (url: string, query = '', headers: object = {}) =>
    (await send(url, { method: 'GET', path: `/v1/models${query}`, headers: { ...key, ...headers } })).json();

  test('is what the key may use, filtered and cut', async (t) => {
    const closed = {
      allowAllModels: false,
      models: [model('b'), model('a'), model('c', { enabled: false })],
    };
    const { gateway } = await started(
      t,
      [
        integration({ key: 'k' }, closed),
        provider(),
        provider({ expiresAt: 1 }, { id: 'p2', slug: 'old' }),
        integration({ key: 'k' }, { aiProviderId: 'azure', models: [] }, { id: 'i3' }),
        provider({}, { id: 'p3', slug: 'open', parentId: 'i3' }),
      ],
      {
        providers: {},
        answer: (_request, response) => void response.end('{"data":[{"id":"z","created":5}]}'),
      },
    );
    const ids = async (query: string) => {
      const { data, total } = (await list(gateway.url, query)) as unknown as {
        data: { id: string }[];
        total?: number;
      };
      return [data.map(({ id }) => id), total];
    };
    assert.deepEqual(await ids('?sort=id'), [['@mine/a', '@mine/b', '@open/z'], undefined]);
    assert.deepEqual(await ids('?sort=id&order=desc&limit=1&offset=1'), [['@mine/b'], 3]);
    assert.deepEqual(await ids('?provider=@open'), [['@open/z'], undefined]);
    assert.deepEqual(await ids('?ai_service=plain&sort=id'), [['@mine/a', '@mine/b'], undefined]);
    const wrong = await list(gateway.url, '?limit=many');
    assert.equal(wrong.error.code, 'invalid_request');
    const own = (await list(gateway.url, '', { 'x-service-provider': '@mine' })) as unknown as {
      data: { id: string }[];
    };
    assert.deepEqual(
      own.data.map(({ id }) => id),
      ['b', 'a'],
    );
  });
});
