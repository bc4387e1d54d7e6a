import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertAccessible, markup, openWindow, useConsole } from './console-kit.ts';

const said = (metadata: Record<string, string>) => ({ 'x-service-metadata': JSON.stringify(metadata) });
const through = (virtualKey: string) => ({ 'x-service-virtual-key': virtualKey });

describe('filters of requests, from the keyboard', () => {
  const gateway = useConsole();
  before(async () => {
    const headers = [
      said({ team: 'search' }),
      said({ team: 'search', shelf: 'oak' }),
      said({ team: 'search', shelf: '' }),
      said({ team: 'shop' }),
      said({ team: 'shop' }),
      said({ [markup]: markup, team: markup }),
      through('mock'),
      through('mock'),
      // Refused, and logged with the name all the same.
      through(markup),
    ];
    for (const one of headers) await (await gateway.chat('hello', { headers: one })).text();
    await gateway.untilLogged(headers.length);
  });

  const requests = (page: Page, count: number) =>
    page.getByText(`${count} ${count === 1 ? 'request' : 'requests'}, no more in this time`).waitFor();
  const field = (page: Page, title: string) => page.getByRole('combobox', { name: title, exact: true });
  /** The words of each option: a value, then its requests. */
  const told = async (page: Page): Promise<string[]> => {
    const texts = await page.getByRole('dialog').getByRole('option').allInnerTexts();
    return texts.map((text) => text.replaceAll(/\s+/g, ' ').trim());
  };
  /** Opens the list of filters by keyboard, and chooses one by its first letters. */
  const choose = async (page: Page, title: string): Promise<void> => {
    await page.getByRole('button', { name: 'Filter', exact: true }).press('Enter');
    await field(page, 'Filter by …').pressSequentially(title);
    await page.keyboard.press('Enter');
    await field(page, title).waitFor();
  };
  const begin = async (page: Page): Promise<void> => {
    await page.goto('/console/logs');
    await requests(page, 9);
  };
  const metadataOf = (page: Page): unknown => {
    const value: unknown = JSON.parse(new URL(page.url()).searchParams.get('metadata') ?? 'null');
    // A text that could be something else stands in quotes.
    return typeof value === 'string' ? JSON.parse(value) : value;
  };
  const untouched = async (page: Page): Promise<void> => {
    assert.equal(await page.title(), 'Logs · Weir');
    assert.equal(await page.locator('img[src="x"]').count(), 0);
  };

  test('names of metadata are offered, then the values of the chosen one; the address keeps the pair', async (t) => {
    const page = await openWindow(t, gateway);
    await begin(page);
    await choose(page, 'Metadata');
    await page.getByRole('option', { name: /^team/ }).waitFor();
    assert.deepEqual(await told(page), ['team 6', 'shelf 2', `${markup} 1`]);
    await assertAccessible(page);
    await page.keyboard.type('TEA');
    assert.deepEqual(await told(page), ['team 6', 'Use “TEA”']);
    await page.keyboard.press('Enter');
    await page.getByRole('option', { name: /^search/ }).waitFor();
    assert.deepEqual(await told(page), ['search 3', 'shop 2', `${markup} 1`]);
    assert.equal(await page.locator(':focus').getAttribute('aria-label'), 'Value of team');
    await assertAccessible(page);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await requests(page, 2);
    assert.deepEqual(metadataOf(page), { team: 'shop' });
    await page.reload();
    await requests(page, 2);
    await page.getByRole('button', { name: 'Metadata: team = shop' }).waitFor();
    await assertAccessible(page);
    await page.goBack();
    await requests(page, 9);
  });

  test('a second pair narrows the list; Backspace leads back to the names; a pair is changed and taken away', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto(`/console/logs?metadata=${encodeURIComponent('{"team":"search"}')}`);
    await requests(page, 3);
    await page.getByRole('button', { name: 'Metadata: team = search' }).press('Enter');
    await page.getByRole('option', { name: /^shelf/ }).waitFor();
    await page.keyboard.type('team');
    await page.keyboard.press('Enter');
    await page.getByRole('option', { name: /^shop/ }).waitFor();
    await page.keyboard.press('Backspace');
    await field(page, 'Metadata').waitFor();
    await page.keyboard.type('shelf');
    await page.keyboard.press('Enter');
    // One is empty, which is a value like others.
    await page.getByRole('option', { name: /^\(none\)/ }).waitFor();
    await page.keyboard.type('oak');
    await page.keyboard.press('Enter');
    await requests(page, 1);
    assert.deepEqual(metadataOf(page), { team: 'search', shelf: 'oak' });
    await page.getByRole('button', { name: /^Metadata: team = search, shelf = oak/ }).press('Enter');
    await page.getByRole('button', { name: 'Remove the filter team' }).waitFor();
    await assertAccessible(page);
    await page.keyboard.type('shelf');
    await page.keyboard.press('Enter');
    await page.getByRole('option', { name: /^\(none\)/ }).click();
    await requests(page, 1);
    assert.deepEqual(metadataOf(page), { team: 'search', shelf: '' });
    await page.getByRole('button', { name: /^Metadata: / }).press('Enter');
    await page.getByRole('button', { name: 'Remove the filter shelf' }).press('Enter');
    await requests(page, 3);
    assert.deepEqual(metadataOf(page), { team: 'search' });
  });

  test('markup in a name and in a value stays text', async (t) => {
    const page = await openWindow(t, gateway, { look: 'dark' });
    await begin(page);
    await choose(page, 'Metadata');
    await page.getByRole('option', { name: /^<img/ }).waitFor();
    await untouched(page);
    await page.keyboard.type('<img');
    await page.keyboard.press('Enter');
    await field(page, `Value of ${markup}`).waitFor();
    await page.getByRole('option', { name: /^<img/ }).waitFor();
    await untouched(page);
    await assertAccessible(page);
    await page.keyboard.press('Enter');
    await requests(page, 1);
    assert.deepEqual(metadataOf(page), { [markup]: markup });
    await page.getByRole('button', { name: `Metadata: ${markup} = ${markup}` }).waitFor();
    await untouched(page);
  });

  test('virtual keys that requests name are offered, and those without one', async (t) => {
    const page = await openWindow(t, gateway);
    await begin(page);
    await choose(page, 'Virtual key');
    await page.getByRole('option', { name: /^mock/ }).waitFor();
    assert.deepEqual(await told(page), ['(none) 6', 'mock 2', `${markup} 1`]);
    await assertAccessible(page);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Escape');
    await requests(page, 2);
    assert.equal(new URL(page.url()).searchParams.get('virtual_keys'), 'mock');
    await page.getByRole('button', { name: 'Virtual key: mock' }).press('Enter');
    await field(page, 'Virtual key').pressSequentially('<img');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Escape');
    await requests(page, 3);
    await untouched(page);
    await assertAccessible(page);
  });

  test('values that are not offered are typed, also by a caller who may not see what requests have', async (t) => {
    const { key } = await gateway.makeKey('reader', ['logs.list', 'logs.view']);
    const page = await openWindow(t, gateway, { key });
    await begin(page);
    await choose(page, 'Metadata');
    await page.getByText('Type a value: none is offered').waitFor();
    await assertAccessible(page);
    await page.keyboard.type('shelf');
    assert.deepEqual(await told(page), ['Use “shelf”']);
    await page.keyboard.press('Enter');
    await field(page, 'Value of shelf').waitFor();
    await page.keyboard.type('oak');
    await page.keyboard.press('Enter');
    await requests(page, 1);
    assert.deepEqual(metadataOf(page), { shelf: 'oak' });
    await choose(page, 'Virtual key');
    await page.keyboard.type('mock');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Escape');
    await page.getByText('No request matches', { exact: false }).first().waitFor();
    assert.equal(new URL(page.url()).searchParams.get('virtual_keys'), 'mock');
  });

  test('a bar of the scores leads to the feedback with that value, and for who may not read it to the log', async (t) => {
    const { data } = await gateway.api('GET', '/logs?page_size=2');
    const [one, other] = data.map((entry: { metrics: { trace_id: string } }) => entry.metrics.trace_id);
    for (const [trace_id, value, comment] of [
      [one, -8, 'Not what was asked'],
      [one, 5, 'Well put'],
      [other, 5, 'Short'],
    ])
      await gateway.api('POST', '/feedback', { trace_id, value, metadata: { comment } });
    const page = await openWindow(t, gateway, { place: '/console/feedback?range=24h' });
    const bars = page.getByRole('list', { name: 'Scores' });
    await bars.getByRole('link', { name: /^-8 × 1$/ }).press('Enter');
    const bad = page.getByRole('table', { name: 'What was given with -8' });
    await bad.getByRole('row', { name: /Not what was asked/ }).waitFor();
    assert.equal(await bad.locator('tbody tr').count(), 1);
    assert.equal(new URL(page.url()).search, '?range=24h&value=-8');
    await assertAccessible(page);
    await bars.getByRole('link', { name: /^\+5 × 2$/ }).click();
    const good = page.getByRole('table', { name: 'What was given with +5' });
    await good.getByRole('row', { name: /Short/ }).waitFor();
    assert.equal(await good.locator('tbody tr').count(), 2);
    await page.reload();
    await good.getByRole('row', { name: /Well put/ }).waitFor();
    await page.goBack();
    await bad.getByRole('row', { name: /Not what was asked/ }).waitFor();
    await page.getByRole('button', { name: 'Show every value' }).click();
    await page.getByRole('table', { name: 'What was given, newest first' }).waitFor();

    const { key } = await gateway.makeKey('analyst', ['analytics.view', 'logs.list', 'logs.view']);
    const reader = await openWindow(t, gateway, { key, place: '/console/feedback?range=24h' });
    await reader.getByRole('list', { name: 'Scores' }).getByRole('link', { name: /^\+5/ }).click();
    await requests(reader, 1);
  });
});
