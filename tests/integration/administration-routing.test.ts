// A saved config over two integrations with secrets of their own, as two gateways on one store serve it.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, test, type TestContext } from 'node:test';
import { startFakeProviders, type FakeProviders } from '../kit/fake-providers/fake-providers.ts';
import { startFleet } from '../kit/gateway-fleet.ts';
import { call, chat, makePremises, operate, refusalOf, type Call, type Premises } from '../kit/operator.ts';
import { postgresMissing } from '../kit/postgres-server.ts';
import { eventually, stopEverything, temporaryFolder } from '../kit/process-kit.ts';
import { startVault, type VaultServer } from '../kit/vault-server.ts';

after(stopEverything);

/** What a change may take to be seen elsewhere before the test fails; how long it took is a line of its output. */
const patienceMs = 5_000;
const vaultToken = 'hvs.0123456789-abcdefgh';

/** Two gateways, two providers, and the two places where their credentials are kept. */
async function setUp(t: TestContext) {
  const folder = await temporaryFolder();
  const [first, second] = [await startFakeProviders(t), await startFakeProviders(t)];
  const vault = await startVault(t, vaultToken);
  const { gateways, server } = await startFleet({
    size: 2,
    configuration: {
      security: {
        trusted_hosts: [first, second, vault].map(({ url }) => new URL(url).host),
        secret_sources: { folder },
      },
      storage: { analytics: { url: 'none:' } },
      pipelines: [
        { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
        { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'provider'] },
      ],
    },
  });
  t.after(async () => {
    await stopEverything();
    await server.stop();
  });
  const [a, b] = gateways;
  assert.ok(a !== undefined && b !== undefined);
  const file = path.join(folder, 'first');
  return { a, b, first, second, vault, writeSecret: (text: string) => writeFile(file, `${text}\n`) };
}

/** Makes, with the calls of an operator, what the requests of the test need; resolves to the slug of the config. */
async function makeEverything(
  url: string,
  { workspace }: Premises,
  { first, second, vault }: { first: FakeProviders; second: FakeProviders; vault: VaultServer },
): Promise<string> {
  const auth_config = { vault_addr: vault.url, vault_auth_type: 'token', vault_token: vaultToken };
  const kept = { secret_path: 'secret/models/second', secret_key: 'api_key', auth_config };
  const granted = (provider: FakeProviders) => ({
    allow_all_workspaces: true,
    allowed_hosts: [`http://${new URL(provider.url).host}`],
  });
  for (const body of [
    {
      name: 'Of a file',
      slug: 'of-file',
      manager_type: 'file',
      secret_path: 'first',
      auth_config: {},
      ...granted(first),
    },
    { name: 'Of Vault', slug: 'of-vault', manager_type: 'hashicorp_vault', ...kept, ...granted(second) },
  ])
    await operate(url, { path: '/secret-references', body });
  for (const [slug, provider, reference] of [
    ['first', first, 'of-file'],
    ['second', second, 'of-vault'],
  ] as const) {
    const { id } = await operate(url, { path: `/secret-references/${reference}` });
    const body = {
      name: `The ${slug}`,
      slug,
      ai_provider_id: 'openai',
      configurations: { custom_host: `${provider.url}/openai/v1` },
      secret_mappings: [{ target_field: 'key', secret_reference_id: id }],
    };
    await operate(url, { path: '/integrations', body });
    await grant(url, slug, [{ id: workspace, enabled: true }]);
  }
  const config = {
    strategy: { mode: 'fallback' },
    targets: [{ provider: '@first' }, { virtual_key: 'second' }],
  };
  const { data } = await operate(url, {
    path: '/configs',
    body: { name: 'Main', workspace_id: workspace, config },
  });
  return data.slug;
}

/** Says which workspaces may use an integration, and that no others may. */
function grant(url: string, integration: string, workspaces: readonly object[]): Promise<unknown> {
  const body = { workspaces, override_existing_workspace_access: true };
  return operate(url, { method: 'PUT', path: `/integrations/${integration}/workspaces`, body });
}

const credential = ({ seen }: FakeProviders): string | undefined => seen.at(-1)?.headers.authorization;

test(
  'two gateways on one store serve a saved config, and both know at once what has changed',
  { skip: postgresMissing, timeout: 120_000 },
  async (t) => {
    const { a, b, first, second, vault, writeSecret } = await setUp(t);
    await writeSecret('sk-first-of-the-file');
    vault.put('models/second', { api_key: 'sk-second-of-vault' });
    const premises = await makePremises(a.url, 'Laboratory');
    const { workspace, key, keyId } = premises;
    const config = await makeEverything(a.url, premises, { first, second, vault });
    const place = `?workspace_id=${workspace}`;
    const ask = (url: string) => chat(url, { key, headers: { 'x-service-config': config } });
    const askAt = (provider: string) => chat(b.url, { key, headers: { 'x-service-provider': provider } });
    /** Changes something at the first gateway, and asks at the second until it is true; tells how long that took. */
    const seenAfter = async (what: string, change: Call, isSeen: () => Promise<boolean>): Promise<void> => {
      await operate(a.url, change);
      const changed = performance.now();
      await eventually(
        async () => (await isSeen()) || undefined,
        () => what,
        patienceMs,
      );
      t.diagnostic(`${what}: ${(performance.now() - changed).toFixed(0)} ms after the answer`);
    };
    const isRefused = (provider: string, code: string, says: RegExp) => async (): Promise<boolean> => {
      const [, found, message = ''] = refusalOf(await askAt(provider));
      if (found === code) assert.match(message, says);
      return found === code;
    };

    await t.test('the first target fails, the second answers, each with its own credential', async () => {
      for (const { url } of [a, b]) {
        first.play({ fixture: 'grid-text', fault: { kind: 'error', status: 500 } });
        second.play({ fixture: 'grid-text' });
        let answer = await ask(url);
        // The second gateway hears of it all a moment later.
        await eventually(
          async () => answer.status === 200 || void (answer = await ask(url)),
          () => answer.text,
          patienceMs,
        );
        assert.equal(answer.headers['x-service-provider'], 'second');
        assert.equal(answer.headers['x-service-last-used-option-index'], 'config.targets[1]');
        assert.equal(credential(first), 'Bearer sk-first-of-the-file');
        assert.equal(credential(second), 'Bearer sk-second-of-vault');
      }
    });

    await t.test('the config is another one', async () => {
      const body = { config: { provider: '@second', override_params: { model: 'gpt-5.1-mini' } } };
      await seenAfter(
        'the new config',
        { method: 'PUT', path: `/configs/${config}${place}`, body },
        async () => {
          assert.equal((await ask(b.url)).status, 200);
          return second.seen.at(-1)?.body.model === 'gpt-5.1-mini';
        },
      );
      first.play({ fixture: 'grid-text' });
      await ask(b.url);
      assert.equal(first.seen.length, 0);
    });

    await t.test('a secret is another one, and is gone', async () => {
      await writeSecret('sk-first-changed');
      const read = { method: 'PUT', path: '/secret-references/of-file', body: { description: 'changed' } };
      await seenAfter('the new secret of the file', read, async () => {
        assert.equal((await askAt('@first')).status, 200);
        return credential(first) === 'Bearer sk-first-changed';
      });
      vault.put('models/second', undefined);
      const readVault = { ...read, path: '/secret-references/of-vault' };
      await seenAfter(
        'a secret that Vault has no more',
        readVault,
        isRefused('@second', 'credentials_failed', /models\/second/),
      );
      vault.put('models/second', { api_key: 'sk-second-again' });
      await seenAfter('a secret that Vault has again', readVault, async () => {
        return (await askAt('@second')).status === 200 && credential(second) === 'Bearer sk-second-again';
      });
    });

    await t.test('a secret reference is for other workspaces now', async () => {
      const { data } = await operate(a.url, { path: '/workspaces' });
      const other = data.find(({ id }: { id: string }) => id !== workspace).id;
      const path = '/secret-references/of-vault';
      await seenAfter(
        'the reference of other workspaces',
        { method: 'PUT', path, body: { allow_all_workspaces: false, allowed_workspaces: [other] } },
        isRefused('@second', 'credentials_failed', /"second".*this workspace may not use/),
      );
      const body = { allow_all_workspaces: true };
      await seenAfter(
        'the reference of all workspaces',
        { method: 'PUT', path, body },
        async () => (await askAt('@second')).status === 200,
      );
    });

    await t.test('an integration is disabled for the workspace, and taken from it', async () => {
      const path = '/integrations/first/workspaces';
      const disabled = { workspaces: [{ id: workspace, enabled: false }] };
      await seenAfter(
        'the disabled integration',
        { method: 'PUT', path, body: disabled },
        isRefused('@first', 'provider_disabled', /"@first".*not enabled for this workspace/),
      );
      await grant(a.url, 'first', [{ id: workspace, enabled: true }]);
      await eventually(async () => (await askAt('@first')).status === 200 || undefined);
      await seenAfter(
        'the lost access',
        { method: 'PUT', path, body: { workspaces: [], override_existing_workspace_access: true } },
        isRefused('@first', 'provider_disabled', /not enabled for this workspace/),
      );
      assert.equal((await ask(b.url)).status, 200, 'the config does not name it any more');
    });

    await t.test('a key is deleted', async () => {
      const body = { name: 'short', workspace_id: workspace, scopes: ['completions.write'] };
      const made = await operate(a.url, { path: '/api-keys/workspace/service', body });
      const status = async (): Promise<number> =>
        (await chat(b.url, { key: made.key, headers: { 'x-service-provider': '@second' } })).status;
      await eventually(async () => (await status()) === 200 || undefined);
      await seenAfter(
        'the deleted key',
        { method: 'DELETE', path: `/api-keys/${made.id}` },
        async () => (await status()) === 401,
      );
    });

    await t.test('the first gateway is killed, and the second goes on', async () => {
      const asking = Array.from({ length: 20 }, () => ask(b.url));
      await a.stop('SIGKILL');
      const statuses = (await Promise.all(asking)).map(({ status }) => status);
      assert.deepEqual(new Set(statuses), new Set([200]));
      const body = { config: { provider: '@second', override_params: { model: 'gpt-5.1-nano' } } };
      await operate(b.url, { method: 'PUT', path: `/configs/${config}${place}`, body });
      assert.equal((await ask(b.url)).status, 200);
      assert.equal(second.seen.at(-1)?.body.model, 'gpt-5.1-nano', 'its own change is known at once');
      await operate(b.url, { method: 'DELETE', path: `/api-keys/${keyId}` });
      assert.equal((await ask(b.url)).status, 401);
      assert.equal((await call(b.url, { path: '/audit-logs' })).status, 200);
    });
  },
);
