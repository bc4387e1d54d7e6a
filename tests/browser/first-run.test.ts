import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertAccessible, openWindow, useConsole } from './console-kit.ts';

describe('the first request', () => {
  const gateway = useConsole();

  test('an empty gateway leads to it in three steps, and shows it arrive', async (t) => {
    const page = await openWindow(t, gateway);
    await page.getByRole('button', { name: 'Go on' }).click();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Make the key' }).click();
    const curl = (await page.locator('pre').textContent()) ?? '';
    await assertAccessible(page);
    await page.getByText('Waiting for your request').waitFor();
    // What the user would run, said again in this language.
    const [, address = ''] = /curl (\S+)/.exec(curl) ?? [];
    const headers = [...curl.matchAll(/-H '([^:]+): ([^']+)'/g)].map(([, name = '', value = '']) => [
      name,
      value,
    ]);
    const [, body = ''] = /-d '([^']+)'/.exec(curl) ?? [];
    const post = (text: string) =>
      fetch(address, { method: 'POST', headers: Object.fromEntries(headers), body: text });
    // The request of another key is not the user's own; one that fails is shown as such.
    assert.equal((await gateway.chat('of somebody else')).status, 200);
    await gateway.untilLogged(1);
    assert.equal((await post(body.replace('mock-gpt', 'mock:status=429'))).status, 429);
    await page.getByText('It arrived, and failed with status 429.').waitFor();
    await page.getByText('look at the quota of the account').waitFor();
    assert.equal(await page.getByText('It arrived.').count(), 0);
    await assertAccessible(page);
    const answer = await post(body);
    assert.equal(answer.status, 200, await answer.text());
    await page.getByText('It arrived.').waitFor();
    assert.equal(await page.getByText('failed with status').count(), 0);
    await page.getByRole('link', { name: 'Look at it' }).click();
    await page.waitForURL(/\/console\/logs\/[\w-]+$/);
    assert.equal(await gateway.audited('api_keys', 'create'), 1);
  });

  test('the request that is sent from the page goes with the key that was made', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/start' });
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByLabel('Name').fill('from-the-page');
    await page.getByRole('button', { name: 'Make the key' }).click();
    await page.getByRole('button', { name: 'Or send it from here' }).click();
    await page.getByText('It arrived.').waitFor();
  });

  test('the key of a provider of one’s own is kept sealed', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/start', look: 'dark' });
    await page.getByRole('radio', { name: /A provider of mine/ }).check();
    await assertAccessible(page);
    await page.getByLabel('Its API key').fill('sk-planted-secret');
    await page.getByRole('button', { name: 'Keep the key' }).click();
    await page.getByRole('button', { name: 'Make the key' }).waitFor();
    const kept = await gateway.api('GET', '/virtual-keys');
    assert.equal(await gateway.audited('virtual_keys', 'create'), 1);
    assert.ok(!JSON.stringify(kept).includes('sk-planted-secret'));
    assert.ok(!(await page.content()).includes('sk-planted-secret'));
  });
});
