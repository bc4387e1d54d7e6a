import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { eventually } from '../kit/process-kit.ts';
import { assertAccessible, markup, openWindow, useConsole } from './console-kit.ts';

const dayMs = 86_400_000;
describe('the home page of the console', () => {
  const gateway = useConsole();

  test('an empty gateway leads to the first request', async (t) => {
    const page = await openWindow(t, gateway);
    await page.getByRole('button', { name: 'Go on' }).waitFor();
    await assertAccessible(page);
  });

  describe('with requests', () => {
    before(async () => {
      const ask = async (user: string, model: string): Promise<void> => {
        const headers = { 'x-service-metadata': JSON.stringify({ _user: user }) };
        await (await gateway.chat('tell me', { headers, body: { model } })).text();
      };
      // Many cheap requests of one user, one dear request of another.
      await Promise.all(Array.from({ length: 6 }, () => ask('frugal', 'mock-small')));
      await ask('lavish', 'mock:tokens=4000');
      await ask('unlucky', 'mock:status=500');
      await ask(markup, 'mock-small');
      await eventually(async () => {
        const { summary } = await gateway.api('GET', '/analytics/graphs/requests');
        return summary.total === 9 || undefined;
      });
    });

    test('find yesterday’s dearest user', async (t) => {
      const page = await openWindow(t, gateway, { key: null });
      // What came today is of yesterday for this browser.
      await page.clock.setFixedTime(Date.now() + dayMs);
      await page.getByLabel('Service key').fill(gateway.ownerKey);
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.getByLabel('Time', { exact: true }).selectOption('Yesterday');
      await page.getByRole('button', { name: 'By user' }).click();
      const users = page.getByRole('table', { name: 'By user' });
      await users.getByText('lavish').waitFor();
      await users.getByRole('button', { name: 'Requests' }).click();
      await page.waitForURL(/sort=-requests/);
      assert.match(await users.locator('tbody tr').first().innerText(), /frugal/);
      await users.getByRole('button', { name: 'Cost' }).click();
      await page.waitForURL(/sort=-cost/);
      assert.match(await users.locator('tbody tr').first().innerText(), /lavish/);
      await users.getByText('lavish').click();
      await page.waitForURL(/\/console\/logs\?.*user=lavish/);
      await page.getByText('1 request, no more in this time').waitFor();
    });

    test('tiles, points of charts and rows lead to the requests behind them', async (t) => {
      const page = await openWindow(t, gateway);
      await page.getByRole('link', { name: /Errors.*1/ }).click();
      await page.getByText('1 request, no more in this time').waitFor();
      await page.goBack();
      await page.locator('canvas').first().waitFor();
      await page.getByText('As a table').first().click();
      const points = page.getByRole('table', { name: 'Requests and errors' }).locator('tbody tr');
      const busy = points.filter({ has: page.getByRole('cell', { name: '9', exact: true }) });
      await busy.getByRole('link').click();
      await page.waitForURL(/from=.*to=/);
      await page.getByText('9 requests, no more in this time').waitFor();
    });

    test('names full of markup stay text', async (t) => {
      const page = await openWindow(t, gateway, { place: '/console/?by=user' });
      await page.getByRole('table', { name: 'By user' }).getByText(markup).waitFor();
      assert.equal(await page.locator('img[src="x"]').count(), 0);
      assert.equal(await page.title(), 'Home · Weir');
    });

    test('the numbers follow what comes while the switch is on', async (t) => {
      const page = await openWindow(t, gateway, { place: '/console/?ai_model=mock-live' });
      await page.getByText('No request in this time. Choose a longer one.').waitFor();
      await page.getByRole('switch', { name: 'Live' }).click();
      await (await gateway.chat('hello', { body: { model: 'mock-live' } })).text();
      await page.getByRole('table', { name: 'By model' }).getByText('mock-live').waitFor();
    });

    test('the dearest of more users than a page shows is the first, and so is the one with most errors', async (t) => {
      const ask = async (user: string, model: string): Promise<void> => {
        const headers = { 'x-service-metadata': JSON.stringify({ _user: user }) };
        await (await gateway.chat('tell me', { headers, body: { model } })).text();
      };
      // Each has one request, so that most requests are no reason to see the last two.
      for (let start = 0; start < 205; start += 41)
        await Promise.all(
          Array.from({ length: 41 }, (_, index) => ask(`crowd ${start + index}`, 'mock-small')),
        );
      await Promise.all([
        ask('zoe', 'mock:tokens=90000'),
        ask('zero luck', 'mock:status=503,latency_ms=700'),
      ]);
      await eventually(async () => {
        const { total } = await gateway.api('GET', '/analytics/groups/users?page_size=1');
        return total >= 210 || undefined;
      });
      const page = await openWindow(t, gateway, { place: '/console/?by=user&sort=-requests' });
      const users = page.getByRole('table', { name: 'By user' });
      const first = users.locator('tbody tr').first();
      await page.getByText(/^The first 200 of 2\d\d, ordered by requests$/).waitFor();
      assert.match(await first.innerText(), /frugal/);
      assert.equal(await users.getByText('zoe').count(), 0);
      await users.getByRole('button', { name: 'Cost' }).click();
      await first.getByText('zoe').waitFor();
      await page.getByText(/^The first 200 of 2\d\d, ordered by cost$/).waitFor();
      await users.getByRole('button', { name: 'Errors' }).click();
      await users.getByText('zero luck').waitFor();
      await users.getByRole('button', { name: 'p95' }).click();
      await first.getByText('zero luck').waitFor();
    });

    for (const look of ['light', 'dark'] as const)
      test(`it is accessible, ${look}`, async (t) => {
        const page = await openWindow(t, gateway, { look });
        await page.locator('canvas').first().waitFor();
        await page.getByText('As a table').first().click();
        await page.getByRole('table', { name: 'Requests and errors' }).waitFor();
        await assertAccessible(page);
        await page.goto('/console/feedback');
        await page.getByText('No feedback in this time').waitFor();
        await assertAccessible(page);
      });
  });
});
