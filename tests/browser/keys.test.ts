import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertAccessible, consoleConfig, markup, openWindow, useConsole } from './console-kit.ts';

/** Each request to the mock model costs two dollars. */
const prices = { models: [{ provider: 'mock', model: 'mock-gpt', input: 0, output: 0, request: 2 }] };
describe('keys and limits in the console', () => {
  const gateway = useConsole({ ...consoleConfig, prices });

  const chooseWorkspace = async (page: Page): Promise<void> => {
    await page.getByRole('button', { name: /^Workspace: / }).click();
    await page.getByRole('dialog', { name: 'Workspace' }).getByRole('option').first().click();
  };

  test('a new operator sets 5 dollars a month on a key and sees it block', async (t) => {
    const page = await openWindow(t, gateway);
    await page.getByRole('link', { name: 'Keys', exact: true }).click();
    await page.getByRole('button', { name: 'New key' }).click();
    await page.getByLabel('Name', { exact: true }).fill('five dollars');
    await chooseWorkspace(page);
    await page.getByRole('button', { name: 'Send requests', exact: true }).click();
    await page.getByRole('button', { name: 'Add a limit' }).click();
    await page.getByLabel('At most').fill('5');
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('never again').waitFor();
    await assertAccessible(page);
    const secret = (await page.locator('pre').first().textContent()) ?? '';
    assert.match(secret, /^wk_/);
    assert.match((await page.locator('pre').nth(1).textContent()) ?? '', /curl .*\/chat\/completions/);
    await page.getByRole('button', { name: 'I have copied it' }).click();

    const statuses: number[] = [];
    for (let sent = 0; sent < 6 && statuses.at(-1) !== 412 && statuses.at(-1) !== 429; sent += 1)
      statuses.push((await gateway.chat('hi', { key: secret })).status);
    assert.ok(
      statuses.length > 2 && statuses.slice(0, -1).every((status) => status === 200),
      String(statuses),
    );
    await page.reload();
    const row = page.getByRole('row', { name: /five dollars/ });
    await row.getByText('Used up', { exact: true }).waitFor();
    await row.click();
    const sheet = page.getByRole('dialog');
    await sheet.getByText('used up', { exact: true }).waitFor();
    await sheet.getByText('Begins anew').first().waitFor();
    const id = new URL(page.url()).searchParams.get('open') ?? '';
    assert.equal(await gateway.audited('api_keys', 'create', id), 1);

    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Limits and budgets' }).click();
    const first = page.getByRole('table', { name: 'Budgets' }).getByRole('row').nth(1);
    await first.getByText('five dollars').waitFor();
    await assertAccessible(page);
    await first.getByRole('link', { name: /five dollars/ }).click();
    await page.getByRole('button', { name: 'Reset usage' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Reset usage' }).click();
    await page.getByText('Its count begins anew.').first().waitFor();
    assert.equal(await gateway.audited('api_keys', 'update', id), 1);
    assert.equal((await gateway.chat('again', { key: secret })).status, 200);
  });

  test('a budget for each team but one: it blocks, tells what is used and left, and is reset', async (t) => {
    const ofTeam = (team: string) =>
      gateway.chat('hi', { headers: { 'x-service-metadata': JSON.stringify({ team }) } });
    const page = await openWindow(t, gateway);
    await page.goto('/console/limits?show=usage');
    await page.getByRole('button', { name: 'New usage policy' }).click();
    await page.getByLabel('Name', { exact: true }).fill('teams');
    await page.getByLabel('At most').fill('3');
    await page.getByLabel('Property 1').selectOption('metadata field …');
    await page.getByLabel('Name of the metadata field').first().fill('team');
    await page.getByLabel('is 1').fill('red*');
    await page.getByLabel('but not 1').fill('red-9, red-8');
    await page.getByRole('checkbox', { name: 'key', exact: true }).uncheck();
    await page.getByLabel('Name of the metadata field').last().fill('team');
    await page.getByRole('button', { name: 'Add this field' }).click();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    const sheet = page.getByRole('dialog');
    await sheet.getByText('metadata.team red* but red-9, red-8').waitFor();
    const id = new URL(page.url()).searchParams.get('open') ?? '';
    assert.deepEqual((await gateway.api('GET', `/policies/usage-limits/${id}`)).conditions, [
      { key: 'metadata.team', value: 'red*', excludes: ['red-9', 'red-8'] },
    ]);
    const statuses: number[] = [];
    for (let sent = 0; sent < 4 && statuses.at(-1) !== 412; sent += 1)
      statuses.push((await ofTeam('red-1')).status);
    assert.deepEqual([statuses[0], statuses.at(-1)], [200, 412]);
    for (const team of ['red-9', 'red-9', 'red-9', 'blue'])
      assert.equal((await ofTeam(team)).status, 200, team);
    await sheet.getByRole('button', { name: 'Used', exact: true }).click();
    const row = sheet.getByRole('row', { name: /red-1/ });
    await row.getByText('used up').first().waitFor();
    await row.locator('time').waitFor();
    await assertAccessible(page);
    await row.getByRole('button', { name: /^Reset/ }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Reset' }).click();
    await page.getByText('The count begins anew.').first().waitFor();
    assert.equal((await ofTeam('red-1')).status, 200);
    await sheet.getByRole('button', { name: 'Whom it concerns' }).click();
    await sheet.getByRole('row', { name: /Default workspace/ }).waitFor();
    await sheet.getByRole('button', { name: 'Archive' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Archive' }).click();
    await page.getByRole('alertdialog').waitFor({ state: 'detached' });
    for (const action of ['create', 'update', 'delete'])
      assert.equal(await gateway.audited('usage_limit_policies', action, id), 1, action);
  });

  test('how fast calls of tools may come: their own conditions and counts', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/limits?show=rates&new=1');
    await page.getByLabel('Name', { exact: true }).fill('tools');
    await page.getByLabel('Counts', { exact: true }).selectOption('Calls of MCP tools');
    await page.getByLabel('At most').fill('10');
    await page.getByLabel('Property 1').selectOption('MCP tool');
    await page.getByLabel('is 1').fill('search*');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('dialog').getByText('MCP tool search*').waitFor();
    const id = new URL(page.url()).searchParams.get('open') ?? '';
    const { target, type, unit } = await gateway.api('GET', `/policies/rate-limits/${id}`);
    assert.deepEqual([target, type, unit], ['mcp_tools', 'requests', 'rpm']);
    assert.equal(await gateway.audited('rate_limit_policies', 'create', id), 1);
  });

  test('a key is changed, rotated and revoked, each with its audit entry; markup in its name stays text', async (t) => {
    const made = await gateway.makeKey(`shop ${markup}`, ['completions.write']);
    const page = await openWindow(t, gateway, { look: 'dark' });
    await page.goto(`/console/keys?open=${made.id}`);
    await page.getByRole('dialog').getByText(`shop ${markup}`).first().waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Description').fill('For the shop');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').getByText('For the shop').waitFor();
    await page.getByRole('button', { name: 'Rotate' }).click();
    await page.getByRole('dialog').last().getByRole('button', { name: 'Rotate' }).click();
    await page.getByText('never again').waitFor();
    const secret = (await page.locator('pre').first().textContent()) ?? '';
    await page.getByRole('button', { name: 'I have copied it' }).click();
    for (const key of [made.key, secret]) assert.equal((await gateway.chat('hi', { key })).status, 200);
    await page.getByRole('button', { name: 'Revoke' }).click();
    const confirm = page.getByRole('alertdialog');
    assert.ok(await confirm.getByRole('button', { name: 'Revoke' }).isDisabled());
    await confirm.getByRole('textbox').fill(`shop ${markup}`);
    await confirm.getByRole('button', { name: 'Revoke' }).click();
    await confirm.waitFor({ state: 'detached' });
    assert.equal((await gateway.chat('hi', { key: secret })).status, 401);
    for (const action of ['update', 'rotate', 'delete'])
      assert.equal(await gateway.audited('api_keys', action, made.id), 1, action);
  });

  test('two browsers at once: the second is told of the first, and loses nothing', async (t) => {
    const made = await gateway.makeKey('contested', ['completions.write']);
    const [one, two] = [
      await openWindow(t, gateway, { expected: /412/ }),
      await openWindow(t, gateway, { expected: /412/ }),
    ];
    for (const page of [one, two]) {
      await page.goto(`/console/keys?open=${made.id}&edit=1`);
      await page.getByLabel('Description').waitFor();
    }
    await one.getByLabel('Description').fill('of the first');
    await one.getByRole('button', { name: 'Save' }).click();
    await one.getByRole('dialog').getByText('of the first').waitFor();
    await two.getByLabel('Description').fill('of the second');
    await two.getByRole('button', { name: 'Save' }).click();
    await two.getByText('Somebody else changed this meanwhile').waitFor();
    await two.getByText('of the first').waitFor();
    assert.equal(await two.getByLabel('Description').inputValue(), 'of the second');
    await assertAccessible(two);
    await two.getByRole('button', { name: 'Save mine over it' }).click();
    await two.getByRole('button', { name: 'Edit' }).waitFor();
    assert.equal((await gateway.api('GET', `/api-keys/${made.id}`)).description, 'of the second');
  });

  test('a mistake is told at its field, and what was typed stays', async (t) => {
    const page = await openWindow(t, gateway, { expected: /400|409/ });
    await gateway.makeKey('taken', ['completions.write']);
    await page.goto('/console/keys?new=1');
    await page.getByLabel('Name', { exact: true }).fill('late');
    await chooseWorkspace(page);
    await page.getByLabel('Ends').fill('2020-01-01T00:00');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('lies in the past').waitFor();
    assert.equal(await page.getByLabel('Ends').getAttribute('aria-invalid'), 'true');
    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'late');
    await page.keyboard.press('Escape');
    await page.getByText('Discard your changes?').waitFor();
    await page.getByRole('button', { name: 'Discard', exact: true }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  });

  test('a key of a workspace that may not manage keys sees no page of them', async (t) => {
    const made = await gateway.makeKey('reader', ['logs.list', 'workspaces.list', 'workspaces.read']);
    const page = await openWindow(t, gateway, { key: made.key });
    const shown = await page.getByRole('navigation').first().getByRole('link').allTextContents();
    for (const name of ['Keys', 'Audit trail']) assert.ok(!shown.includes(name), String(shown));
    await page.getByRole('link', { name: 'Workspaces' }).click();
    await page.getByRole('row', { name: /Default workspace/ }).click();
    await page.getByRole('dialog').getByText('Slug').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Edit' }).count(), 0);
  });

  test('a caller who may not list workspaces and configs types what names them, and is refused nothing', async (t) => {
    const { data } = await gateway.api('POST', '/configs', {
      ...{ name: 'Of keys', workspace_id: gateway.workspace },
      config: { cache: { mode: 'simple' } },
    });
    const scopes = ['create', 'read', 'list'].map((action) => `workspace_service_api_keys.${action}`);
    const { key } = await gateway.api('POST', '/api-keys/organisation/service', {
      ...{ name: 'key maker', scopes: [...scopes, 'logs.list'] },
    });
    const page = await openWindow(t, gateway, { key });
    await page.goto('/console/keys?new=1');
    const type = async (field: string, hint: string, text: string): Promise<void> => {
      await page.getByRole('button', { name: new RegExp(`^${field}: `) }).click();
      const box = page.getByRole('dialog', { name: field });
      await box.getByText(hint).waitFor();
      await assertAccessible(page);
      await page.keyboard.type(text);
      await box.getByRole('option', { name: text, exact: true }).waitFor();
      await page.keyboard.press('Enter');
      await page.getByRole('button', { name: `${field}: ${text}` }).waitFor();
    };
    await page.getByLabel('Name', { exact: true }).fill('typed');
    await type('Workspace', 'Your key has no right to list these: type the id.', gateway.workspace);
    await page.getByText('Defaults of its requests').click();
    await type('Config', 'Your key has no right to list these: type the slug.', data.slug);
    await page.getByRole('group', { name: 'logs' }).getByRole('checkbox', { name: 'list' }).check();
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('never again').waitFor();
    await page.getByRole('button', { name: 'I have copied it' }).click();
    await page.getByRole('row', { name: /typed/ }).click();
    // Neither has a name for this caller.
    for (const text of [gateway.workspace, data.slug])
      await page.getByRole('dialog').getByText(text, { exact: true }).waitFor();
  });

  test('a key that has ended is shown as such, and refused', async (t) => {
    const made = await gateway.makeKey('short', ['completions.write']);
    const end = new Date(Date.now() + 1500).toISOString();
    await gateway.api('PUT', `/api-keys/${made.id}`, { expires_at: end });
    while ((await gateway.chat('hi', { key: made.key })).status !== 401);
    const page = await openWindow(t, gateway);
    await page.goto('/console/keys?search=short');
    await page.getByRole('row', { name: /short/ }).getByText('Ended', { exact: true }).waitFor();
  });
});
