import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertAccessible, type ConsoleGateway, openWindow, useConsole } from './console-kit.ts';

const config = {
  version: 1,
  server: { operations: 'key' },
  providers: { second: { service: 'mock', api_key: 'a-literal-secret' } },
  pipelines: [
    {
      name: 'admin',
      match: { routes: 'contributed' },
      plugins: ['auth', { management: { config_writes: true } }],
    },
    { name: 'console', match: { path: '/console/**' }, plugins: ['console'] },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: ['auth', { provider: { default: 'mock' } }, { logger: { bodies: true } }],
    },
  ],
  storage: { resources: { url: 'pglite:' }, journal: { ship_ms: 100 } },
};

function fileOf({ child: { spawnargs } }: ConsoleGateway): string {
  return spawnargs[spawnargs.indexOf('--config') + 1] ?? '';
}

/** Types another word over one of the text in the editor. */
async function replaceWord(page: Page, before: string, after: string): Promise<void> {
  const line = page.locator('.cm-line').filter({ hasText: before });
  await line.click();
  const whole = (await line.textContent()) ?? '';
  await page.keyboard.press('Home');
  await page.keyboard.press('Home');
  await page.keyboard.press('Shift+End');
  await page.keyboard.insertText(whole.replace(before, after));
}

describe('health and pipelines in the console', () => {
  const gateway = useConsole(config);
  before(async () => {
    assert.equal((await gateway.chat('Hello')).status, 200);
  });

  test('the state, the stores and the running pipelines are shown, in both looks', async (t) => {
    for (const look of ['light', 'dark'] as const) {
      const page = await openWindow(t, gateway, { look });
      await page.getByRole('link', { name: 'Health' }).click();
      await page.getByText('Serves').first().waitFor();
      const stores = page.getByRole('table', { name: 'Stores and what they say' });
      await stores.getByRole('row', { name: /^Log and analytics analytics Works$/ }).waitFor();
      await page.getByTitle('age_seconds').getByText('Age', { exact: true }).waitFor();
      await page
        .getByRole('table', { name: 'Journal of log rows' })
        .getByTitle('weir_rows_pending')
        .waitFor();
      const jobs = page.getByRole('table', { name: 'Jobs' });
      await jobs.getByRole('row', { name: /^End keys whose time is over keys\.expire .* Done \d/ }).waitFor();
      await assertAccessible(page);
      await page.getByRole('link', { name: 'Pipelines' }).click();
      await page.getByRole('heading', { name: 'gateway', exact: true }).waitFor();
      await page.getByText('bodies', { exact: true }).waitFor();
      await page.getByRole('list', { name: 'Reloads' }).getByText('Started').waitFor();
      await assertAccessible(page);
    }
  });

  test('a key that may not see it has no such place, is told so at a link to it, and stays signed in', async (t) => {
    const { key } = await gateway.makeKey('no owner', ['logs.list', 'analytics.view']);
    const page = await openWindow(t, gateway, { key, expected: /401/ });
    const told = await page.request.fetch('/status', { method: 'OPTIONS' });
    assert.deepEqual([told.status(), told.headers()['allow']], [204, 'OPTIONS']);
    const navigation = page.getByRole('navigation').first();
    await navigation.getByRole('link', { name: 'Logs' }).waitFor();
    for (const name of ['Health', 'Pipelines'])
      assert.equal(await navigation.getByRole('link', { name }).count(), 0, name);
    await page.keyboard.press('Control+k');
    await page.keyboard.type('health');
    const offered = page.getByRole('dialog').getByRole('option');
    await offered.filter({ hasText: 'Search the log' }).waitFor();
    assert.deepEqual(
      (await offered.allTextContents()).map((text) => text.includes('health')),
      [true],
    );
    await page.goto('/console/health');
    await page.getByText('it is for holders of an owner’s key').waitFor();
    await navigation.waitFor();
  });

  test('a broken reload is shown with its line, and the one that mends it', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/pipelines');
    await page.getByRole('heading', { name: 'gateway', exact: true }).waitFor();
    const file = fileOf(gateway);
    const whole = await readFile(file, 'utf8');
    const line = whole.split('\n').findIndex((one) => one.includes('"bodies"')) + 1;
    assert.ok(line > 0);
    await writeFile(file, whole.replace('"bodies"', '"bodiez"'));
    await page.getByText('The file on disk has faults').waitFor();
    const reloads = page.getByRole('list', { name: 'Reloads' });
    await reloads.getByText(new RegExp(`yaml:${line}:\\d+$`)).waitFor();
    await reloads.getByText('bodiez').first().waitFor();
    await writeFile(file, whole.replace('"bodies": true', '"bodies": false'));
    await reloads.getByText('Serves').first().waitFor();
    assert.equal(await page.getByText('The file on disk has faults').count(), 0);
  });

  test('edit the configuration file: a fault at its word, the change looked at, written, and serving', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/pipelines' });
    const reloads = page.getByRole('list', { name: 'Reloads' }).getByRole('listitem');
    await reloads.first().waitFor();
    const before = await reloads.count();
    await page.getByRole('button', { name: 'Edit the file' }).click();
    const text = page.getByRole('textbox', { name: 'Text of the configuration file' });
    await text.getByText('"***1***"').waitFor();
    assert.equal(await page.getByText('a-literal-secret').count(), 0);
    await assertAccessible(page);
    const write = page.getByRole('button', { name: 'Review and write' });
    assert.ok(await write.isDisabled());
    await replaceWord(page, '"bodies"', '"bodiez"');
    await page
      .getByRole('list', { name: 'Faults of the text' })
      .getByText('did you mean "bodies"?')
      .waitFor();
    assert.ok(await write.isDisabled());
    await page.locator('.cm-lintRange-error').first().hover();
    await page.getByRole('button', { name: 'bodies' }).click();
    await replaceWord(page, '"bodies": false', '"bodies": true');
    await page.getByText('The gateway finds no faults.').waitFor();
    await write.click();
    await page
      .getByRole('group', { name: 'The file now, and your text' })
      .getByText('"bodies": true')
      .waitFor();
    await page.getByRole('button', { name: 'Write the file' }).click();
    await page.getByText('Written, and it serves.').waitFor();
    const whole = await readFile(fileOf(gateway), 'utf8');
    assert.ok(whole.includes('"bodies": true') && whole.includes('a-literal-secret'));
    await page.getByRole('button', { name: 'Back to the pipelines' }).click();
    // The watcher of the file may be the first to see it.
    await reloads.nth(before).waitFor();
    await reloads
      .first()
      .getByText(/written over the administration API|a file has changed/)
      .waitFor();
    assert.match((await reloads.first().textContent()) ?? '', /Serves/);
    await page.getByRole('link', { name: 'Audit trail' }).click();
    await page
      .getByRole('row', { name: /config file/ })
      .first()
      .waitFor();
  });

  test('two edit the file at once: the second is told, and goes on with its own text', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/pipelines', expected: /412/ });
    await page.getByRole('button', { name: 'Edit the file' }).click();
    await page.getByText('This is what the file says.').waitFor();
    const { text, version } = await gateway.api('GET', '/admin/config-file');
    await gateway.api('PUT', '/admin/config-file', { text: `# theirs\n${text}`, version });
    await replaceWord(page, '"bodies": true', '"bodies": false');
    const dialog = page.getByRole('dialog', { name: 'Somebody else changed this meanwhile' });
    await dialog.getByText('# theirs').waitFor();
    await dialog.getByRole('button', { name: 'Go on with mine' }).click();
    await page.getByRole('button', { name: 'Review and write' }).click();
    await page.getByRole('button', { name: 'Write the file' }).click();
    await page.getByText('Written, and it serves.').waitFor();
  });

  test('a canary of the configuration is shown with its figures, and aborted', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/pipelines' });
    let asked = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/admin/config-file/canary')) asked += 1;
    });
    const { version } = await gateway.api('GET', '/admin/config-file');
    await page.getByRole('button', { name: 'Edit the file' }).waitFor();
    await page.waitForTimeout(5000);
    assert.ok(asked <= 1, `without a canary it was asked for ${asked} times in five seconds`);
    await page.getByRole('button', { name: 'Edit the file' }).click();
    await replaceWord(page, '"bodies"', '"max_body_bytes": 2048, "bodies"');
    await page.getByText('The gateway finds no faults.').waitFor();
    await page.getByRole('button', { name: 'Review and write' }).click();
    await assertAccessible(page);
    await page.getByLabel('Percent of requests').fill('50');
    await page.getByLabel('Minutes').fill('10');
    await page.getByRole('button', { name: 'Start the canary' }).click();
    await page.getByRole('heading', { name: 'Canary of the configuration' }).waitFor();
    await page.getByText(/A new configuration serves 0\.5 % of the requests, up to 50 %/).waitFor();
    assert.equal((await gateway.chat('Hello')).status, 200);
    await page.getByRole('row', { name: /^Present 1 0 0/ }).waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Abort' }).click();
    await page.getByText(/It was aborted with the key/).waitFor();
    assert.equal((await gateway.api('GET', '/admin/config-file')).version, version);
    assert.equal(await gateway.audited('config_file', 'start'), 1);
    assert.equal(await gateway.audited('config_file', 'abort'), 2);
  });

  test('names and values of the file are completed, and said under the pointer', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/pipelines' });
    await page.getByRole('button', { name: 'Edit the file' }).click();
    const text = page.getByRole('textbox', { name: 'Text of the configuration file' });
    const schema = page.waitForResponse((answer) => answer.url().endsWith('/admin/config-file/schema'));
    await text.click();
    await schema;
    const options = page.getByRole('listbox', { name: 'Completions' }).getByRole('option');
    /** Replaces the whole text, the caret at its end, and asks for completion. */
    const completedAt = async (yaml: string): Promise<void> => {
      await text.press('Control+a');
      await text.press('Delete');
      await page.keyboard.insertText(yaml);
      await page.keyboard.press('Control+Space');
      await options.first().waitFor();
    };
    await completedAt('server:\n  port: 1\n  ');
    await options.getByText('operations:', { exact: true }).waitFor();
    assert.equal(await options.getByText('port:', { exact: true }).count(), 0);
    await page.keyboard.insertText('operati');
    await options.getByText('operations:').waitFor();
    // A completion is taken only after it has been there for a moment.
    await page.waitForTimeout(200);
    await page.keyboard.press('Enter');
    await page.locator('.cm-line', { hasText: /^ {2}operations: $/ }).waitFor();
    await page.keyboard.press('Control+Space');
    await options.getByText('key', { exact: true }).waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.weir-name').getByText('operations').hover();
    await page
      .locator('.weir-hover')
      .getByText(/\/metrics/)
      .waitFor();
    await completedAt('pipelines:\n  - name: x\n    plugins: [auth, { management: { config');
    await options.getByText('config_writes:').waitFor();
    await completedAt('pipelines:\n  - plugins:\n      - manage');
    await options.getByText('management', { exact: true }).waitFor();
  });

  test('where the operator does not allow it, the text is read, copied and folded, and the page says which option does', async (t) => {
    const file = fileOf(gateway);
    const yaml = `version: 1
server: { operations: key }
providers:
  second:
    service: mock
    api_key: a-literal-secret
  third: { service: mock, api_key: "\${HOME}" } # a reference
pipelines:
- name: admin
  match: { routes: contributed }
  plugins: [auth, management]
- { name: console, match: { path: /console/** }, plugins: [console] }
- { name: gateway, match: { path: /** }, plugins: [auth, { provider: { default: mock } }] }
storage: { resources: { url: "pglite:" }, journal: { ship_ms: 100 } }
`;
    const page = await openWindow(t, gateway, { place: '/console/pipelines' });
    await page.getByRole('button', { name: 'Edit the file' }).waitFor();
    await writeFile(file, yaml);
    await page.getByText('management: { config_writes: true }').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Edit the file' }).count(), 0);
    const text = page.getByRole('textbox', { name: 'Text of the configuration file, read-only' });
    await text.getByText('"***1***"').waitFor();
    await assertAccessible(page);
    await text.hover();
    const line = (part: string) => page.locator('.cm-line').filter({ hasText: part });
    await line('# a reference').getByText('"${HOME}"').waitFor();
    assert.equal(await page.getByText('a-literal-secret').count(), 0);
    await assertAccessible(page);
    await text.press('Control+a');
    await page.keyboard.type('owned');
    assert.equal(await line('owned').count(), 0);
    assert.match(String(await page.evaluate('String(getSelection())')), /ship_ms/);
    await line('service: mock').first().waitFor();
    await page.locator('.cm-foldGutter').getByTitle('Fold line', { exact: true }).first().click();
    await line('third:').waitFor({ state: 'detached' });
    await line('pipelines:').waitFor();
    await page.getByRole('list', { name: 'Reloads' }).getByText('Serves').first().waitFor();
  });
});
