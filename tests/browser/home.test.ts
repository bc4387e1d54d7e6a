import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { eventually } from '../kit/process-kit.ts';
import {
  assertAccessible,
  consoleConfig,
  loggedEntries,
  markup,
  openWindow,
  seedDemo,
  useConsole,
} from './console-kit.ts';

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

    test('charts follow the look', async (t) => {
      const page = await openWindow(t, gateway);
      await page.locator('canvas').first().waitFor();
      const drawn = (): Promise<string> =>
        page.evaluate("document.querySelector('canvas')?.toDataURL() ?? ''");
      const light = await drawn();
      assert.match(light, /^data:image/);
      await page.emulateMedia({ colorScheme: 'dark' });
      await eventually(async () => {
        const dark = await drawn();
        return (dark !== '' && dark !== light) || undefined;
      });
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

describe('the home page of a gateway that has served for days', () => {
  const gateway = useConsole(async () => {
    await seedDemo(gateway.data, consoleConfig, ['--rows', '1500', '--days', '4']);
    return consoleConfig;
  });
  let asked = 0;
  before(async () => {
    asked = Date.now();
    // What one user asks today costs more than all that another one asks in these days.
    await gateway.api('POST', '/logs', {
      request: {
        url: 'https://api.openai.com/v1/chat/completions',
        body: { model: 'gpt-4o', messages: [{ role: 'user', content: 'tell me' }] },
      },
      response: {
        body: { model: 'gpt-4o', usage: { prompt_tokens: 90_000_000, completion_tokens: 1_000_000 } },
      },
      metadata: { _user: 'lavish' },
    });
    await gateway.untilLogged(1, '&user=lavish');
  });

  test('find yesterday’s dearest user', async (t) => {
    const today = new Date(asked).setHours(0, 0, 0, 0);
    const yesterday = new Date(today - 1).setHours(0, 0, 0, 0);
    const all = await loggedEntries(gateway, { from: asked - 5 * dayMs, to: Date.now() });
    const sums = (from: number, to: number): ReadonlyMap<string, { requests: number; cost: number }> => {
      const users = new Map<string, { requests: number; cost: number }>();
      for (const { created_at: at, metrics } of all) {
        if (Date.parse(at) < from || Date.parse(at) >= to) continue;
        const user = metrics.metadata['_user'] ?? '';
        const { requests = 0, cost: before = 0 } = users.get(user) ?? {};
        users.set(user, { requests: requests + 1, cost: before + metrics.cost });
      }
      return users;
    };
    const expected = [...sums(yesterday, today)].toSorted(([, one], [, other]) => other.cost - one.cost);
    const [dearest = ''] = expected[0] ?? [];
    const most = Math.max(...expected.map(([, { requests }]) => requests));
    const everyDay = sums(0, Infinity);
    assert.ok(
      (everyDay.get('lavish')?.cost ?? 0) > (everyDay.get(dearest)?.cost ?? 0),
      'today has a dearer one',
    );
    assert.ok(
      Math.max(...[...everyDay.values()].map(({ requests }) => requests)) > most,
      'there are other days',
    );

    const page = await openWindow(t, gateway, { key: null });
    // The day may end while this runs.
    await page.clock.setFixedTime(asked);
    await page.getByLabel('Service key').fill(gateway.ownerKey);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('button', { name: 'By user' }).click();
    const users = page.getByRole('table', { name: 'By user' });
    const first = users.locator('tbody tr').first();
    await first.getByText('lavish').waitFor();
    await page.getByLabel('Time', { exact: true }).selectOption('Yesterday');
    await first.getByText(dearest, { exact: true }).waitFor();
    const numbers = async (): Promise<(string | undefined)[]> => {
      const rows = await users.locator('tbody tr').allInnerTexts();
      return rows.map((text) => text.split('\t').slice(0, 2).join(' '));
    };
    assert.deepEqual(
      (await numbers()).slice(0, 10),
      expected.slice(0, 10).map(([user, { requests }]) => `${user} ${requests}`),
    );
    assert.equal(await users.getByText('lavish').count(), 0);
    await users.getByRole('button', { name: 'Requests' }).click();
    await page.waitForURL(/sort=-requests/);
    await first
      .getByRole('cell', { name: String(most), exact: true })
      .first()
      .waitFor();
    await users.getByRole('button', { name: 'Cost' }).click();
    await page.waitForURL(/sort=-cost/);
    await first.getByText(dearest, { exact: true }).click();
    await page.waitForURL(new RegExp(`/console/logs\\?.*user=${dearest}`));
    const count = expected[0]?.[1].requests ?? 0;
    await page.getByText(`${count} request${count === 1 ? '' : 's'}, no more in this time`).waitFor();
  });
});
