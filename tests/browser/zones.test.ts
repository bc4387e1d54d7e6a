// Times in any zone: shown, entered, and in links that keep their moments.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { eventually } from '../kit/process-kit.ts';
import { assertAccessible, openWindow, useConsole } from './console-kit.ts';

describe('the time zone of the console', () => {
  const gateway = useConsole();
  before(async () => {
    await (await gateway.chat('one')).text();
    await gateway.untilLogged(1);
  });

  /** Chooses a zone by typing, from the button that says the present one. */
  async function choose(page: Page, typed: string, name: string): Promise<void> {
    await page.getByRole('button', { name: /^Time zone: / }).click();
    const dialog = page.getByRole('dialog', { name: 'Time zone' });
    await dialog.getByRole('combobox').fill(typed);
    await dialog.getByRole('option', { name }).waitFor();
    await assertAccessible(page);
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
  }
  /** The clock of Kolkata, half an hour beside the full hours of UTC. */
  const kolkata = (iso: string): string =>
    new Date(Date.parse(iso) + 5.5 * 3_600_000).toISOString().slice(0, 19).replace('T', ' ');

  test('a zone that is chosen shows its times in the list, the chart and the fields; the address keeps moments', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/logs' });
    const time = page.getByRole('table', { name: 'Requests' }).locator('time').first();
    const iso = (await time.getAttribute('datetime')) ?? '';
    await choose(page, 'kolk', 'Asia/Kolkata');
    await page.getByRole('button', { name: /^Time zone: Asia\/Kolkata/ }).waitFor();
    await eventually(
      async () => (await time.textContent()) === kolkata(iso) || undefined,
      () => `the time in Kolkata, ${kolkata(iso)}`,
    );

    const moments = 'from=2026-10-25T00:30:00.000Z&to=2026-11-01T05:30:00.000Z';
    await page.goto(`/console/logs?${moments}`);
    const from = page.getByLabel('From (Asia/Kolkata)');
    assert.equal(await from.inputValue(), '2026-10-25T06:00');
    await from.fill('2026-10-25T06:30');
    await page.waitForURL(/from=2026-10-25T01(:|%3A)00(:|%3A)00\.000Z/);
    await choose(page, 'berlin', 'Europe/Berlin');
    assert.equal(await page.getByLabel('From (Europe/Berlin)').inputValue(), '2026-10-25T02:00');
    assert.equal(await page.getByLabel('To (Europe/Berlin)').inputValue(), '2026-11-01T06:30');

    await choose(page, '+5:30', 'Asia/Kolkata');
    const asked = page.waitForRequest(/graphs\/overview\?.*time_zone=Asia(\/|%2F)Kolkata/);
    await page.goto('/console?range=today');
    await asked;
    await page.getByText('As a table').first().click();
    const chart = page.getByRole('table', { name: 'Requests' });
    const [first] = await chart.getByRole('link').allTextContents();
    assert.match(first ?? '', / 00:00:00$/, 'the day begins at midnight of the zone');
  });

  test('it is chosen from the palette and by the menu, by keyboard, and what no zone has is said', async (t) => {
    const page = await openWindow(t, gateway, { place: '/console/keys' });
    await page.keyboard.press('Control+k');
    await page.keyboard.type('time zone');
    await page.getByRole('option', { name: 'Choose the time zone' }).click();
    const dialog = page.getByRole('dialog', { name: 'Time zone' });
    await dialog.getByRole('combobox').fill('olympus');
    await dialog.getByText('No time zone has this name').waitFor();
    await dialog.getByRole('combobox').fill('new york');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await page.reload();
    const button = page.getByRole('button', { name: /^Time zone: America\/New York/ });
    await button.waitFor();
    await page.getByRole('button', { name: /Appearance/ }).click();
    assert.equal(
      await page.getByRole('menuitemradio', { name: 'America/New York' }).getAttribute('aria-checked'),
      'true',
    );
    await page.getByRole('menuitem', { name: 'Choose the time zone' }).click();
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: /Appearance/ }).click();
    await page.getByRole('menuitemradio', { name: 'UTC' }).click();
    await page.getByRole('button', { name: /^Time zone: UTC/ }).waitFor();
  });
});
