// Usage limits as an operator sets them and as callers feel them, on a gateway with its embedded stores.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { call, chat, makePremises, operate, refusalOf, type Premises } from '../kit/operator.ts';
import {
  eventually,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const yaml = {
  version: 1,
  storage: { resources: { url: 'pglite:' }, analytics: { url: 'none:' } },
  pipelines: [
    { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: ['auth', 'policies', { provider: { default: 'mock' } }],
    },
  ],
};
/** Fewer tokens than one answer of the mock takes. */
const small = { type: 'tokens', credit_limit: 20 };
const large = { type: 'tokens', credit_limit: 1_000_000 };
const mock = { 'x-service-provider': 'mock' };

let weir: WeirProcess;
let data = '';

before(async () => {
  data = path.join(await temporaryFolder(), 'data');
  weir = await startWeir({ yaml, data });
});
after(() => stopEverything());

const ask = (key: string, headers: Readonly<Record<string, string>> = mock) =>
  chat(weir.url, { key, model: 'mock-gpt', headers });
const statusOf = async (key: string, headers?: Readonly<Record<string, string>>): Promise<number> =>
  (await ask(key, headers)).status;

/** The second call is refused, and a raised limit lets the third one in. */
async function assertEnforced(
  key: string,
  expected: { readonly code?: string; readonly words: RegExp },
  raise: () => Promise<unknown>,
  headers?: Readonly<Record<string, string>>,
): Promise<void> {
  assert.equal(await statusOf(key, headers), 200);
  const [status, code, message] = refusalOf(await ask(key, headers));
  assert.deepEqual([status, code], [412, expected.code ?? 'budget_exhausted']);
  assert.match(String(message), expected.words);
  await raise();
  await eventually(async () => ((await statusOf(key, headers)) === 200 ? true : undefined));
}

describe('a usage limit is enforced', () => {
  test('of a key', async () => {
    const { keyId, key } = await makePremises(weir.url, 'Of a key');
    const at = `/api-keys/${keyId}`;
    await operate(weir.url, { method: 'PUT', path: at, body: { usage_limits: small } });
    const words = /usage limit of the key "Of a key key" \(20 tokens\) is exhausted: \d+ tokens used\. Raise/;
    await assertEnforced(key, { words }, () =>
      operate(weir.url, { method: 'PUT', path: at, body: { usage_limits: large } }),
    );
  });

  test('of a workspace', async () => {
    const { workspace, key } = await makePremises(weir.url, 'Of a workspace');
    const at = `/admin/workspaces/${workspace}`;
    const put = (limit: object) =>
      operate(weir.url, { method: 'PUT', path: at, body: { usage_limits: [limit] } });
    await put(small);
    await assertEnforced(key, { words: /usage limit of the workspace/ }, () => put(large));
  });

  test('of a provider, a virtual key, and what a workspace may use of an integration', async () => {
    const { workspace: workspace_id, key } = await makePremises(weir.url, 'Of a provider');
    const integration = { name: 'I', slug: 'int', ai_provider_id: 'mock', create_default_provider: false };
    await operate(weir.url, { path: '/integrations', body: integration });
    const allow = (limits: object) =>
      operate(weir.url, {
        method: 'PUT',
        path: '/integrations/int/workspaces',
        body: { workspaces: [{ id: workspace_id, enabled: true, ...limits }] },
      });
    await allow({});
    const provider = { name: 'Pro', slug: 'pro', integration_id: 'int', workspace_id, usage_limits: small };
    await operate(weir.url, { path: '/providers', body: provider });
    const refusal = { code: 'provider_budget_exhausted', words: /usage limit of the provider "Pro"/ };
    const at = `/providers/pro?workspace_id=${workspace_id}`;
    await assertEnforced(
      key,
      refusal,
      () => operate(weir.url, { method: 'PUT', path: at, body: { usage_limits: large } }),
      { 'x-service-provider': '@pro' },
    );
    await operate(weir.url, {
      path: '/virtual-keys',
      body: { name: 'Vir', slug: 'vir', provider: 'mock', key: 'k', workspace_id, usage_limits: small },
    });
    await assertEnforced(
      key,
      { ...refusal, words: /usage limit of the provider "Vir"/ },
      () =>
        operate(weir.url, {
          method: 'PUT',
          path: `/virtual-keys/vir?workspace_id=${workspace_id}`,
          body: { usage_limits: large },
        }),
      { 'x-service-virtual-key': 'vir' },
    );
    await allow({ usage_limits: [small] });
    await assertEnforced(
      key,
      { ...refusal, words: /usage limit of the integration "I"/ },
      () => allow({ usage_limits: [large] }),
      { 'x-service-provider': '@pro' },
    );
  });

  test('and shown and begun anew: of a key, a workspace, a provider, a virtual key, an access', async () => {
    const { workspace: workspace_id, key, keyId } = await makePremises(weir.url, 'Reset');
    const once = { type: 'requests', credit_limit: 1, alert_threshold: null, periodic_reset: 'monthly' };
    const integration = { name: 'R', slug: 'reset', ai_provider_id: 'mock', create_default_provider: false };
    await operate(weir.url, { path: '/integrations', body: integration });
    const access = '/integrations/reset/workspaces';
    const one = (said: object) => ({ workspaces: [{ id: workspace_id, enabled: true, ...said }] });
    const provided = { slug: 'again', name: 'Again', integration_id: 'reset', workspace_id };
    const virtual = { slug: 'virtual', name: 'Virtual', provider: 'mock', key: 'k', workspace_id };
    await operate(weir.url, { method: 'PUT', path: access, body: one({}) });
    await operate(weir.url, { path: '/providers', body: provided });
    await operate(weir.url, { path: '/virtual-keys', body: virtual });
    const at = `?workspace_id=${workspace_id}`;
    const reset = { reset_usage: true };
    const places: [path: string, header: string, limit: object, none: object, again: object][] = [
      [`/api-keys/${keyId}`, 'mock', { usage_limits: once }, { usage_limits: null }, reset],
      [`/admin/workspaces/${workspace_id}`, 'mock', { usage_limits: [once] }, { usage_limits: [] }, reset],
      [`/providers/again${at}`, '@again', { usage_limits: once }, { usage_limits: null }, reset],
      [`/virtual-keys/virtual${at}`, '@virtual', { usage_limits: once }, { usage_limits: null }, reset],
      [access, '@again', one({ usage_limits: [once] }), one({ usage_limits: [] }), one(reset)],
    ];
    for (const [path, provider, limit, none, again] of places) {
      const put = (body: object) => operate(weir.url, { method: 'PUT', path, body });
      const shown = async () => {
        const record = await operate(weir.url, { path });
        const { workspaces, status, usage_limits: limits } = record;
        const [first] = [workspaces?.[0].usage_limits ?? limits].flat();
        const { last_reset_at: resetAt, next_usage_reset_at: next } = workspaces?.[0] ?? record;
        assert.equal(first.last_reset_at, resetAt, path);
        assert.match(next, /^\d{4}-\d\d-01T00:00:00\.000Z$/, path);
        return [first.current_usage, first.credit_limit, status, resetAt];
      };
      await put(limit);
      const headers = { 'x-service-provider': provider };
      await eventually(async () => ((await statusOf(key, headers)) === 412 ? true : undefined));
      const hasStatus = path.startsWith('/api-keys') || path.includes(at);
      assert.deepEqual(
        (await shown()).slice(0, hasStatus ? 3 : 2),
        [1, 1, 'exhausted'].slice(0, hasStatus ? 3 : 2),
        path,
      );
      const before = new Date().toISOString();
      await put(again);
      const [used, , , resetAt] = await shown();
      assert.equal(used, 0, path);
      assert.ok(resetAt >= before, path);
      assert.equal(await statusOf(key, headers), 200, path);
      await put(none);
      await eventually(async () => ((await statusOf(key, headers)) === 200 ? true : undefined));
    }
  });

  test('of a workspace by the week and by the month, each by itself', async () => {
    const { workspace, key } = await makePremises(weir.url, 'Two periods');
    const limits = [
      { type: 'requests', credit_limit: 2, periodic_reset: 'monthly' },
      { type: 'requests', credit_limit: 3, periodic_reset: 'weekly' },
    ];
    const path = `/admin/workspaces/${workspace}`;
    await operate(weir.url, { method: 'PUT', path, body: { usage_limits: limits } });
    const [, , message] = await eventually(async () => {
      const refused = refusalOf(await ask(key));
      return refused[0] === 412 ? refused : undefined;
    });
    assert.match(
      String(message),
      /\(2 requests\) is exhausted: 2 requests used\. It begins anew at \d{4}-\d\d-01T/,
    );
    const { usage_limits: shown } = await operate(weir.url, { path });
    assert.ok(shown.every((one: any) => one.current_usage <= 2));
  });

  test('a fallback goes on where the budget of its first target is exhausted', async () => {
    const { workspace: workspace_id, key } = await makePremises(weir.url, 'Fallback');
    const virtual = { provider: 'mock', key: 'k', workspace_id };
    const budgeted = { ...virtual, name: 'First', slug: 'first', usage_limits: small };
    await operate(weir.url, { path: '/virtual-keys', body: budgeted });
    await operate(weir.url, { path: '/virtual-keys', body: { ...virtual, name: 'Second', slug: 'second' } });
    const targets = [{ provider: '@first' }, { provider: '@second' }];
    const config = JSON.stringify({ strategy: { mode: 'fallback' }, targets });
    const option = async () =>
      (await ask(key, { 'x-service-config': config })).headers['x-service-last-used-option-index'];
    assert.deepEqual([await option(), await option()], ['config.targets[0]', 'config.targets[1]']);
  });
});

describe('a budget of dollars that has room for two requests', () => {
  const late = { 'x-mock-faults': 'latency_ms=400' };
  const target = { provider: 'mock' };
  const balanced = JSON.stringify({ strategy: { mode: 'loadbalance' }, targets: [target, target] });
  // A model of its own for each, so that nothing is known of it.
  const ways: [how: string, model: string, headers: Readonly<Record<string, string>>][] = [
    ['a header', 'mock-a', mock],
    ['its model', '@mock/mock-b', {}],
    ['the plugin', 'mock-c', {}],
    ['a config', 'mock-d', { 'x-service-config': balanced }],
  ];
  for (const [how, model, headers] of ways)
    test(`admits two of twenty at once, where ${how} names the provider`, async () => {
      const { key, keyId } = await makePremises(weir.url, `Dollars by ${how}`);
      const body = { usage_limits: { type: 'cost', credit_limit: 1 } };
      await operate(weir.url, { method: 'PUT', path: `/api-keys/${keyId}`, body });
      await new Promise((resolve) => setTimeout(resolve, 1200));
      // A million tokens of the built-in provider: 0.60 dollars. Its answer is much shorter.
      const asked = { model, max_tokens: 1_000_000, messages: [{ role: 'user', content: 'Hello' }] };
      const send = (more: Readonly<Record<string, string>> = {}) =>
        call(weir.url, { path: '/chat/completions', key, headers: { ...headers, ...more }, body: asked });
      const answers = await Promise.all(Array.from({ length: 20 }, () => send(late)));
      const refused = answers.filter(({ status }) => status !== 200);
      assert.equal(answers.length - refused.length, 2);
      for (const answer of refused) {
        const [status, code, message] = refusalOf(answer);
        assert.deepEqual([status, code], [429, 'rate_limited']);
        assert.match(String(message), /Requests under way have reserved what is left/);
      }
      assert.equal((await send()).status, 200, 'what was not used came back');
    });
});

describe('a usage-limit policy', () => {
  let premises: Premises;
  let at = '';
  const as = (user: string) => ({ ...mock, 'x-service-metadata': JSON.stringify({ _user: user }) });
  const usage = async () =>
    (await operate(weir.url, { path: `${at}?include_usage=true` })).value_key_usage_map;

  before(async () => {
    premises = await makePremises(weir.url, 'Policy');
    const body = {
      name: 'Per person',
      conditions: [{ key: 'workspace_id', value: premises.workspace }],
      group_by: [{ key: 'metadata._user' }],
      type: 'requests',
      credit_limit: 2,
      workspace_id: premises.workspace,
    };
    const { id } = await operate(weir.url, { path: '/policies/usage-limits', body });
    at = `/policies/usage-limits/${id}`;
    await eventually(async () =>
      (await operate(weir.url, { path: at })).status === 'active' ? true : undefined,
    );
  });

  test('counts each group by itself, and tells what is used', async () => {
    const { key } = premises;
    assert.deepEqual(
      [await statusOf(key, as('ann')), await statusOf(key, as('ann')), await statusOf(key, as('ann'))],
      [200, 200, 412],
    );
    assert.equal(await statusOf(key, as('bob')), 200);
    const told = { is_threshold_alerts_sent: false, is_exhausted_alerts_sent: false };
    assert.deepEqual(await usage(), {
      'metadata._user:ann': {
        current_usage: 2,
        status: 'exhausted',
        ...told,
        is_exhausted_alerts_sent: true,
      },
      'metadata._user:bob': { current_usage: 1, status: 'active', ...told },
    });
  });

  test('of many requests at once admits exactly so many', async () => {
    const { key } = premises;
    const all = await Promise.all(Array.from({ length: 20 }, () => statusOf(key, as('eve'))));
    assert.equal(all.filter((status) => status === 200).length, 2);
    assert.ok(all.every((status) => status === 200 || status === 412 || status === 429));
  });

  test('begins anew for one group when it is told to', async () => {
    await operate(weir.url, {
      method: 'PUT',
      path: at,
      body: { reset_usage_for_value: 'metadata._user:ann' },
    });
    assert.equal(await statusOf(premises.key, as('ann')), 200);
    assert.equal((await usage())['metadata._user:ann'].current_usage, 1);
  });

  test('survives a restart, and kill -9 after a second', async () => {
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const before = await usage();
      if (signal === 'SIGKILL') await new Promise((resolve) => setTimeout(resolve, 1500));
      await weir.stop(signal);
      weir = await startWeir({ yaml, data });
      assert.deepEqual(await usage(), before);
      assert.equal(await statusOf(premises.key, as('eve')), 412);
    }
  });

  test('of a key is told with the key as an entity, and reset there', async () => {
    const { workspace, key, keyId } = await makePremises(weir.url, 'Entity');
    const body = {
      conditions: [{ key: 'workspace_id', value: workspace }],
      group_by: [{ key: 'api_key' }],
      ...{ type: 'requests', credit_limit: 1, workspace_id: workspace },
    };
    const { id } = await operate(weir.url, { path: '/policies/usage-limits', body });
    const entities = `/policies/usage-limits/${id}/entities`;
    await eventually(async () => ((await statusOf(key)) === 412 ? true : undefined));
    const { data: exhausted } = await operate(weir.url, { path: `${entities}?status=exhausted` });
    assert.deepEqual(
      exhausted.map((one: any) => [one.id, one.current_usage, one.status]),
      [[keyId, 1, 'exhausted']],
    );
    await operate(weir.url, { method: 'PUT', path: `${entities}/${keyId}/reset` });
    assert.equal(await statusOf(key), 200);
    const gone = await call(weir.url, { method: 'PUT', path: `${entities}/nobody/reset` });
    assert.equal(gone.status, 404);
  });
});

test('without a relational store, usage of keys of the file survives restarts and kill -9', async () => {
  const folder = path.join(await temporaryFolder(), 'data');
  const key = 'a-secret-of-the-file-0123456789';
  const owned = {
    ...yaml,
    storage: { resources: { url: 'none:' }, analytics: { url: 'none:' } },
    organisation: {
      keys: [
        {
          ...{ name: 'limited', type: 'workspace-service', key, scopes: ['completions.write'] },
          usage_limits: { type: 'requests', credit_limit: 2 },
        },
      ],
    },
  };
  let alone = await startWeir({ yaml: owned, data: folder });
  const status = async () => (await chat(alone.url, { key, model: 'mock-gpt', headers: mock })).status;
  assert.equal(await status(), 200);
  await alone.stop();
  alone = await startWeir({ yaml: owned, data: folder });
  assert.deepEqual([await status(), await status()], [200, 412]);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await alone.stop('SIGKILL');
  alone = await startWeir({ yaml: owned, data: folder });
  assert.equal(await status(), 412);
  await alone.stop();
});
