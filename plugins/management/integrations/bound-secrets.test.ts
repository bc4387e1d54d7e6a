// A secret that is stored goes only to the origins that were there when it was stored.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { ProviderRow } from '../../../core/providers/provider-row.ts';
import { path as chat, started } from '../../../core/routing/stored-providers.test-support.ts';
import {
  expecting,
  openResourcesOfFile,
  startAdministration,
} from '../../../tests/kit/administration-kit.ts';
import { startUpstream, type Upstream } from '../../../tests/kit/http-kit.ts';
import { ok as answering } from '../../../tests/kit/routing-kit.ts';

const resources = await openResourcesOfFile();
const secret = 'sk-planted-0123456789-canary';
const [home, away] = ['https://api.example.com/v1', 'https://elsewhere.example.com/v1'];

async function start(t: TestContext) {
  const { tenant, call } = await startAdministration(t, resources);
  const place = await tenant('bound');
  return { ...place, call, ...expecting(call, place.owner) };
}

describe('a secret that is stored', () => {
  test('does not follow the address of its integration, unless it is given again', async (t) => {
    const { ok, refused } = await start(t);
    const custom_headers = { 'x-tenant': secret };
    const body = { name: 'One', slug: 'one', ai_provider_id: 'openai', key: secret };
    await ok({
      path: '/integrations',
      body: { ...body, configurations: { custom_host: home, custom_headers } },
    });
    const put = (said: object) => ({ method: 'PUT', path: '/integrations/one', body: said });
    const shown = await ok({ path: '/integrations/one' });
    const moved = { ...shown.configurations, custom_host: away };
    const message = /\/key is missing: the stored secret would go to https:\/\/elsewhere\.example\.com,/;
    await refused(put({ configurations: moved }), 400, message);
    await refused(put({ configurations: moved, key: shown.masked_key }), 400, message);
    await refused(
      put({ configurations: moved, key: secret }),
      400,
      /\/configurations\/custom_headers is missing/,
    );
    await refused(
      put({ configurations: { ...moved, custom_host: 'http://api.example.com/v1' } }),
      400,
      /\/key is/,
    );
    await ok(put({ configurations: { ...shown.configurations, custom_host: `${home}/deeper` } }));
    await ok(put({ configurations: { custom_host: away }, key: null }));
    await ok(put({ configurations: { custom_host: home, custom_headers }, key: secret }));
    await ok(put({ configurations: { custom_host: away, custom_headers }, key: secret }));
  });

  const fields = [
    [
      'azure-openai',
      { azure_resource_name: 'ours', azure_api_version: 'v1' },
      { azure_resource_name: 'theirs' },
    ],
    ['bedrock', { aws_region: 'us-east-1' }, { aws_region: 'eu-west-1' }],
    ['vertex-ai', { vertex_region: 'global', vertex_project_id: 'p' }, { vertex_region: 'us-central1' }],
    ['huggingface', {}, { huggingface_base_url: away }],
    ['databricks', { databricks_workspace: 'ours' }, { databricks_workspace: 'theirs' }],
  ] as const;
  for (const [ai_provider_id, before, change] of fields) {
    test(`does not follow ${Object.keys(change).join()} of ${ai_provider_id}`, async (t) => {
      const { ok, refused } = await start(t);
      const body = { name: 'One', slug: 'one', ai_provider_id, key: secret, configurations: before };
      await ok({ path: '/integrations', body });
      const configurations = { ...before, ...change };
      const put = { method: 'PUT', path: '/integrations/one', body: { configurations } };
      await refused(put, 400, /\/key is missing: the stored secret would go to/);
      await ok({ ...put, body: { configurations, key: secret } });
    });
  }

  test('does not follow the address of a model, nor that of a virtual key', async (t) => {
    const { ok, refused, workspaceId: workspace_id } = await start(t);
    const body = { name: 'One', slug: 'one', provider: 'openai', key: secret, workspace_id };
    await ok({ path: '/virtual-keys', body: { ...body, custom_host: home } });
    const key = { method: 'PUT', path: '/virtual-keys/one' };
    await refused(
      { ...key, body: { custom_host: away } },
      400,
      /\/key is missing: the stored secret would go/,
    );
    await ok({ ...key, body: { custom_host: away, key: secret } });
    const models = { method: 'PUT', path: `/integrations/one/models?workspace_id=${workspace_id}` };
    const configurations = { custom_host: home, custom_headers: { 'x-tenant': secret } };
    const model = { slug: 'm', enabled: false, configurations };
    await refused({ ...models, body: { models: [model] } }, 400, /\/key is missing/);
    await ok({ ...models, body: { models: [model], key: secret } });
    const masked = { custom_headers: { 'x-tenant': 'sk…ry' } };
    const again = { ...models, body: { models: [{ ...model, configurations: masked }] } };
    await refused(
      again,
      400,
      /\/models has stored custom_headers for \\"m\\": the stored secret would go to/,
    );
  });
});

describe('a secret reference', () => {
  const auth_config = {
    vault_auth_type: 'token',
    vault_token: 'hvs.planted-0123456789',
    vault_addr: 'https://vault.example.com',
  };
  const body = {
    name: 'Ref',
    slug: 'ref',
    manager_type: 'hashicorp_vault',
    secret_path: 'kv/a',
    auth_config,
  };
  const secret_mappings = [{ target_field: 'key', secret_reference_id: 'ref' }];
  const integration = { name: 'One', slug: 'one', ai_provider_id: 'openai', secret_mappings };

  test('is for no workspace and for the hosts of the provider table, unless it says otherwise', async (t) => {
    const { ok, refused, workspaceId: workspace_id } = await start(t);
    await ok({ path: '/secret-references', body });
    const reference = await ok({ path: '/secret-references/ref' });
    assert.deepEqual(
      [reference.allow_all_workspaces, reference.allowed_workspaces, reference.allowed_hosts],
      [false, [], []],
    );
    await ok({ path: '/integrations', body: integration });
    const own = { ...integration, slug: 'two', workspace_id };
    await refused(
      { path: '/integrations', body: own },
      400,
      /names no secret reference that may be used here/,
    );
    const put = { method: 'PUT', path: '/integrations/one', body: { configurations: { custom_host: away } } };
    const message =
      /secret_reference_id names a secret that may not be sent to https:\/\/elsewhere\.example\.com; add/;
    await refused(put, 400, message);
    const mapped = {
      secret_mappings: [{ target_field: 'configurations.custom_headers', secret_reference_id: 'ref' }],
    };
    const server = { name: 'S', url: away, auth_type: 'headers', transport: 'http', ...mapped };
    await refused({ path: '/mcp-integrations', body: server }, 400, message);
    const hosts = {
      method: 'PUT',
      path: '/secret-references/ref',
      body: { allowed_hosts: ['elsewhere.example.com'] },
    };
    await refused(
      hosts,
      400,
      /\/auth_config\/vault_token is missing: allowed_hosts lets the secret go to another/,
    );
    await ok({ ...hosts, body: { ...hosts.body, auth_config } });
    await ok(put);
    await ok({ path: '/mcp-integrations', body: server });
  });

  test('stands for no field that decides the address', async (t) => {
    const { ok, refused } = await start(t);
    await ok({ path: '/secret-references', body });
    const target_field = 'configurations.huggingface_base_url';
    const said = { ...integration, ai_provider_id: 'huggingface', key: secret };
    const asked = {
      path: '/integrations',
      body: { ...said, secret_mappings: [{ ...secret_mappings[0], target_field }] },
    };
    await refused(asked, 400, /target_field is no field of huggingface/);
  });
});

interface Write {
  readonly route: 'integration' | 'virtual-key' | 'model' | 'forget';
  readonly host: number | undefined;
  readonly model: string;
  readonly key: 'new' | 'again' | 'masked' | 'none' | 'dropped';
  readonly headers: 'new' | 'masked' | 'none';
}

const writes: fc.Arbitrary<readonly Write[]> = fc.array(
  fc.record({
    route: fc.constantFrom('integration', 'virtual-key', 'model', 'model', 'forget'),
    host: fc.option(fc.nat(2), { nil: undefined }),
    model: fc.constantFrom('m1', 'm2'),
    key: fc.constantFrom('new', 'again', 'masked', 'none', 'none', 'dropped'),
    headers: fc.constantFrom('new', 'masked', 'none'),
  }),
  { minLength: 1, maxLength: 12 },
);

test('no sequence of writes sends a secret to an origin that was not there when it was stored', async (t) => {
  const { ok, call, owner, organisationId, workspaceId } = await start(t);
  const upstreams: Upstream[] = [];
  for (let index = 0; index < 3; index++) upstreams.push(await startUpstream(t, answering));
  const origins = upstreams.map(({ url }) => new URL(url).origin);
  const table = new Map<string, ProviderRow>([['openai', { base_url: 'https://api.openai.com/v1' }]]);
  const { ask, directory } = await started(t, [], {
    table,
    security: { trusted_hosts: origins.map((origin) => new URL(origin).host) },
  });
  let sent = 0;
  let refusals = 0;
  let runs = 0;
  let count = 0;
  await fc.assert(
    fc.asyncProperty(writes, async (sequence) => {
      const slug = `vk-${++runs}`;
      const bound = new Map<string, Set<string>>();
      let held = `key-${++count}-0123456789abcdef`;
      /** An answer with 200 binds its secrets to the origins that are there then. */
      const keep = async (said: readonly string[]): Promise<void> => {
        const place = { organisationId, workspaceId };
        const [one, provider] = await resources.read(async ({ records }) => [
          await records.find('integration', place, slug),
          await records.find('provider', place, slug),
        ]);
        assert.ok(one !== undefined && provider !== undefined);
        const addresses = [one.data.configurations['base_url']];
        for (const { configurations } of one.data.models) addresses.push(configurations['custom_host']);
        const there = addresses
          .filter((each) => typeof each === 'string')
          .map((each) => new URL(each).origin);
        for (const each of said) {
          const known = bound.get(each) ?? new Set();
          bound.set(each, known);
          for (const origin of there) known.add(origin);
        }
        const here = { workspaceId: 'ws-1', organisationId: 'org-1' };
        directory.put({ ...one, ...here, version: ++count });
        directory.put({ ...provider, ...here, version: ++count });
      };
      const made = { name: slug, slug, provider: 'openai', key: held, workspace_id: workspaceId };
      await ok({ path: '/virtual-keys', body: { ...made, custom_host: `${origins[0]}/v1` } });
      await keep([held]);
      for (const write of sequence) {
        const query = `?workspace_id=${workspaceId}`;
        const shown = await ok({ path: `/integrations/${slug}${query}` });
        const fresh = `fresh-${++count}-0123456789abcdef`;
        const header = `header-${++count}-0123456789abcdef`;
        const host = write.host === undefined ? undefined : `${origins[write.host]}/v1`;
        const key = {
          new: fresh,
          again: held,
          masked: shown.masked_key || undefined,
          none: undefined,
          dropped: null,
        }[write.key];
        const asHeaders = (masked: unknown) =>
          ({ new: { 'x-hidden': header }, masked, none: undefined })[write.headers];
        const settings = {
          custom_host: host ?? shown.configurations.custom_host,
          custom_headers: asHeaders(shown.configurations.custom_headers),
        };
        const models = (await ok({ path: `/integrations/${slug}/models${query}` })).models;
        const now = models.find((each: { slug: string }) => each.slug === write.model);
        const configurations = {
          custom_host: host,
          custom_headers: asHeaders(now?.configurations.custom_headers),
        };
        const model = {
          models: [{ slug: write.model, enabled: true, configurations }],
          ...(key !== null && { key }),
        };
        const asked = {
          integration: {
            method: 'PUT',
            path: `/integrations/${slug}${query}`,
            body: { key, configurations: settings },
          },
          'virtual-key': { method: 'PUT', path: `/virtual-keys/${slug}${query}`, body: { key, ...settings } },
          model: { method: 'PUT', path: `/integrations/${slug}/models${query}`, body: model },
          forget: { method: 'DELETE', path: `/integrations/${slug}/models${query}&slugs=${write.model}` },
        }[write.route];
        const answer = await call(owner, asked);
        assert.ok([200, 400, 404].includes(answer.status), answer.text);
        if (answer.status !== 200) refusals += 1;
        else {
          if (write.route !== 'forget' && typeof key === 'string' && key !== shown.masked_key) held = key;
          await keep(
            write.route === 'forget'
              ? []
              : [fresh, held, header].filter((each) => JSON.stringify(asked).includes(each)),
          );
        }
        for (const named of ['m0', 'm1', 'm2'])
          await ask(
            { 'x-service-provider': `@${slug}` },
            { model: named, messages: [{ role: 'user', content: 'x' }] },
          );
        upstreams.forEach(({ requests }, index) => {
          for (const { headers } of requests.splice(0)) {
            for (const [value, allowed] of bound) {
              if (!JSON.stringify(headers).includes(value)) continue;
              sent += 1;
              assert.ok(allowed.has(origins[index] ?? ''), `${value} went to ${origins[index]} (${chat})`);
            }
          }
        });
      }
    }),
    { numRuns: 25 },
  );
  assert.ok(sent > 0 && refusals > 0, `${sent} secrets were sent, ${refusals} writes refused`);
});
