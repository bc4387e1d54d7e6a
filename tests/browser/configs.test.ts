import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertAccessible, markup, openWindow, useConsole } from './console-kit.ts';

const config = {
  version: 1,
  providers: {
    shaky: { base_url: 'mock:?status=503', credentials: 'none' },
    steady: { base_url: 'mock:', credentials: 'none' },
  },
  pipelines: [
    { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    { name: 'console', match: { path: '/console/**' }, plugins: ['console'] },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: ['auth', { provider: { default: 'mock' } }, { logger: { bodies: true } }],
    },
  ],
  storage: { resources: { url: 'pglite:' }, journal: { ship_ms: 100 } },
};
const fallback = JSON.stringify({
  strategy: { mode: 'fallback', on_status_codes: [503] },
  targets: [{ name: 'first', provider: '@shaky' }, { provider: '@steady' }],
});

/** Replaces the text of the editor. */
async function write(page: Page, text: string): Promise<void> {
  const editor = page.getByRole('textbox', { name: 'Config as JSON' });
  // The pointer makes it an editor.
  await editor.hover();
  await page.locator('.cm-content').waitFor();
  await editor.click();
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Delete');
  await page.keyboard.insertText(text);
}

describe('configs in the console', () => {
  const gateway = useConsole(config);

  const made = async (
    name: string,
    content: object = JSON.parse(fallback),
  ): Promise<{ id: string; slug: string }> =>
    (await gateway.api('POST', '/configs', { name, config: content, workspace_id: gateway.workspace })).data;

  test('make a fallback config and see it act', async (t) => {
    const page = await openWindow(t, gateway, { expected: /400/ });
    await page.getByRole('link', { name: 'Configs' }).click();
    await page.getByText('There is no config yet').waitFor();
    await page.getByRole('button', { name: 'New config' }).click();
    await page.getByRole('link', { name: /^Fallback/ }).click();
    await page.getByLabel('Name', { exact: true }).fill('Steady in the end');
    await write(page, fallback);
    await page.getByText('No faults').waitFor();
    const plan = page.getByRole('region', { name: 'Where it would go' });
    await plan.getByText('503 → config.targets[1]').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved. Requests').first().waitFor();
    const { data } = await gateway.api('GET', '/configs');
    assert.equal(data.length, 1);
    const answer = await gateway.chat('Hello', { headers: { 'x-service-config': data[0].slug } });
    assert.equal(answer.status, 200, await answer.text());
    assert.equal(answer.headers.get('x-service-last-used-option-index'), 'config.targets[1]');
    const trail = await gateway.api('GET', '/audit-logs');
    assert.ok(trail.records.some((one: any) => one.method === 'POST' && one.uri === '/v1/configs'));
    await gateway.untilLogged(1);
    await page.getByRole('link', { name: 'Logs' }).click();
    await page.getByRole('table', { name: 'Requests' }).locator('[data-row]').first().click();
    await page.getByRole('tab', { name: /Attempts/ }).click();
    const attempts = page
      .getByRole('list', { name: 'Attempts in the order of their ends' })
      .getByRole('listitem');
    await attempts.nth(1).waitFor();
    const [first = '', second = ''] = await attempts.allInnerTexts();
    assert.match(first, /shaky[\s\S]*503[\s\S]*not used/);
    assert.match(second, /steady[\s\S]*200/);
  });

  test('faults are shown at their lines as one types, the gateway’s own as well', async (t) => {
    const { id } = await made('Faulty');
    const page = await openWindow(t, gateway, { expected: /400/ });
    await page.goto(`/console/configs/${id}`);
    await page.getByText('No faults').waitFor();
    await write(page, '{\n  "strategy": { "mode": "falback" },\n  "targets": [{ "provider": "@steady" }]\n}');
    await page
      .locator('.cm-line', { has: page.locator('.cm-lintRange-error') })
      .first()
      .waitFor();
    assert.match(
      await page
        .locator('.cm-line', { has: page.locator('.cm-lintRange-error') })
        .first()
        .innerText(),
      /falback/,
    );
    await write(
      page,
      '{\n  "strategy": { "mode": "fallback" },\n  "targets": [\n    { "provider": "@staedy" }\n  ]\n}',
    );
    const line = page.locator('.cm-line', { hasText: '@staedy' });
    await line.locator('.cm-lintRange-error').first().waitFor();
    await line.locator('.cm-lintRange-error').first().hover();
    await page.getByText('did you mean "@steady"').first().waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('alert').filter({ hasText: '@staedy' }).waitFor();
  });

  test('a member says what it means under the pointer', async (t) => {
    const { id } = await made('Explained');
    const page = await openWindow(t, gateway, { expected: /400/ });
    await page.goto(`/console/configs/${id}`);
    await page.getByText('No faults').waitFor();
    await write(page, '{\n  "retry": { "attempts": 2 },\n  "provider": "@steady"\n}');
    // What it says comes from the schema, which may arrive after the pointer.
    const said = page.locator('.weir-hover');
    for (const [name, text] of Object.entries({
      attempts: /[Rr]etries|[Aa]ttempts/,
      provider: /provider/i,
    })) {
      await page.mouse.move(0, 0);
      await page.locator('.cm-line span').getByText(`"${name}"`).hover();
      await said.getByText(text).first().waitFor();
    }
  });

  for (const [late, url] of [
    ['nothing', undefined],
    ['the schema', /\/configs\/schema/],
    ['the script that completes', /\/assets\/json-assist-/],
  ] as const)
    test(`completion offers the members of the schema; ${late} comes after what is typed`, async (t) => {
      const { id } = await made(`Completed after ${late}`);
      const page = await openWindow(t, gateway, { expected: /400/ });
      let release = (): void => undefined;
      const typed = new Promise<void>((resolve) => (release = resolve));
      t.after(() => release());
      if (url !== undefined)
        await page.route(url, async (route) => {
          await typed;
          await route.continue();
        });
      await page.goto(`/console/configs/${id}`);
      await page.getByText('No faults').waitFor();
      await write(page, '{ }');
      await page.keyboard.press('Home');
      await page.keyboard.press('ArrowRight');
      await page.keyboard.type('"retr');
      const offered = page.locator('.cm-tooltip-autocomplete');
      if (url !== undefined) {
        // The mark of the fault comes when the completion, without a schema, has been asked already.
        if (late === 'the schema') await page.locator('.cm-lint-marker').first().waitFor();
        assert.equal(await offered.count(), 0);
        release();
      }
      await offered.getByText('"retry"').waitFor();
    });

  test('two windows edit one config: the later one is told, sees the difference, and loses nothing', async (t) => {
    const { id } = await made('Shared');
    const changes = await gateway.audited('configs', 'update');
    const [mine, theirs] = await Promise.all([
      openWindow(t, gateway, { expected: /412/ }),
      openWindow(t, gateway),
    ]);
    for (const page of [mine, theirs]) {
      await page.goto(`/console/configs/${id}`);
      await page.getByText('No faults').waitFor();
    }
    await write(theirs, fallback.replace('first', 'of theirs'));
    await theirs.getByText('No faults').waitFor();
    await theirs.getByRole('button', { name: 'Save' }).click();
    await theirs.getByText('Saved. Requests').first().waitFor();
    const text = JSON.stringify(JSON.parse(fallback.replace('first', 'of mine')), null, 2);
    await write(mine, text.replaceAll('\n', ''));
    await mine.getByText('No faults').waitFor();
    await mine.getByRole('button', { name: 'Save' }).click();
    const dialog = mine.getByRole('dialog', { name: 'Somebody else changed this meanwhile' });
    await dialog.getByText('of theirs').waitFor();
    await dialog.getByText('of mine').waitFor();
    await dialog.getByRole('button', { name: 'Save mine over it' }).click();
    await mine.getByText('Saved. Requests').first().waitFor();
    const { data } = await gateway.api('GET', `/configs/${id}`);
    assert.equal(data.config.targets[0].name, 'of mine');
    assert.equal((await gateway.audited('configs', 'update')) - changes, 2);
    await mine.getByRole('button', { name: 'Versions', exact: true }).click();
    await mine.getByRole('button', { name: 'Version 2' }).click();
    await mine.getByRole('button', { name: 'Put into the editor' }).click();
    await mine.getByText('of theirs').first().waitFor();
  });

  test('routing is drawn; markup in names stays text; the pages are accessible in both looks', async (t) => {
    const name = markup;
    const { id } = await made(name, {
      strategy: {
        mode: 'conditional',
        conditions: [{ query: { 'metadata.plan': 'paid' }, then: '<script>alert(1)</script>' }],
        default: 'rest',
      },
      targets: [
        { name: '<script>alert(1)</script>', provider: '@steady' },
        {
          name: 'rest',
          strategy: { mode: 'loadbalance' },
          targets: [
            { provider: '@steady', weight: 3 },
            { provider: '@shaky', weight: 1 },
          ],
        },
      ],
    });
    for (const look of ['light', 'dark'] as const) {
      const page = await openWindow(t, gateway, { look });
      await page.goto('/console/configs');
      await page.getByText(name).waitFor();
      await assertAccessible(page);
      for (const view of ['explain', 'graph', 'versions']) {
        await page.goto(`/console/configs/${id}?view=${view}`);
        await page.getByText('No faults').waitFor();
        await assertAccessible(page);
      }
      await page.goto(`/console/configs/${id}?view=graph`);
      assert.equal(await page.locator('.cm-editor').count(), 0, 'nothing asked for the editor yet');
      await page.getByRole('button', { name: /@steady weight 3, Target/ }).focus();
      await page.keyboard.press('Enter');
      await page.locator('.cm-editor.cm-focused').waitFor();
      // The whole picture is seen beside the text.
      await page.setViewportSize({ width: 1280, height: 800 });
      const picture = page.locator('main svg[viewBox]').filter({ hasText: '@steady' }).first();
      assert.deepEqual(
        await picture.evaluate(({ parentElement: box }) => box && box.scrollWidth - box.clientWidth),
        0,
      );
    }
  });

  test('more configs than stand on one page are reached page by page, and the address says which', async (t) => {
    const path = '/configs?search=Of%20many&page_size=1';
    for (let at = 0; at < 51; at += 1) await made(`Of many ${at}`);
    assert.equal((await gateway.api('GET', path)).total, 51);
    const page = await openWindow(t, gateway, { place: '/console/configs?search=Of%20many' });
    await page.getByText('1–50 of 51').waitFor();
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('51–51 of 51').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Next' }).isDisabled());
    assert.equal(new URL(page.url()).searchParams.get('page'), '2');
    await page.reload();
    await page.getByText('51–51 of 51').waitFor();
    await page.getByRole('textbox', { name: 'Search' }).or(page.getByRole('searchbox')).fill('Of many 7');
    await page.getByText('Of many 7', { exact: true }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('page'), null);
  });

  test('a key that may only read sees no button that changes something', async (t) => {
    const { id } = await made('For readers');
    const { key } = await gateway.makeKey('reader', ['configs.list', 'configs.read']);
    const page = await openWindow(t, gateway, { key });
    await page.getByRole('link', { name: 'Configs' }).click();
    // The list has more than one page by now.
    await page.getByRole('textbox', { name: 'Search' }).or(page.getByRole('searchbox')).fill('For readers');
    await page.getByText('For readers').waitFor();
    assert.equal(await page.getByRole('button', { name: 'New config' }).count(), 0);
    await page.goto(`/console/configs/${id}`);
    await page.getByText('No faults').waitFor();
    assert.equal(await page.getByRole('button', { name: /Save|Archive/ }).count(), 0);
  });
});
