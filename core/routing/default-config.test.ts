import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { OrganisationDefaults } from '../ports/organisation-settings.ts';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { routed } from '../../tests/kit/routing-kit.ts';

const path = '/v1/chat/completions';
const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const secret = 'wk_0123456789abcdef';

/** One that names its provider, its name in the answer's model; and one that leaves the provider to the request. */
const naming = (name: string) => ({ provider: '@bare', override_params: { user: name } });
const configs = {
  keys: naming('keys'),
  workspaces: naming('workspaces'),
  organisations: naming('organisations'),
  named: naming('named'),
  settings: { override_params: { user: 'settings' } },
};

/** What a case says: of whom, and of the request. */
interface Case {
  readonly key?: Partial<KeyRecord>;
  readonly workspace?: OrganisationDefaults;
  readonly organisation?: OrganisationDefaults;
  readonly headers?: Readonly<Record<string, string>>;
  readonly model?: string;
  readonly options?: Readonly<Record<string, unknown>>;
}

async function ask(t: TestContext, { key, workspace, organisation, headers, model, options }: Case) {
  const defaultsOf: Directory['defaultsOf'] = (_, workspaceId) => ({
    ...organisation,
    ...(workspaceId === 'ws-1' && workspace),
  });
  const { gateway, upstream } = await routed(t, {
    configs,
    keys: { [secret]: testKey(key) },
    directory: { defaultsOf },
    plugins: [auth, providerPlugin({ default: '@held', ...options })],
  });
  const answer = await send(gateway.url, {
    path,
    headers: { 'x-service-api-key': secret, ...headers },
    body: { ...body, ...(model !== undefined && { model }) },
  });
  const sent = upstream.requests.at(-1);
  const seen = sent && (JSON.parse(sent.body.toString()) as { user?: string; model: string });
  const { facts } = await gateway.untilSettled();
  return { answer, seen, facts, provider: facts.provider };
}

const ofKey = (configId: string, allowConfigOverride?: boolean): Partial<KeyRecord> => ({
  defaults: { configId, ...(allowConfigOverride !== undefined && { allowConfigOverride }) },
});
const inline = JSON.stringify(naming('inline'));

describe('the config that a request begins with', () => {
  const all = { workspace: { configId: 'workspaces' }, organisation: { configId: 'organisations' } };
  const cases: readonly [string, Case, { user?: string; provider: string; config: string }][] = [
    ['none', {}, { provider: 'held', config: '' }],
    ['the organisation’s', { organisation: all.organisation }, of('organisations')],
    ['the workspace’s before it', all, of('workspaces')],
    ['the key’s before both', { ...all, key: ofKey('keys') }, of('keys')],
    ['the one that the request names before all', { ...all, ...asks('named') }, of('named')],
    [
      'the one that the request brings before all',
      { ...all, key: ofKey('keys'), ...asks(inline) },
      { ...of('inline') },
    ],
    ['the plugin’s after all', { options: { config: 'named' } }, of('named')],
    ['a default before the plugin’s', { key: ofKey('keys'), options: { config: 'named' } }, of('keys')],
    [
      'none that names a provider, for a request that names one',
      { key: ofKey('keys'), headers: { 'x-service-provider': '@held' } },
      { provider: 'held', config: '' },
    ],
    [
      'nor for one with a virtual key',
      { ...all, headers: { 'x-service-virtual-key': 'held' } },
      { provider: 'held', config: '' },
    ],
    [
      'nor for one whose model names a provider',
      { key: ofKey('keys'), model: '@held/big' },
      { provider: 'held', config: '' },
    ],
    [
      'one without a provider, for a request that names one',
      { key: ofKey('settings'), headers: { 'x-service-provider': '@bare' } },
      { user: 'settings', provider: 'bare', config: 'settings' },
    ],
    [
      'one without a provider, for a request whose model names one',
      { key: ofKey('settings'), model: '@bare/big' },
      { user: 'settings', provider: 'bare', config: 'settings' },
    ],
    [
      'one without a provider, completed by the default provider',
      { organisation: { configId: 'settings' } },
      { user: 'settings', provider: 'held', config: 'settings' },
    ],
    [
      'the binding one, whatever provider the request names',
      { key: ofKey('keys', false), headers: { 'x-service-provider': '@held' } },
      of('keys'),
    ],
    [
      'the binding one of the workspace',
      {
        ...all,
        key: { defaults: { allowConfigOverride: false } },
        headers: { 'x-service-provider': '@held' },
      },
      of('workspaces'),
    ],
    ['the binding one, named by the request', { key: ofKey('keys', false), ...asks('keys') }, of('keys')],
  ];
  for (const [name, given, expected] of cases) {
    test(name, async (t) => {
      const { answer, seen, facts, provider } = await ask(t, given);
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(
        { user: seen?.user, provider, config: facts.config },
        { user: undefined, ...expected },
      );
      assert.equal(seen?.model, given.model === undefined ? 'm' : 'big');
    });
  }
});

function of(config: string) {
  return { user: config, provider: 'bare', config };
}

function asks(config: string): Pick<Case, 'headers'> {
  return { headers: { 'x-service-config': config } };
}

describe('requests that their key does not let choose', () => {
  for (const [name, config] of [
    ['a config of its own', inline],
    ['the name of another one', 'named'],
    ['a name that is not there', 'nowhere'],
  ] as const) {
    for (const key of [ofKey('keys', false), { defaults: { allowConfigOverride: false } }]) {
      test(`${name}, ${JSON.stringify(key.defaults)}: config_override_denied`, async (t) => {
        const { answer, seen } = await ask(t, { key, ...asks(config) });
        assert.equal(answer.status, 403);
        const { error } = answer.json() as { error: Record<string, string> };
        assert.deepEqual(
          [error['code'], error['type'], error['param']],
          ['config_override_denied', 'permission_error', 'config'],
        );
        assert.match(error['message'] ?? '', /^The service key "first key" does not let its requests bring/);
        assert.equal(seen, undefined);
      });
    }
  }
});

describe('a default config that is not there any more', () => {
  const cases: readonly [string, Case, RegExp][] = [
    ['of a key', { key: ofKey('gone') }, /"gone".*of the service key "first key" begin.*config_id/],
    ['of a token', { key: { ...ofKey('gone'), isToken: true } }, /of the token "first key" begin/],
    ['of a workspace', { workspace: { configId: 'gone' } }, /"gone".*of the workspace ws-1 begin/],
    ['of an organisation', { organisation: { configId: 'gone' } }, /of the organisation org-1 begin/],
    [
      'though the request names a provider',
      { key: ofKey('gone'), headers: { 'x-service-provider': '@held' } },
      /"gone"/,
    ],
  ];
  for (const [name, given, message] of cases) {
    test(`${name}: config_unknown, and no provider is asked`, async (t) => {
      const { answer, seen } = await ask(t, given);
      const { error } = answer.json() as { error: Record<string, string> };
      assert.deepEqual([answer.status, error['code'], error['param']], [400, 'config_unknown', 'config']);
      assert.match(error['message'] ?? '', message);
      assert.equal(seen, undefined);
    });
  }

  test('no reason to refuse a request with a config of its own', async (t) => {
    const { answer, seen } = await ask(t, { key: ofKey('gone'), ...asks('named') });
    assert.deepEqual([answer.status, seen?.user], [200, 'named']);
  });
});

describe('GET /models with a default config', () => {
  for (const [name, config, expected] of [
    ['that names its provider: of that one', 'keys', '{}'],
    ['that names none: the catalogue', 'settings', /^\{"object":"list"/],
  ] as const) {
    test(name, async (t) => {
      const { gateway } = await routed(t, { configs, keys: { [secret]: testKey(ofKey(config)) } });
      const answer = await send(gateway.url, {
        method: 'GET',
        path: '/v1/models',
        headers: { 'x-service-api-key': secret },
      });
      assert.equal(answer.status, 200, answer.text);
      if (typeof expected === 'string') assert.equal(answer.text, expected);
      else assert.match(answer.text, expected);
    });
  }
});

test('default metadata decides like the request’s own', async (t) => {
  const defaultsOf: Directory['defaultsOf'] = () => ({ metadata: { team: 'blue' } });
  const { gateway, upstream } = await routed(t, {
    keys: { [secret]: testKey() },
    directory: { defaultsOf },
    plugins: [auth, providerPlugin({ config: 'byTeam' })],
    configs: {
      byTeam: {
        strategy: { mode: 'conditional', conditions: [{ query: { 'metadata.team': 'blue' }, then: 'blue' }] },
        targets: [{ name: 'blue', ...naming('blue') }],
      },
    },
  });
  const headers = { 'x-service-api-key': secret, 'x-service-metadata': '{"team":"red","own":"1"}' };
  assert.equal((await send(gateway.url, { path, headers, body })).status, 200);
  assert.match(upstream.requests.at(-1)?.body.toString() ?? '', /"user":"blue"/);
  assert.deepEqual((await gateway.untilSettled()).facts.metadata, { team: 'blue', own: '1' });
});
