import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertAccessible, markup, openWindow, useConsole } from './console-kit.ts';

describe('guardrails in the console', () => {
  const gateway = useConsole();

  test('an operator adds one and sees it refuse', async (t) => {
    const page = await openWindow(t, gateway, { expected: /446/ });
    await page.getByRole('link', { name: 'Guardrails' }).click();
    await page.getByRole('button', { name: 'New guardrail' }).click();
    await page.getByLabel('Name', { exact: true }).fill('No rivals');
    await page.getByRole('button', { name: 'Add a check' }).click();
    await page.getByLabel('Find a check').fill('default.contains');
    await assertAccessible(page);
    await page.getByRole('button', { name: /^default\.contains requests/ }).click();
    const check = page.getByRole('region', { name: 'default.contains' });
    await check.getByLabel('words (needed)').fill('Initech\nInitrode');
    await check.getByLabel('operator').selectOption('none');
    await page.getByLabel('Refuse the request or the answer (446)').check();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('The guardrail is made.').first().waitFor();
    assert.equal(await gateway.audited('guardrails', 'create'), 1);

    await page.getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByLabel('Text', { exact: true }).fill('What does Initech do better?');
    await page.getByRole('button', { name: 'Try it' }).click();
    await page.getByText('Refused: the request does not reach the provider.').waitFor();
    await page.getByRole('listitem').filter({ hasText: 'Failed' }).getByText('default.contains').waitFor();
    await assertAccessible(page);
    await page.getByLabel('Text', { exact: true }).fill('What do we do well?');
    await page.getByRole('button', { name: 'Try it' }).click();
    await page.getByText('All checks pass. It goes on.').waitFor();

    // The same over the API, as an application names it.
    const [made] = (await gateway.api('GET', '/guardrails')).data;
    const config = JSON.stringify({ provider: 'mock', input_guardrails: [made.slug] });
    const refused = await gateway.chat('Initech?', { headers: { 'x-service-config': config } });
    assert.equal(refused.status, 446);
    await gateway.api('POST', '/configs', {
      ...{ name: 'Guarded', config: { provider: 'mock', input_guardrails: [made.slug] } },
      workspace_id: (await gateway.api('GET', '/workspaces')).data[0].id,
    });
    await page.getByRole('button', { name: 'Where it is used' }).click();
    await page.getByText('Guarded', { exact: true }).waitFor();
  });

  test('checks change a text; what is needed is told at its field', async (t) => {
    const made = await gateway.api('POST', '/guardrails', {
      name: `Redact ${markup}`,
      checks: [{ id: 'default.pii', parameters: { redact: true } }],
      actions: {},
    });
    const page = await openWindow(t, gateway, { look: 'dark', expected: /400/ });
    await page.goto(`/console/guardrails?open=${made.id}&tab=try`);
    await page.getByText(`Redact ${markup}`).first().waitFor();
    assert.equal(await page.locator('img').count(), 0);
    await page.getByRole('button', { name: 'Try it' }).click();
    await page.getByRole('dialog').getByText('Changed', { exact: true }).waitFor();
    await page.getByText('[EMAIL_ADDRESS]').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Details' }).click();
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('button', { name: 'Add a check' }).click();
    await page.getByLabel('Find a check').fill('default.regexMatch');
    await page.getByLabel('Find a check').press('Enter');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('alert').filter({ hasText: 'rule' }).first().waitFor();
    await page.getByRole('region', { name: 'default.regexMatch' }).getByLabel('rule (needed)').fill('secret');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').first().waitFor();
    assert.equal(await gateway.audited('guardrails', 'update'), 1);
    assert.equal((await gateway.api('GET', `/guardrails/${made.id}`)).checks.length, 2);
  });

  test('a guardrail is deleted after a question; a key that only reads is not asked', async (t) => {
    const { id } = await gateway.api('POST', '/guardrails', {
      ...{ name: 'Short', checks: [{ id: 'default.wordCount', parameters: { minWords: 1, maxWords: 5 } }] },
      actions: { deny: false },
    });
    const { key } = await gateway.makeKey('reader', ['guardrails.list', 'guardrails.read']);
    const reader = await openWindow(t, gateway, { key });
    await reader.goto(`/console/guardrails?open=${id}`);
    await reader.getByText('default.wordCount').waitFor();
    assert.equal(await reader.getByRole('button', { name: 'Delete' }).count(), 0);
    const page = await openWindow(t, gateway);
    await page.goto(`/console/guardrails?open=${id}`);
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('Delete: Short. Done.').first().waitFor();
    assert.equal(await gateway.audited('guardrails', 'delete'), 1);
  });
});
