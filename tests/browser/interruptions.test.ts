import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertAccessible, openWindow, signIn, useConsole } from './console-kit.ts';

const editor = ['workspaces.list', 'workspaces.read', 'workspaces.create'];

/** Everything arrives so much later, as over a slow line. */
async function slowLine(page: Page, latency: number): Promise<void> {
  const debugger_ = await page.context().newCDPSession(page);
  await debugger_.send('Network.enable');
  await debugger_.send('Network.emulateNetworkConditions', {
    ...{ offline: false, latency, downloadThroughput: 200_000, uploadThroughput: 200_000 },
  });
}

describe('a console that is interrupted', () => {
  const gateway = useConsole();

  const makeKey = (name: string, scopes: readonly string[]): Promise<{ id: string; key: string }> =>
    gateway.api('POST', '/api-keys/organisation/service', { name, scopes });
  const beginWorkspace = async (page: Page, name: string): Promise<void> => {
    await page.getByRole('link', { name: 'Workspaces' }).click();
    await page.getByRole('button', { name: 'New workspace' }).click();
    await page.getByLabel('Name', { exact: true }).fill(name);
  };

  test('a key that is revoked while somebody types ends the session, and leaves what was typed', async (t) => {
    const first = await makeKey('first', editor);
    const page = await openWindow(t, gateway, { key: first.key, expected: /401/ });
    await beginWorkspace(page, 'Typed before');
    await gateway.api('DELETE', `/api-keys/${first.id}`);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('Your session has ended').waitFor();
    await assertAccessible(page);
    await page.keyboard.press('Escape');
    const next = await makeKey('next', editor);
    await page.getByLabel('Service key').fill(next.key);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByLabel('Service key').waitFor({ state: 'detached' });
    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'Typed before');
  });

  test('a key that ends while a config, a prompt or a conversation is written leaves each as it is', async (t) => {
    const writes = [
      ...['configs.list', 'configs.read', 'configs.create', 'prompts.list', 'prompts.read'],
      ...['prompts.create', 'completions.write', 'workspaces.list'],
    ];
    let { id, key } = await gateway.makeKey('writes', writes);
    const page = await openWindow(t, gateway, { key, expected: /40[01]/ });
    // The browser asks before a page with changes is left.
    page.on('dialog', (dialog) => void dialog.accept());
    const written = 'Typed "before" it ended';
    for (const { place, field, also, button } of [
      { place: 'configs/new', field: 'Name', also: [], button: 'Save' },
      { place: 'prompts/new', field: 'Text of message 1', also: ['Name'], button: 'Create the prompt' },
      { place: 'playground', field: 'Text 1', also: ['Model'], button: 'Run' },
    ]) {
      await page.goto(`/console/${place}`);
      for (const label of [...also, field])
        await page
          .getByLabel(label, { exact: true })
          .first()
          .fill(label === field ? written : 'mock-gpt');
      await gateway.api('DELETE', `/api-keys/${id}`);
      await page
        .getByRole('button', { name: button, exact: true })
        .click({ timeout: 5000 })
        // A page that asks the gateway as one types has seen the end already.
        .catch(() => undefined);
      await page.getByText('Your session has ended').waitFor();
      ({ id, key } = await gateway.makeKey(`writes ${place}`, writes));
      await page.getByLabel('Service key').fill(key);
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.getByLabel('Service key').waitFor({ state: 'detached' });
      const kept = page.getByLabel(field, { exact: true }).first();
      assert.equal(await kept.inputValue(), written, place);
      await kept.fill('');
    }
  });

  test('somebody with other rights finds nothing of the one before', async (t) => {
    const first = await makeKey('with workspaces', editor);
    const other = await makeKey('with logs', ['logs.list']);
    const page = await openWindow(t, gateway, { key: first.key, expected: /401/ });
    await beginWorkspace(page, 'Not for others');
    await gateway.api('PUT', `/api-keys/${first.id}`, {
      expires_at: new Date(Date.now() + 1500).toISOString(),
    });
    await page.waitForTimeout(2000);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('Your session has ended').waitFor();
    await signIn(page, other.key);
    await page.getByText('Your key has no right to see this').waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
  });

  test('a slow line: what loads is said, and nothing is sent twice', async (t) => {
    const page = await openWindow(t, gateway);
    await beginWorkspace(page, 'Made once');
    await slowLine(page, 1500);
    await page.getByRole('button', { name: 'Create', exact: true }).dblclick();
    await page.getByText('The workspace is made.').first().waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Audit trail' }).click();
    await page.getByRole('main').getByRole('status', { name: 'Loading' }).first().waitFor();
    await assertAccessible(page);
    await page
      .getByRole('row', { name: /create/ })
      .first()
      .waitFor();
    const { data } = await gateway.api('GET', '/workspaces?name=Made%20once');
    assert.equal(data.length, 1);
  });

  test('a slow line: each place says that it loads, and is accessible meanwhile', async (t) => {
    const page = await openWindow(t, gateway);
    await slowLine(page, 400);
    for (const name of ['Logs', 'Keys', 'Prompts', 'Guardrails', 'Audit trail']) {
      await page.getByRole('navigation').first().getByRole('link', { name, exact: true }).click();
      const loading = page.getByRole('main').getByRole('status', { name: 'Loading' });
      await loading.first().waitFor();
      await assertAccessible(page);
      await page.getByRole('main').getByRole('heading', { level: 1, name }).waitFor();
    }
  });

  test('a browser without network says so, keeps what was typed, and goes on by itself', async (t) => {
    const page = await openWindow(t, gateway, { expected: /ERR_INTERNET_DISCONNECTED/ });
    const go = (name: string): Promise<void> =>
      page.getByRole('navigation').first().getByRole('link', { name, exact: true }).click();
    const told = page.getByRole('alert').filter({ hasText: 'This browser is offline.' }).first();
    await go('Guardrails');
    await page.getByRole('button', { name: 'New guardrail' }).first().waitFor();
    await beginWorkspace(page, 'Written offline');
    await page.context().setOffline(true);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('dialog').getByText('This browser is offline.').first().waitFor();
    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'Written offline');
    await page.context().setOffline(false);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('The workspace is made.').first().waitFor();
    await page.keyboard.press('Escape');
    await page.context().setOffline(true);
    // One whose program is not loaded yet, and one of which the data alone is missing.
    await go('Audit trail');
    await told.waitFor();
    await assertAccessible(page);
    await go('Guardrails');
    await page.locator('[data-search]').fill('nothing of this name');
    await told.waitFor();
    await page.getByText('It is tried again every few seconds.').waitFor();
    await page.context().setOffline(false);
    await told.waitFor({ state: 'detached' });
  });

  test('an earlier answer that comes late does not cover the later one', async (t) => {
    for (const name of ['alpha', 'beta']) await gateway.makeKey(`${name} key`, ['completions.write']);
    const page = await openWindow(t, gateway, { place: '/console/keys' });
    let late: (() => void) | undefined;
    await page.route(/search=alpha|name=alpha/, async (route) => {
      await new Promise<void>((resolve) => (late = resolve));
      await route.continue().catch(() => undefined);
    });
    const rows = page.getByRole('table').locator('tbody tr');
    await page.locator('[data-search]').fill('alpha');
    await page.locator('[data-search]').fill('beta');
    await rows.filter({ hasText: 'alpha' }).waitFor({ state: 'detached' });
    late?.();
    await page.waitForTimeout(500);
    assert.match((await rows.allInnerTexts()).join(), /^[^]*beta/);
    assert.equal(await rows.filter({ hasText: 'alpha' }).count(), 0);
  });

  test('who leaves a page with changes is asked, in the page and by the browser', async (t) => {
    // The sample request of a config without targets is refused.
    const page = await openWindow(t, gateway, { expected: /400/ });
    const asked: string[] = [];
    page.on('dialog', (dialog) => {
      asked.push(dialog.type());
      void dialog.dismiss();
    });
    for (const [place, label] of [
      ['/console/guardrails?new=1', 'Name'],
      ['/console/prompts/new', 'Name'],
      ['/console/configs/new', 'Name'],
    ] as const) {
      await page.goto(place);
      const field = page.getByLabel(label, { exact: true }).first();
      await field.pressSequentially('Half');
      await page.evaluate('setTimeout(() => location.reload())');
      await page.waitForTimeout(700);
      assert.deepEqual(asked.splice(0), ['beforeunload'], place);
      assert.equal(await field.inputValue(), 'Half', place);
      await page.keyboard.press('Control+k');
      await page.getByRole('option', { name: 'Audit trail' }).click();
      const leave = page.getByRole('alertdialog', { name: 'Leave without saving?' });
      await leave.getByRole('button', { name: 'Cancel' }).click();
      assert.equal(await field.inputValue(), 'Half', place);
      await page.keyboard.press('Control+k');
      await page.getByRole('option', { name: 'Audit trail' }).click();
      await leave.getByRole('button', { name: 'Leave' }).click();
      await page.waitForURL(/\/audit/);
      // The form, which asks before it is left, is gone once the other page stands.
      await page.getByRole('heading', { name: 'Audit trail' }).waitFor();
      assert.deepEqual(asked, []);
    }
  });

  test('an address of what is not there says so with its id, leads to the others, and to what happened to it', async (t) => {
    const page = await openWindow(t, gateway, { expected: /40[04]|502/ });
    const gone = await gateway.api('POST', '/integrations', {
      ...{ name: 'Short-lived', slug: 'short-lived', ai_provider_id: 'openai', key: 'sk-gone' },
    });
    await gateway.api('DELETE', '/integrations/short-lived');
    const never = crypto.randomUUID();
    const state = page.getByRole('alert');
    const trail = state.getByRole('link', { name: 'See what happened to it' });
    const again = page.getByRole('button', { name: 'Try again' });
    for (const [place, noun, list, id = 'NOPE'] of [
      ['/logs/NOPE', 'request', '/logs'],
      [`/logs/${never}`, 'request', '/logs', never],
      ['/traces/NOPE', 'trace', '/traces'],
      ['/configs/NOPE', 'config', '/configs'],
      ['/prompts/NOPE', 'prompt', '/prompts'],
      ['/workspaces?search=lab&open=NOPE', 'workspace', '/workspaces?search=lab'],
      ['/mcp?view=integrations&open=NOPE', 'MCP integration', '/mcp?view=integrations'],
      ['/audit?open=NOPE', 'entry', '/audit'],
    ] as const) {
      await page.goto(`/console${place}`);
      await state.getByText(`There is no such ${noun}`, { exact: true }).waitFor();
      await state.getByText(id, { exact: true }).waitFor();
      assert.equal(await again.count(), 0, place);
      assert.equal(await trail.count(), /logs|traces|audit/.test(place) ? 0 : 1, place);
      await assertAccessible(page);
      await state.getByRole('link', { name: 'Back to the list' }).click();
      await page.waitForURL((url) => url.pathname + url.search === `/console${list}`);
      await state.waitFor({ state: 'detached' });
    }

    await page.goto(`/console/integrations?open=${gone.id}`);
    await trail.click();
    await page.waitForURL(`**/console/audit?id=${gone.id}`);
    await page.getByRole('row', { name: /delete integrations Short-lived/ }).waitFor();

    // Another failure may pass.
    await page.route('**/v1/configs/NOPE', (route) => route.fulfill({ status: 502, json: {} }));
    await page.goto('/console/configs/NOPE');
    await again.waitFor();
    await page.unroute('**/v1/configs/NOPE');
    await again.click();
    await state.getByText('There is no such config').waitFor();

    const { key } = await makeKey('reads', ['configs.list', 'configs.read', 'workspaces.list']);
    const other = await openWindow(t, gateway, { key, place: '/console/configs/NOPE', expected: /404/ });
    await other.getByText('There is no such config').waitFor();
    assert.equal(await other.getByText('See what happened to it').count(), 0);
  });
});
