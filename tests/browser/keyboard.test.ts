import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { eventually } from '../kit/process-kit.ts';
import { assertAccessible, openWindow, useConsole } from './console-kit.ts';

describe('the console by keyboard', () => {
  const gateway = useConsole();
  before(async () => {
    for (const name of ['one', 'two', 'three']) {
      await gateway.makeKey(name, ['completions.write']);
      await gateway.api('POST', '/admin/workspaces', { name });
    }
  });

  for (const place of ['keys', 'workspaces', 'audit'])
    test(`/${place}: j and k walk the rows, Enter opens one, Escape goes back to it`, async (t) => {
      const page = await openWindow(t, gateway, { place: `/console/${place}` });
      const rows = page.getByRole('main').locator('[data-row]');
      await rows.nth(2).waitFor();
      const focused = (): Promise<string> => page.evaluate(`document.activeElement.dataset.row ?? ''`);
      const ids = await rows.evaluateAll((all) => all.map((row) => row.getAttribute('data-row')));
      for (const [key, row] of [
        ['j', 0],
        ['j', 1],
        ['ArrowDown', 2],
        ['k', 1],
      ] as const) {
        await page.keyboard.press(key);
        assert.equal(await focused(), ids[row], key);
      }
      await page.keyboard.press('Enter');
      const sheet = page.getByRole('dialog');
      await sheet.waitFor();
      await page.keyboard.press('Escape');
      await sheet.waitFor({ state: 'detached' });
      await eventually(
        async () => (await focused()) === ids[1] || undefined,
        () => 'the focus back on the row',
      );
    });

  test('on a telephone a list stays a table: its cells are read by column, sorted, walked and opened', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/keys' });
    await page.setViewportSize({ width: 390, height: 844 });
    const table = page.getByRole('table', { name: 'Keys' });
    await table.getByRole('row').nth(3).waitFor();
    assert.equal(await table.getByRole('columnheader').count(), 7);
    assert.equal(await table.getByRole('row').nth(1).getByRole('cell').count(), 7);
    await assertAccessible(page);
    const box = (cell: string) => table.getByRole('row', { name: /two/ }).getByText(cell).boundingBox();
    const [name, state, kind] = [await box('two'), await box('Active'), await box('Service')];
    assert.ok(name && state && kind);
    assert.ok(state.y < name.y + name.height, 'the state stands beside the name');
    assert.ok(kind.y >= name.y + name.height, 'what is less important stands below');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
  });

  test('on a narrow screen a button opens the navigation, and says so', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/keys' });
    await page.setViewportSize({ width: 600, height: 800 });
    const menu = page.getByRole('button', { name: 'Menu', exact: true });
    const link = page.getByRole('link', { name: 'Workspaces' });
    assert.equal(await menu.getAttribute('aria-expanded'), 'false');
    assert.equal(await link.isVisible(), false);
    await menu.focus();
    await page.keyboard.press('Enter');
    await link.waitFor();
    assert.equal(await menu.getAttribute('aria-expanded'), 'true');
    await link.click();
    await page.waitForURL(/workspaces/);
    await link.waitFor({ state: 'hidden' });
    assert.equal(await menu.getAttribute('aria-expanded'), 'false');
  });

  test('/ goes to the search, or opens the palette where there is none; ⌘K goes anywhere', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/keys' });
    const palette = page.getByRole('dialog', { name: 'Go to or do' });
    const search = page.locator('[data-search]');
    await search.waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('two');
    assert.equal(await search.inputValue(), 'two', 'the stroke itself is no letter of the search');
    await page.waitForURL(/search=two/);
    for (const [stroke, words, url, title] of [
      ['Control+k', 'audit', /\/console\/audit/, 'Audit trail'],
      ['Meta+k', 'dashboard', /\/console\/?$/, 'Home'],
      ['Control+k', 'health', /\/console\/health/, 'Health'],
      ['/', 'limits', /\/console\/limits/, 'Limits and budgets'],
    ] as const) {
      await page.keyboard.press(stroke);
      await palette.waitFor();
      await page.keyboard.type(words);
      assert.equal(await palette.getByRole('combobox').inputValue(), words);
      await page.keyboard.press('Enter');
      await page.waitForURL(url);
      await palette.waitFor({ state: 'detached' });
      // The address comes first, and until its page is there, the search of the last one takes the stroke.
      await page.getByRole('heading', { level: 1, name: title }).waitFor();
    }
    // Records by their names, a request by its id, and the log searched for anything else.
    const answer = await gateway.chat('found by its id');
    await answer.text();
    const id = answer.headers.get('x-service-request-id') ?? '';
    await gateway.untilLogged(1);
    const config = { provider: 'mock' };
    const made = await gateway.api('POST', '/configs', {
      ...{ name: 'Night traffic', config, workspace_id: gateway.workspace },
    });
    for (const [words, option, url] of [
      ['three', /^three\s*Keys/, /\/console\/keys\?open=/],
      ['night', /^Night traffic\s*Configs/, new RegExp(`/console/configs/${made.data.id}`)],
      [id, `Open the request ${id}`, new RegExp(`/console/logs/${id}`)],
      ['by its id', 'Search the log for “by its id”', /\/console\/logs\?search=by(%20|\+)its(%20|\+)id/],
    ] as const) {
      await page.keyboard.press('Control+k');
      await palette.waitFor();
      await page.keyboard.type(words);
      await palette.getByRole('option', { name: option }).waitFor();
      await assertAccessible(page);
      await page.keyboard.press('Enter');
      await page.waitForURL(url);
      await palette.waitFor({ state: 'detached' });
      await page.keyboard.press('Escape');
    }
    await page.getByRole('table', { name: 'Requests' }).locator('[data-row]').first().waitFor();
    const link = page.getByRole('link', { name: 'Prompts' });
    await link.focus();
    await page.keyboard.press('Control+k');
    await palette.waitFor();
    await page.keyboard.press('Escape');
    await palette.waitFor({ state: 'detached' });
    await eventually(
      async () => (await link.evaluate((one) => one === one.ownerDocument.activeElement)) || undefined,
      () => 'the focus back on the link',
    );
  });
});
