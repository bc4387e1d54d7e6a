import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { before, describe, test } from 'node:test';
import { assertAccessible, openWindow, useConsole } from './console-kit.ts';

const config = {
  version: 1,
  server: { operations: 'key' },
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
      await page.getByRole('table', { name: 'Stores and what they say' }).getByText('journal').waitFor();
      await assertAccessible(page);
      await page.getByRole('link', { name: 'Pipelines' }).click();
      await page.getByRole('heading', { name: 'gateway' }).waitFor();
      await page.getByText('bodies').waitFor();
      await page.getByRole('list', { name: 'Reloads' }).getByText('Started').waitFor();
      await assertAccessible(page);
    }
  });

  test('a key that may not see it is told so, and stays signed in', async (t) => {
    const { key } = await gateway.makeKey('no owner', ['logs.list', 'analytics.view']);
    const page = await openWindow(t, gateway, { key, expected: /401/ });
    await page.getByRole('link', { name: 'Health' }).click();
    await page.getByText('it is for holders of an owner’s key').waitFor();
    await page.getByRole('navigation').first().waitFor();
  });

  test('a broken reload is shown with its line, and the one that mends it', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/pipelines');
    await page.getByRole('heading', { name: 'gateway' }).waitFor();
    const { spawnargs } = gateway.child;
    const file = spawnargs[spawnargs.indexOf('--config') + 1] ?? '';
    const whole = await readFile(file, 'utf8');
    const line = whole.split('\n').findIndex((one) => one.includes('"bodies"')) + 1;
    assert.ok(line > 0);
    await writeFile(file, whole.replace('"bodies"', '"bodiez"'));
    await page.getByText('The file on disk has faults').waitFor();
    const reloads = page.getByRole('list', { name: 'Reloads' });
    await reloads.getByText(new RegExp(`:${line}:\\d+$`)).waitFor();
    await reloads.getByText('bodiez').first().waitFor();
    await writeFile(file, whole.replace('"bodies": true', '"bodies": false'));
    await reloads.getByText('Serves').first().waitFor();
    assert.equal(await page.getByText('The file on disk has faults').count(), 0);
  });
});
