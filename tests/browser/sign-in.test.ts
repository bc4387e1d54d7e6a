import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertAccessible, openWindow, signIn, useConsole } from './console-kit.ts';

describe('signing in to the console', () => {
  const gateway = useConsole();

  test('with a key; the session survives a reload, is not readable by scripts, and ends', async (t) => {
    const page = await openWindow(t, gateway, { key: null });
    await assertAccessible(page);
    await signIn(page, gateway.ownerKey);
    await page.reload();
    await page.getByRole('navigation').first().waitFor();
    const [cookie, ...more] = await page.context().cookies();
    assert.ok(cookie && more.length === 0);
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, 'Strict', '/']);
    assert.ok(!cookie.value.includes(gateway.ownerKey.slice(3)));
    assert.equal(await page.evaluate('document.cookie'), '');
    await page.getByRole('button', { name: /Appearance/ }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByLabel('Service key').waitFor();
    assert.deepEqual(await page.context().cookies(), []);
  });

  test('a wrong key is told in words, and sets no cookie', async (t) => {
    const page = await openWindow(t, gateway, { key: null, expected: /401/ });
    await page.getByLabel('Service key').fill('wk_of_nobody');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByText('is not known here').waitFor();
    assert.deepEqual(await page.context().cookies(), []);
  });

  test('a session ends with its key', async (t) => {
    const made = await gateway.makeKey('short-lived', ['logs.list', 'analytics.view']);
    const page = await openWindow(t, gateway, { key: made.key, expected: /401/ });
    await gateway.api('DELETE', `/api-keys/${made.id}`);
    await page.reload();
    await page.getByLabel('Service key').waitFor();
  });

  test('a request without the token of the page is refused, also with the cookie', async (t) => {
    const page = await openWindow(t, gateway);
    const cookies = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
    const ask = (headers: Record<string, string>): Promise<number> =>
      fetch(`${gateway.url}/v1/me`, { headers: { cookie: cookies, ...headers } }).then(
        ({ status }) => status,
      );
    assert.equal(await ask({}), 401);
    assert.equal(await ask({ 'x-service-csrf': 'guess' }), 401);
    const { session } = await page.evaluate<{ session: { csrf: string } }>(
      `fetch('/console/session').then((answer) => answer.json())`,
    );
    assert.equal(await ask({ 'x-service-csrf': session.csrf }), 200);
  });

  test('a member sees what the settings leave to members, and more when they say so', async (t) => {
    const scopes = [
      'logs.list',
      'analytics.view',
      'configs.list',
      'configs.read',
      'configs.create',
      'prompts.list',
    ];
    const invite = await gateway.api('POST', '/admin/users/invites', {
      ...{ email: 'mem@example.com', role: 'member' },
      workspaces: [{ id: gateway.workspace, role: 'member' }],
      workspace_api_key_details: { scopes },
    });
    const token = new URL(invite.invite_link).hash.slice(1);
    const { api_keys: keys } = await gateway.api('POST', '/invites/accept', { token });
    const page = await openWindow(t, gateway, { key: keys[0].key });
    const shown = await page.getByRole('navigation').first().getByRole('link').allTextContents();
    for (const name of ['Logs', 'Configs', 'Prompts']) assert.ok(shown.includes(name), String(shown));
    for (const name of ['Keys', 'People', 'Settings', 'Audit trail'])
      assert.ok(!shown.includes(name), String(shown));
    await page.getByRole('link', { name: 'Configs' }).click();
    await page.getByText('There is no config yet').waitFor();
    assert.equal(await page.getByRole('button', { name: 'New config' }).count(), 0);
    await gateway.api('PUT', '/admin/organisation/settings', {
      security: { membersWriteConfigs: true, membersViewPrompts: false },
    });
    await page.reload();
    await page.getByRole('button', { name: 'New config' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Prompts' }).count(), 0);
  });

  test('what a key may not do is not shown', async (t) => {
    const made = await gateway.makeKey('logs-only', ['logs.list']);
    const page = await openWindow(t, gateway, { key: made.key });
    const shown = await page.getByRole('navigation').first().getByRole('link').allTextContents();
    assert.ok(shown.includes('Logs'), String(shown));
    assert.ok(!shown.includes('Playground'), String(shown));
    await page.waitForURL('**/console/logs');
    await page.goto('/console/playground');
    await page.getByText('completions.write').waitFor();
    await assertAccessible(page);
  });
});
