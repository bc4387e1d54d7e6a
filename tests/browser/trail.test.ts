import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type ConsoleGateway, openWindow, useConsole } from './console-kit.ts';

/** A kind of records that is changed and taken away in its page. */
interface Walk {
  /** In the audit trail. */
  readonly type: string;
  /** Of the page, with what it shows of this kind. */
  readonly place: string;
  /** In the API. */
  readonly path: string;
  readonly body: (workspace: string, gateway: ConsoleGateway) => object | Promise<object>;
  readonly remove: 'Delete' | 'Archive' | 'Revoke';
  /** The text that is typed before it is taken away. */
  readonly typed?: string;
  /** Text that says that its page has changed the record. */
  readonly settled?: string;
}

const secret = 'sk-0123456789abcdef';
const rules = { conditions: [{ key: 'metadata.team', value: 'red' }], group_by: [{ key: 'api_key' }] };

/** An integration that every workspace may use, with `/providers` or `/mcp-servers` made of it. */
async function openToAll(
  gateway: ConsoleGateway,
  path: '/integrations' | '/mcp-integrations',
  body: { readonly slug: string },
): Promise<string> {
  const { id } = await gateway.api('POST', path, { name: 'Behind', ...body });
  await gateway.api('PUT', `${path}/${id}/workspaces`, { global_workspace_access: { enabled: true } });
  return id;
}

const walks: readonly Walk[] = [
  {
    ...{ type: 'guardrails', place: '/guardrails?', path: '/guardrails', remove: 'Delete' },
    body: () => ({ checks: [{ id: 'default.wordCount', parameters: { maxWords: 5 } }], actions: {} }),
  },
  {
    ...{ type: 'integrations', place: '/integrations?', path: '/integrations', remove: 'Delete' },
    body: () => ({ slug: 'walked', ai_provider_id: 'openai', key: secret }),
    typed: 'walked',
  },
  {
    ...{ type: 'providers', place: '/providers?', path: '/providers', remove: 'Delete' },
    async body(workspace, gateway) {
      const behind = { slug: 'behind-provider', ai_provider_id: 'openai', key: secret };
      const integration = await openToAll(gateway, '/integrations', behind);
      return { slug: 'walked-provider', integration_id: integration, workspace_id: workspace };
    },
  },
  {
    ...{ type: 'virtual_keys', place: '/providers?view=keys&', path: '/virtual-keys', remove: 'Delete' },
    body: (workspace) => ({ slug: 'walked-key', provider: 'openai', key: secret, workspace_id: workspace }),
  },
  {
    ...{ type: 'secret_references', place: '/secrets?', path: '/secret-references', remove: 'Delete' },
    body: () => ({
      manager_type: 'hashicorp_vault',
      auth_config: {
        vault_addr: 'https://vault.example.com:8200',
        vault_auth_type: 'token',
        vault_token: secret,
      },
      secret_path: 'secret/team/openai',
    }),
  },
  {
    ...{ type: 'mcp_integrations', place: '/mcp?view=integrations&', path: '/mcp-integrations' },
    body: () => ({ url: 'https://tickets.example.com/mcp', auth_type: 'none', transport: 'http' }),
    // The page asks the server, and the record keeps that it could not be reached: no conflict with the form.
    settled: 'It could not be asked',
    remove: 'Delete',
  },
  {
    ...{ type: 'mcp_servers', place: '/mcp?', path: '/mcp-servers', remove: 'Delete' },
    async body(workspace, gateway) {
      const integration = await openToAll(gateway, '/mcp-integrations', {
        ...{ slug: 'behind-server', url: 'https://tickets.example.com/mcp', auth_type: 'none' },
        ...{ transport: 'http' },
      });
      return { slug: 'walked-server', mcp_integration_id: integration, workspace_id: workspace };
    },
  },
  {
    ...{ type: 'prompt_partials', place: '/prompts?view=partials&', path: '/prompts/partials' },
    body: (workspace) => ({ string: 'Be kind.', workspace_id: workspace }),
    remove: 'Delete',
  },
  {
    ...{ type: 'collections', place: '/prompts?view=collections&', path: '/collections', remove: 'Delete' },
    body: (workspace) => ({ workspace_id: workspace }),
  },
  {
    ...{ type: 'labels', place: '/prompts?view=labels&', path: '/labels', remove: 'Delete' },
    body: (workspace) => ({ workspace_id: workspace }),
  },
  {
    ...{ type: 'usage_limit_policies', place: '/limits?show=usage&', path: '/policies/usage-limits' },
    body: () => ({ ...rules, type: 'requests', credit_limit: 10, periodic_reset: 'monthly' }),
    remove: 'Archive',
  },
  {
    ...{ type: 'rate_limit_policies', place: '/limits?show=rates&', path: '/policies/rate-limits' },
    body: () => ({ ...rules, type: 'requests', unit: 'rpm', value: 10 }),
    remove: 'Archive',
  },
  {
    ...{ type: 'api_keys', place: '/keys?', path: '/api-keys/workspace/service', remove: 'Revoke' },
    body: (workspace) => ({ scopes: ['completions.write'], workspace_id: workspace }),
    typed: 'Changed',
  },
  {
    ...{ type: 'workspaces', place: '/workspaces?', path: '/admin/workspaces', remove: 'Archive' },
    body: () => ({}),
    typed: 'Changed',
  },
];

describe('what is changed in the console stands in the audit trail', () => {
  const gateway = useConsole();

  for (const { type, place, path, body, remove, typed, settled } of walks)
    test(type.replaceAll('_', ' '), async (t) => {
      const own = await body(gateway.workspace, gateway);
      const { id } = await gateway.api('POST', path, { name: 'Walked', ...own });
      const page = await openWindow(t, gateway, settled === undefined ? {} : { expected: /412/ });
      await page.goto(`/console${place}open=${id}`);
      if (settled !== undefined) await page.getByText(settled).first().waitFor();
      await page.getByRole('button', { name: 'Edit', exact: true }).click();
      await page.getByLabel('Name', { exact: true }).fill('Changed');
      await page.getByRole('button', { name: 'Save', exact: true }).click();
      await page.getByText('Saved.', { exact: true }).first().waitFor();
      await page.getByRole('button', { name: remove, exact: true }).click();
      const confirm = page.getByRole('alertdialog');
      if (typed !== undefined) await confirm.getByRole('textbox').fill(typed);
      await confirm.getByRole('button', { name: remove, exact: true }).click();
      await page.getByText(`${remove}: Changed. Done.`).first().waitFor();
      await page.goto(`/console/audit?resource=${type}&id=${id}`);
      for (const action of ['create', 'update', 'delete']) {
        await page.getByRole('row', { name: new RegExp(`owner.*${action}`) }).waitFor();
        assert.equal(await gateway.audited(type, action, id), 1, action);
      }
    });

  test('collections and labels that are made', async (t) => {
    const page = await openWindow(t, gateway);
    for (const [view, noun, type] of [
      ['collections', 'collection', 'collections'],
      ['labels', 'label', 'labels'],
    ] as const) {
      const before = await gateway.audited(type, 'create');
      await page.goto(`/console/prompts?view=${view}`);
      await page.getByRole('button', { name: `New ${noun}` }).click();
      await page.getByLabel('Name', { exact: true }).fill(`made-here`);
      await page.getByRole('button', { name: /^Workspace: / }).click();
      await page.getByRole('option').first().click();
      await page.getByRole('button', { name: 'Create', exact: true }).click();
      await page.getByText(`The ${noun} is made.`).first().waitFor();
      assert.equal((await gateway.audited(type, 'create')) - before, 1, type);
    }
  });

  test('a prompt that gets a version and a label, is renamed and deleted', async (t) => {
    const template = JSON.stringify([{ role: 'user', content: 'Hello' }]);
    const body = { string: template, workspace_id: gateway.workspace, model: 'mock-gpt', parameters: {} };
    const { id, slug } = await gateway.api('POST', '/prompts', { name: 'Walked', ...body });
    await gateway.api('POST', '/labels', { name: 'walked', workspace_id: gateway.workspace });
    const page = await openWindow(t, gateway);
    await page.goto(`/console/prompts/${id}`);
    await page.getByLabel('Text of message 1').fill('Good morning');
    await page.getByRole('button', { name: 'Save as a new version' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save version 2' }).click();
    await page.getByText('Version 2 is saved.').first().waitFor();
    assert.equal(await gateway.audited('prompts', 'update', id), 1, 'version');
    await page.goto(`/console/prompts/${id}?tab=versions`);
    await page.getByLabel('Label of version 1').selectOption('walked');
    await page.getByText('The label is set.').first().waitFor();
    assert.equal(await gateway.audited('prompts', 'update', id), 2, 'label');
    await page.getByRole('button', { name: 'Rename or move' }).click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Changed');
    await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved.', { exact: true }).first().waitFor();
    assert.equal(await gateway.audited('prompts', 'update', id), 3, 'name');
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    const confirm = page.getByRole('alertdialog');
    await confirm.getByRole('textbox').fill(slug);
    await confirm.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('The prompt is deleted.').first().waitFor();
    assert.equal(await gateway.audited('prompts', 'delete', id), 1);
  });

  test('a config that is archived and brought back', async (t) => {
    const body = { name: 'Walked', workspace_id: gateway.workspace, config: { retry: { attempts: 2 } } };
    const { data } = await gateway.api('POST', '/configs', body);
    const page = await openWindow(t, gateway);
    await page.goto(`/console/configs/${data.slug}`);
    await page.getByRole('button', { name: 'Archive', exact: true }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Archive', exact: true }).click();
    await page.getByText('Archived', { exact: true }).first().waitFor();
    assert.equal(await gateway.audited('configs', 'update', data.id), 1);
    await page.getByRole('button', { name: 'Bring back' }).click();
    await page.getByText('The config serves again').first().waitFor();
    assert.equal(await gateway.audited('configs', 'update', data.id), 2);
    await page.getByRole('link', { name: 'Who changed it' }).click();
    const rows = page.getByRole('row', { name: /owner.*update configs/ });
    await rows.nth(1).waitFor();
    assert.equal(await rows.count(), 2);
  });

  test('the defaults of the organisation', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/settings?show=defaults');
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByRole('button', { name: 'Add a pair' }).click();
    await page.getByLabel(/^Name/).first().fill('team');
    await page
      .getByLabel(/^(Value|Text)/)
      .first()
      .fill('research');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved.').first().waitFor();
    assert.deepEqual((await gateway.api('GET', '/admin/organisation/defaults')).metadata, {
      team: 'research',
    });
    await page.getByRole('link', { name: 'Who changed it' }).click();
    await page.getByRole('row', { name: /owner.*update/ }).waitFor();
  });

  test('a provider and a virtual key that are made by their forms, and the secret of the key', async (t) => {
    const behind = { slug: 'behind-form', ai_provider_id: 'openai', key: secret };
    await openToAll(gateway, '/integrations', behind);
    const page = await openWindow(t, gateway);
    const made = {
      providers: await gateway.audited('providers', 'create'),
      keys: await gateway.audited('virtual_keys', 'create'),
    };
    await page.goto('/console/providers?new=1');
    await page.getByLabel('Name', { exact: true }).fill('Made here');
    await page.getByRole('button', { name: /^Integration: / }).click();
    await page
      .getByRole('option', { name: /Behind/ })
      .first()
      .click();
    await page.getByRole('button', { name: /^Workspace: / }).click();
    await page.getByRole('option').first().click();
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('The provider is made.').first().waitFor();
    assert.equal((await gateway.audited('providers', 'create')) - made.providers, 1);

    await page.goto('/console/providers?view=keys&new=1');
    await page.getByRole('button', { name: /^Provider: / }).click();
    await page.getByPlaceholder('Type to search').fill('openai');
    await page
      .getByRole('option', { name: /^openai/ })
      .first()
      .click();
    await page.getByLabel('Name', { exact: true }).fill('Made here too');
    await page.getByRole('button', { name: /^Workspace: / }).click();
    await page.getByRole('option').first().click();
    await page.getByLabel('Secret key').fill(secret);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('The virtual key is made.').first().waitFor();
    assert.equal((await gateway.audited('virtual_keys', 'create')) - made.keys, 1);
    const changed = await gateway.audited('virtual_keys', 'update');
    await page.getByRole('button', { name: 'Rotate the secret' }).click();
    await page.getByLabel('New secret').fill('sk-fedcba9876543210');
    await page.getByRole('button', { name: 'Rotate', exact: true }).click();
    await page.getByText('The secret is now sk…10.').first().waitFor();
    assert.equal((await gateway.audited('virtual_keys', 'update')) - changed, 1);
  });

  test('keys of a person and of the organisation', async (t) => {
    await gateway.join('Ann');
    const page = await openWindow(t, gateway);
    for (const kind of ['workspace-user', 'organisation-service']) {
      const before = await gateway.audited('api_keys', 'create');
      await page.goto('/console/keys?new=1');
      await page.getByLabel('Kind', { exact: true }).selectOption(kind);
      await page.getByLabel('Name', { exact: true }).fill(`Made as ${kind}`);
      if (kind === 'workspace-user') {
        await page.getByRole('button', { name: /^Workspace: / }).click();
        await page.locator('[cmdk-item]').filter({ hasText: 'Default' }).click();
        await page.getByRole('button', { name: /^Person: / }).click();
        await page.getByRole('option', { name: /Ann/ }).click();
      }
      await page.getByRole('button', { name: 'Create', exact: true }).click();
      await page.getByText('never again').waitFor();
      assert.equal((await gateway.audited('api_keys', 'create')) - before, 1, kind);
      const { data } = await gateway.api('GET', '/api-keys?page_size=100');
      const made = data.find(({ name }: { name: string }) => name === `Made as ${kind}`);
      assert.equal(made.type, kind);
      assert.equal(await gateway.audited('api_keys', 'create', made.id), 1, kind);
    }
  });

  test('a workspace whose usage is reset, and whose member is taken out', async (t) => {
    const { id } = await gateway.api('POST', '/admin/workspaces', {
      name: 'Counted',
      usage_limits: [{ type: 'requests', credit_limit: 10 }],
    });
    await gateway.join('Kim', id);
    const page = await openWindow(t, gateway);
    await page.goto(`/console/workspaces?open=${id}`);
    await page.getByRole('button', { name: 'Reset usage' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Reset usage' }).click();
    await page.getByText('The counts begin anew.').first().waitFor();
    assert.equal(await gateway.audited('workspaces', 'update', id), 1);
    const removed = await gateway.audited('workspace_users', 'delete');
    await page.getByRole('button', { name: 'Members' }).click();
    await page.getByRole('button', { name: 'Take out: Kim Park' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Take out' }).click();
    await page.getByText('They are no member any more.').first().waitFor();
    assert.deepEqual((await gateway.api('GET', `/admin/workspaces/${id}/users`)).data, []);
    assert.equal((await gateway.audited('workspace_users', 'delete')) - removed, 1);
  });

  test('a usage policy that begins anew for one key', async (t) => {
    const made = await gateway.makeKey('counted', ['completions.write']);
    const { id } = await gateway.api('POST', '/policies/usage-limits', {
      ...{ name: 'Ten each', type: 'requests', credit_limit: 10 },
      conditions: [{ key: 'api_key', value: made.id }],
      group_by: [{ key: 'api_key' }],
    });
    assert.equal((await gateway.chat('hi', { key: made.key })).status, 200);
    const page = await openWindow(t, gateway);
    await page.goto(`/console/limits?show=usage&open=${id}&tab=entities`);
    await page.getByRole('button', { name: 'Reset counted' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Reset' }).click();
    await page.getByText('The count begins anew.').first().waitFor();
    assert.equal(await gateway.audited('usage_limit_policies', 'reset', id), 1);
  });

  test('a partial whose next version is served', async (t) => {
    const { id } = await gateway.api('POST', '/prompts/partials', {
      ...{ name: 'Tone', string: 'Be kind.', workspace_id: gateway.workspace },
    });
    await gateway.api('PUT', `/prompts/partials/${id}`, { string: 'Be brief.' });
    const page = await openWindow(t, gateway);
    await page.goto(`/console/prompts?view=partials&open=${id}&tab=versions`);
    await page.getByRole('button', { name: 'Make default' }).click();
    await page.getByText('Version 2 is served from now on.').first().waitFor();
    assert.equal((await gateway.api('GET', `/prompts/partials/${id}`)).string, 'Be brief.');
    assert.equal(await gateway.audited('prompt_partials', 'publish', id), 1);
  });
});
