import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { credentialsOf, key, ok } from '../../tests/kit/routing-kit.ts';
import { asHeader, body, refusal, started } from './stored-providers.test-support.ts';
import { integration, model, provider } from './stored-records.test-support.ts';

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
          parts: () => undefined,
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
    assert.deepEqual(found, [{ ...rule, own: [own] }, { ...rule, model: 'gpt-4o' }, rule, 'held']);
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
            dialect: 'azure-openai',
            azure_deployment_id: 'dep-a',
            azure_api_version: '2024-10-21',
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
