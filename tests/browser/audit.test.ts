import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { contributedRoutes } from '../kit/openapi-kit.ts';
import { assertAccessible, markup, openWindow, useConsole } from './console-kit.ts';

describe('the audit trail, people and settings in the console', () => {
  const gateway = useConsole();

  test('a new operator finds who changed what, and verifies the chain', async (t) => {
    const made = await gateway.makeKey(`billing ${markup}`, ['completions.write']);
    await gateway.api('PUT', `/api-keys/${made.id}`, { description: 'Changed by somebody' });
    const page = await openWindow(t, gateway);
    await page.getByRole('link', { name: 'Keys', exact: true }).click();
    await page.getByRole('row', { name: /billing/ }).click();
    await page.getByRole('link', { name: 'Who changed it' }).click();
    const row = page.getByRole('row', { name: /update/ });
    await row.waitFor();
    await page.getByRole('row', { name: /create/ }).waitFor();
    await assertAccessible(page);
    await row.click();
    const sheet = page.getByRole('dialog');
    await sheet.getByText('Changed by somebody').waitFor();
    await sheet
      .getByText(/^owner/)
      .first()
      .waitFor();
    await assertAccessible(page);
    await sheet.getByRole('button', { name: 'Open it' }).click();
    await page.waitForURL(`**/console/keys?open=${made.id}`);
    await sheet.getByRole('heading', { name: /billing/ }).waitFor();
    await page.goBack();
    await sheet.getByText('Changed by somebody').waitFor();
    // The link to an entry works wherever it stands in the list by then.
    const link = new URL(page.url());
    assert.ok(link.searchParams.get('at'));
    for (const name of [...link.searchParams.keys()])
      if (name !== 'open' && name !== 'at') link.searchParams.delete(name);
    link.searchParams.set('action', 'rotate');
    await page.goto(link.href);
    await sheet.getByText('Changed by somebody').waitFor();
    await page.goBack();
    await sheet.getByText('Changed by somebody').waitFor();
    await page.keyboard.press('Escape');
    await page.getByLabel('Action').selectOption('create');
    await row.waitFor({ state: 'detached' });
    await page.reload();
    await page.getByRole('row', { name: /create/ }).waitFor();
    assert.equal(await row.count(), 0, 'the filter stands in the address');
    await page.getByRole('button', { name: 'Verify the chain' }).click();
    await page.getByText('to the end of the chain').waitFor();
  });

  test('who changed an integration or its models, and who a config, is one click away', async (t) => {
    const { workspace } = gateway;
    const integration = await gateway.api('POST', '/integrations', {
      ...{ name: 'Host', slug: 'audited-host', ai_provider_id: 'openai', key: 'sk-audited' },
    });
    const models = { models: [{ slug: 'gpt-4o-mini', enabled: true }], allow_all_models: false };
    await gateway.api('PUT', '/integrations/audited-host/models', models);
    const config = { name: 'Audited', config: { provider: 'mock' }, workspace_id: workspace };
    const { data } = await gateway.api('POST', '/configs', config);
    await gateway.api('PUT', `/configs/${data.slug}`, { name: 'Audited twice' });
    const page = await openWindow(t, gateway);
    await page.goto(`/console/integrations?open=${integration.id}`);
    await page.getByRole('link', { name: 'Who changed it' }).click();
    const table = page.getByRole('table', { name: 'Audit trail' });
    await table.getByRole('row', { name: /integration models/ }).waitFor();
    await table.getByRole('row', { name: /create integrations/ }).waitFor();
    assert.equal(await table.locator('tbody tr').count(), 2);
    const kind = page.getByLabel('Kind of record');
    assert.equal(await kind.locator('option:checked').innerText(), 'integrations, with their parts');
    await assertAccessible(page);
    await page.goto(`/console/configs/${data.slug}`);
    await page.getByRole('link', { name: 'Who changed it' }).click();
    await table.getByRole('row', { name: /update configs/ }).waitFor();
    assert.equal(await table.locator('tbody tr').count(), 2);
    await kind.selectOption('log exports');
    await page.getByText('Nothing matches these filters.').waitFor();
  });

  test('every kind of change that the API has can be chosen', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/audit');
    await page.getByLabel('Kind of record').waitFor();
    const offered = new Set(
      await page
        .getByLabel('Kind of record')
        .locator('option')
        .evaluateAll((all) => all.map((one) => one.getAttribute('value'))),
    );
    const routes = (await contributedRoutes()).filter(({ audit }) => audit !== null);
    const kinds = routes.map(({ id }) => id.slice(0, id.indexOf('.')));
    assert.ok(kinds.length > 50);
    assert.deepEqual(
      [...new Set(kinds)].filter((kind) => !offered.has(kind)),
      [],
    );
  });

  test('somebody is invited, comes, gets another role and is taken out, each with its audit entry', async (t) => {
    const page = await openWindow(t, gateway, { look: 'dark' });
    await page.goto('/console/people?show=invites&new=1');
    await page.getByLabel('E-mail').fill('ann@example.com');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('never again').waitFor();
    const link = (await page.locator('pre').first().textContent()) ?? '';
    const answer = await fetch(`${gateway.url}/v1/invites/accept`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token: link.split('#')[1], first_name: markup, last_name: 'Lee' }),
    });
    assert.equal(answer.status, 200, await answer.text());
    await page.goto('/console/people');
    await page.getByRole('row', { name: /Lee/ }).click();
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Role').selectOption('admin');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').getByText('Admin', { exact: true }).waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Remove' }).click();
    const confirm = page.getByRole('alertdialog');
    await confirm.getByRole('textbox').fill('ann@example.com');
    await confirm.getByRole('button', { name: 'Remove' }).click();
    await confirm.waitFor({ state: 'detached' });
    assert.deepEqual(
      [
        await gateway.audited('invites', 'create'),
        await gateway.audited('users', 'update'),
        await gateway.audited('users', 'delete'),
      ],
      [1, 1, 1],
    );
  });

  test('a setting of the organisation is changed where it is shown', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/settings');
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Members see the requests of others').uncheck();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Edit' }).waitFor();
    await assertAccessible(page);
    const { security } = await gateway.api('GET', '/admin/organisation/settings');
    assert.deepEqual([security.membersViewAllData, security.managersViewAllData], [false, true]);
    assert.equal(await gateway.audited('organisation_settings', 'update'), 1);
  });

  test('a setting that somebody else changed meanwhile is told, and what was chosen stays', async (t) => {
    const page = await openWindow(t, gateway, { expected: /412/ });
    await page.goto('/console/settings');
    await page.getByRole('button', { name: 'Edit' }).click();
    const typed = page.getByLabel('Members change prompts');
    const before = await typed.isChecked();
    await typed.setChecked(!before);
    const { security } = await gateway.api('GET', '/admin/organisation/settings');
    const theirs = !security.membersViewPrompts;
    await gateway.api('PUT', '/admin/organisation/settings', { security: { membersViewPrompts: theirs } });
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Somebody else changed this meanwhile').waitFor();
    assert.equal(await typed.isChecked(), !before);
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Save mine over it' }).click();
    await page.getByRole('button', { name: 'Edit' }).waitFor();
    const after = (await gateway.api('GET', '/admin/organisation/settings')).security;
    assert.equal(after.membersWritePrompts, !before);
    await gateway.api('PUT', '/admin/organisation/settings', {
      security: { membersWritePrompts: before, membersViewPrompts: !theirs },
    });
  });

  test('a workspace says otherwise about one part, and inherits it again', async (t) => {
    await gateway.api('PUT', '/admin/organisation/settings', { allow_workspace_overrides: ['prompts'] });
    const ofWorkspace = `/admin/workspaces/${gateway.workspace}/settings`;
    const page = await openWindow(t, gateway, { expected: /412/ });
    await page.goto('/console/settings');
    await page.getByRole('button', { name: 'One workspace' }).click();
    const prompts = page.getByRole('table', { name: 'Prompts' });
    await prompts.getByText('inherited').first().waitFor();
    assert.equal(await page.getByRole('button', { name: 'Override: Logging' }).count(), 0);
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Override: Prompts' }).click();
    await page.getByLabel('Members change prompts').check();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('says otherwise', { exact: true }).waitFor();
    const row = prompts.getByRole('row', { name: /Members change prompts/ });
    assert.deepEqual(await row.getByRole('cell').allTextContents(), ['No', 'Yes']);
    assert.equal((await gateway.api('GET', ofWorkspace)).effective.prompts.membersWritePrompts, true);

    // Somebody else is faster.
    await page.getByRole('button', { name: 'Edit: Prompts' }).click();
    await page.getByLabel('Managers change prompts').uncheck();
    await gateway.api('PUT', ofWorkspace, { overrides: { prompts: { managersViewPrompts: false } } });
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Somebody else changed this meanwhile').waitFor();
    await page.getByRole('button', { name: 'Take theirs' }).click();
    assert.equal(await page.getByLabel('Managers see prompts').isChecked(), false);
    await page.getByRole('button', { name: 'Cancel' }).click();

    await page.getByRole('button', { name: 'Reset to inherited: Prompts' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Reset to inherited' }).click();
    await page.getByText('Inherited again.', { exact: true }).waitFor();
    await prompts.getByText('inherited').first().waitFor();
    assert.equal((await gateway.api('GET', ofWorkspace)).overrides.prompts, null);
    assert.equal(await gateway.audited('workspace_settings', 'update', gateway.workspace), 3);
  });

  test('a workspace is made, gets a member with another role, and is archived after saying what ends with it', async (t) => {
    const invite = await gateway.api('POST', '/admin/users/invites', {
      email: 'kim@example.com',
      role: 'member',
    });
    await gateway.api('POST', '/invites/accept', {
      token: new URL(invite.invite_link).hash.slice(1),
      first_name: 'Kim',
      last_name: 'Park',
    });
    const page = await openWindow(t, gateway);
    await page.getByRole('link', { name: 'Workspaces' }).click();
    await page.getByRole('button', { name: 'New workspace' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Laboratory');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    const sheet = page.getByRole('dialog');
    await sheet.getByRole('button', { name: 'Members' }).click();
    const id = new URL(page.url()).searchParams.get('open') ?? '';
    await sheet.getByRole('button', { name: /^Person/ }).click();
    await page.getByRole('option', { name: /Kim Park/ }).click();
    await sheet.getByRole('button', { name: 'Add', exact: true }).click();
    await sheet.getByLabel('Role of Kim Park').selectOption('manager');
    await page.getByText('They have another role now.', { exact: true }).waitFor();
    await assertAccessible(page);
    const [member] = (await gateway.api('GET', `/admin/workspaces/${id}/users`)).data;
    assert.equal(member.role, 'manager');
    await gateway.api('POST', '/api-keys/workspace/service', {
      name: 'of the laboratory',
      scopes: ['completions.write'],
      workspace_id: id,
    });
    await sheet.getByRole('button', { name: 'Settings' }).click();
    await sheet.getByRole('table', { name: 'Prompts' }).waitFor();

    await sheet.getByRole('button', { name: 'Archive' }).click();
    const confirm = page.getByRole('alertdialog');
    await confirm.getByText('one key, which is refused').waitFor();
    await confirm.getByText('the access of one member').waitFor();
    await assertAccessible(page);
    assert.ok(await confirm.getByRole('button', { name: 'Archive' }).isDisabled());
    await confirm.getByRole('textbox').fill('Laboratory');
    await confirm.getByRole('button', { name: 'Archive' }).click();
    await confirm.waitFor({ state: 'detached' });
    assert.equal((await gateway.api('GET', `/admin/workspaces/${id}`)).status, 'archived');
    for (const [type, action] of [
      ['workspaces', 'create'],
      ['workspaces', 'delete'],
    ] as const)
      assert.equal(await gateway.audited(type, action, id), 1, `${type} ${action}`);
    for (const action of ['create', 'update'])
      assert.ok((await gateway.audited('workspace_users', action)) >= 1, action);
  });

  test('an invite gets a new link, and is cancelled', async (t) => {
    const { id } = await gateway.api('POST', '/admin/users/invites', {
      email: 'late@example.com',
      role: 'member',
    });
    const page = await openWindow(t, gateway);
    await page.goto(`/console/people?show=invites&open=${id}`);
    await page.getByRole('button', { name: 'New link' }).click();
    await page.getByText('never again').waitFor();
    await page.getByRole('button', { name: 'I have copied it' }).click();
    await page.getByRole('button', { name: 'Cancel the invite' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel the invite' }).click();
    await page.getByRole('alertdialog').waitFor({ state: 'detached' });
    for (const action of ['update', 'delete'])
      assert.equal(await gateway.audited('invites', action, id), 1, action);
  });

  test('a reader finds names where entries have ids, with one list for each kind, also of what is gone', async (t) => {
    const { workspace } = gateway;
    const named = `Billing ${markup}`;
    const key = await gateway.makeKey('Invoices', ['completions.write']);
    await gateway.api('PUT', `/api-keys/${key.id}`, { description: 'Monthly' });
    const { data } = await gateway.api('POST', '/configs', {
      ...{ name: named, config: { provider: 'mock' }, workspace_id: workspace },
    });
    await gateway.api('PUT', `/configs/${data.slug}`, {
      config: { provider: 'mock', retry: { attempts: 1 } },
    });
    const gone = await gateway.api('POST', '/integrations', {
      ...{ name: 'Short-lived', slug: 'short-lived', ai_provider_id: 'openai', key: 'sk-gone' },
    });
    await gateway.api('DELETE', '/integrations/short-lived');
    const member = await gateway.join('Robin');
    const page = await openWindow(t, gateway, { place: '/console/audit?resource=labels' });
    const asked: string[] = [];
    page.on('request', (request) => {
      const { pathname } = new URL(request.url());
      if (pathname.startsWith('/v1/')) asked.push(pathname);
    });
    await page.goto('/console/audit');
    const table = page.getByRole('table', { name: 'Audit trail' });
    await table.getByRole('row', { name: /update api keys Invoices/ }).waitFor();
    await table.getByRole('row', { name: /update configs Billing <img/ }).waitFor();
    await table.getByRole('row', { name: /create workspace users Robin Park/ }).waitFor();
    const deleted = table.getByRole('row', { name: /delete integrations Short-lived/ });
    await deleted.getByText(gone.id).waitFor();
    await page.waitForLoadState('networkidle');
    const lists = asked.filter((path) => path !== '/v1/audit-logs');
    assert.deepEqual(lists.toSorted(), [...new Set(lists)].sort(), 'one list for each kind');
    await assertAccessible(page);

    // Its creation stands on another page of the list.
    await page.goto('/console/audit?resource=integrations&action=delete');
    await deleted.waitFor({ state: 'detached' });
    await table.getByRole('row', { name: /delete integrations/ }).click();
    const sheet = page.getByRole('dialog');
    await sheet.getByText('Short-lived', { exact: true }).waitFor();
    await sheet.getByText(gone.id, { exact: true }).waitFor();
    await assertAccessible(page);

    // A member of a workspace is shown there, and the workspace by its name.
    await page.goto('/console/audit?resource=workspace_users&action=create');
    await table.getByRole('row', { name: /Robin Park/ }).click();
    await sheet.getByText(member.id, { exact: true }).waitFor();
    await sheet.getByRole('button', { name: 'Open it' }).click();
    await page.waitForURL(`**/console/workspaces?open=${workspace}&tab=members`);
    await sheet.getByLabel('Role of Robin Park').waitFor();
  });

  test('the names of kinds that the caller may not list are not asked for', async (t) => {
    const { key } = await gateway.api('POST', '/api-keys/organisation/service', {
      ...{ name: 'auditor', scopes: ['audit_logs.list', 'workspaces.list'] },
    });
    const made = await gateway.api('POST', '/configs', {
      ...{ name: 'Unlisted', config: { provider: 'mock' }, workspace_id: gateway.workspace },
    });
    await gateway.api('PUT', `/configs/${made.data.slug}`, { config: { provider: 'mock' } });
    const page = await openWindow(t, gateway, { key, place: '/console/audit?resource=labels' });
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await page.goto('/console/audit?resource=configs');
    const table = page.getByRole('table', { name: 'Audit trail' });
    // The entry of its creation says its name.
    await table.getByRole('row', { name: /update configs Unlisted/ }).waitFor();
    await page.waitForLoadState('networkidle');
    assert.deepEqual(
      asked.filter((path) => /^\/v1\/(configs|api-keys|admin\/users)/.test(path)),
      [],
    );
  });
});
