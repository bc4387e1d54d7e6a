import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { chdbMissing, startTestChdb } from '../../storage/embedded/chdb-fixture.ts';
import { type Front, startFront } from '../kit/front.ts';
import { eventually } from '../kit/process-kit.ts';
import { postgresMissing, type PostgresServer, startPostgres } from '../kit/postgres-server.ts';
import { assertAccessible, consoleConfig, openWindow, useConsole } from './console-kit.ts';

/** What the browser says of requests that a store's absence fails, or that no gateway takes. */
const expected = /status of 50[0-9]|ERR_/;
const again = 'It is tried again every few seconds.';

describe('a console whose stores or gateway go away', { skip: chdbMissing || postgresMissing }, () => {
  let server: PostgresServer;
  let analytics: Front;
  let log = '';
  let trace = '';
  const gateway = useConsole(async () => {
    server = await startPostgres();
    gateway.after(() => server.stop());
    const { engine, close } = await startTestChdb();
    gateway.after(close);
    analytics = await startFront(Number(new URL(engine.url).port));
    gateway.after(() => analytics.close());
    const { username, password } = engine;
    return {
      ...consoleConfig,
      storage: {
        ...consoleConfig.storage,
        analytics: { url: `${analytics.url}/weir`, username, password },
        resources: { url: server.url },
      },
    };
  });
  before(async () => {
    const answer = await gateway.chat('kept', { body: { model: 'mock-kept' } });
    await answer.text();
    log = answer.headers.get('x-service-request-id') ?? '';
    trace = answer.headers.get('x-service-trace-id') ?? '';
    await gateway.untilLogged(1);
  });

  const requests = (page: Page) => page.getByRole('table', { name: 'Requests' }).getByText('mock-kept');

  test('without the analytics store pages say so, and show their data as soon as it is back', async (t) => {
    const page = await openWindow(t, gateway, { expected, place: '/console/logs' });
    await requests(page).waitFor();
    analytics.away(true);
    t.after(() => analytics.away(false));
    for (const place of ['', '/traces', `/logs/${log}`, `/traces/${trace}`, '/feedback', '/logs']) {
      await page.goto(`/console${place}`);
      const alert = page.getByRole('alert').filter({ hasText: again }).first();
      assert.match(await alert.innerText(), /analytics store/, place);
      await assertAccessible(page);
    }
    await page.getByRole('link', { name: 'Health' }).click();
    await page.getByRole('row', { name: /analytics.*Away/ }).waitFor();
    await page.goto('/console/logs');
    // What does not need it is there as ever.
    await page.getByRole('link', { name: 'Keys', exact: true }).click();
    await page.getByRole('button', { name: 'New key' }).waitFor();
    await page.goBack();
    await page.getByText(again).waitFor();
    analytics.away(false);
    await requests(page).waitFor();
  });

  test('without the store of the administration nothing that was typed is lost, and nobody is signed out', async (t) => {
    const page = await openWindow(t, gateway, { expected, look: 'dark' });
    await page.getByRole('link', { name: 'Workspaces' }).click();
    await page.getByRole('button', { name: 'New workspace' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Outlasts it');
    await server.kill();
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('dialog').getByRole('alert').first().waitFor();
    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'Outlasts it');
    await assertAccessible(page);
    const other = await openWindow(t, gateway, { expected, place: '/console/prompts' });
    await other.getByText(again).waitFor();
    await other.reload();
    await other.getByText(again).waitFor();
    await assertAccessible(other);
    for (const place of ['limits', 'audit', 'exports']) {
      await other.goto(`/console/${place}`);
      await other.getByRole('alert').filter({ hasText: again }).first().waitFor();
      await assertAccessible(other);
    }
    await other.goto('/console/health');
    await other.getByRole('row', { name: /resources.*Away/ }).waitFor();
    await other.goto('/console/prompts');
    await other.getByText(again).waitFor();
    await server.start();
    await other.getByText('Write the first one').waitFor();
  });

  test('a gateway that restarts is waited for: the session, the page and the live tail go on', async (t) => {
    const page = await openWindow(t, gateway, { expected, place: '/console/logs' });
    await page.getByRole('switch', { name: /^Live/ }).click();
    await gateway.stop();
    await page.getByRole('link', { name: 'Prompts' }).click();
    await page.getByText('The gateway does not answer').first().waitFor();
    await page.goBack();
    await gateway.start();
    // The tail shows what comes from when it has found the gateway again.
    const after = page.getByRole('table', { name: 'Requests' }).getByText('mock-after').first();
    await eventually(async () => {
      await (await gateway.chat('after', { body: { model: 'mock-after' } })).text();
      return (await after.isVisible()) || undefined;
    });
    await page.getByRole('link', { name: 'Guardrails' }).click();
    await page.getByRole('button', { name: 'New guardrail' }).waitFor();
  });
});
