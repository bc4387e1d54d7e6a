import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { inspect } from 'node:util';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { key, ours, routed, unprefixed } from '../../tests/kit/routing-kit.ts';
import { definePlugin } from '../pipeline/plugin.ts';

/** Asks with these headers and returns what `attempt.target` was. */
async function begin(t: TestContext) {
  const seen: string[] = [];
  const looking = definePlugin({
    name: 'looking',
    create: () => ({
      attempt: ({ attempt }) =>
        void seen.push(attempt.target, inspect(attempt, { showHidden: true, depth: 0 })),
    }),
  });
  const { gateway, upstream } = await routed(t, {
    plugins: [auth, looking, providerPlugin()],
    security: { trusted_hosts: ['127.0.0.1'] },
  });
  const targetOf = async (headers: Readonly<Record<string, string>>): Promise<string> => {
    seen.length = 0;
    await send(gateway.url, { path: '/v1/x', headers: { ...key, ...headers }, body: {} });
    const [target, shown] = seen;
    assert.match(target ?? '', /^[A-Za-z0-9_-]{43}$/);
    assert.doesNotMatch(shown ?? '', /secret|127\.0\.0\.1/, 'nothing of the target can be seen');
    return target ?? '';
  };
  return { targetOf, upstream };
}

const to = (provider: string, more: Readonly<Record<string, string>> = {}) => ({
  'x-service-provider': provider,
  ...more,
});
const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

test('the same target is the same, however it was named', async (t) => {
  const { targetOf } = await begin(t);
  const held = await targetOf(to('held'));
  assert.equal(await targetOf(to('@held')), held);
  assert.equal(await targetOf({ 'x-service-virtual-key': 'held' }), held);
  assert.equal(await targetOf(to('held', bearer('sk-ignored'))), held, 'a credential that is not passed on');
});

test('another provider, address or credential is another target', async (t) => {
  const { targetOf, upstream } = await begin(t);
  const custom = { 'x-service-custom-host': upstream.url };
  const all = [
    to('held'),
    to('bare'),
    to('held-boxed'),
    to('plain'),
    to('plain', bearer('sk-1')),
    to('plain', bearer('sk-2')),
    to('plain', { 'x-api-key': 'sk-1' }),
    to('boxed', bearer('sk-1')),
    to('boxed', bearer('sk-2')),
    to('held', custom),
    to('held', { ...custom, ...bearer('sk-1') }),
    to('plain', { ...custom, ...bearer('sk-1') }),
  ];
  const targets: string[] = [];
  for (const headers of all) targets.push(await targetOf(headers));
  assert.equal(new Set(targets).size, all.length);
});

test('a service key is no credential for a provider, wherever it stands', async (t) => {
  const { targetOf } = await begin(t);
  const plain = await targetOf(to('plain'));
  assert.equal(await targetOf(to('plain', bearer(ours))), plain);
  assert.equal(await targetOf(to('plain', { 'x-service-api-key': '', ...bearer(unprefixed) })), plain);
});

test('callers in turns: each keeps its own target', async (t) => {
  const { targetOf } = await begin(t);
  const callers: readonly Readonly<Record<string, string>>[] = [
    bearer('sk-1'),
    {},
    { 'x-api-key': 'sk-1' },
    bearer('sk-2'),
    bearer('sk-1'),
  ];
  const first: string[] = [];
  for (const caller of callers) first.push(await targetOf(to('plain', caller)));
  assert.equal(first[4], first[0]);
  assert.equal(new Set(first).size, 4);
  const again: string[] = [];
  for (const caller of [...callers].reverse()) again.push(await targetOf(to('plain', caller)));
  assert.deepEqual(again.reverse(), first);
});
