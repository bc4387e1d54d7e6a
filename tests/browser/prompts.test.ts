import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertAccessible, markup, openWindow, useConsole } from './console-kit.ts';

const template = (tone: string) =>
  JSON.stringify([
    { role: 'system', content: `You answer ${tone}.` },
    { role: 'user', content: 'Hello {{name}}, {{#formal}}dear sir{{/formal}}' },
  ]);

describe('prompts in the console', () => {
  const gateway = useConsole();

  const make = (name: string, string = template('politely')) =>
    gateway.api('POST', '/prompts', {
      ...{
        name,
        string,
        workspace_id: gateway.workspace,
        model: 'mock-gpt',
        parameters: { temperature: 0.2 },
      },
    });

  test('an operator writes one, saves a new version, tries it, and rolls it back', async (t) => {
    const page = await openWindow(t, gateway);
    await page.getByRole('link', { name: 'Prompts' }).click();
    await page.getByRole('button', { name: 'New prompt' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Greeting');
    await page.getByLabel('Text of message 1').fill('You are brief.');
    await page.getByLabel('Text of message 2').fill('Greet {{name}}.');
    await page.getByText('name', { exact: true }).waitFor();
    await page.getByLabel('Model', { exact: true }).fill('mock-gpt');
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Create the prompt' }).click();
    await page.getByText('The prompt is made.').first().waitFor();
    assert.equal(await gateway.audited('prompts', 'create'), 1);

    await page.getByLabel('Text of message 1').fill('You are rude.');
    await page.getByRole('button', { name: 'Save as a new version' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('You are rude.').waitFor();
    await dialog.getByLabel('What is different (optional)').fill('Rude');
    await dialog.getByLabel('Make it the default at once').check();
    await dialog.getByRole('button', { name: 'Save version 2' }).click();
    await page.getByText('Version 2 is saved and served from now on.').first().waitFor();

    await page.getByRole('button', { name: 'Try', exact: true }).click();
    await page.getByLabel('name', { exact: true }).fill('Ada');
    await page.getByRole('button', { name: 'Render' }).click();
    await page.getByText('Greet Ada.', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('You said: "Greet Ada."').waitFor();
    await page.getByText('Cost', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Open its log' }).waitFor();
    await assertAccessible(page);

    await page.getByRole('button', { name: 'Versions', exact: true }).click();
    await page.getByRole('button', { name: 'Roll back' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Roll back' }).click();
    await page.getByText('Version 1 is served from now on.').first().waitFor();
    await page.getByRole('row', { name: /Version 1.*Default/ }).waitFor();
    const { data } = await gateway.api('GET', '/prompts?search=Greeting');
    const served = await gateway.api('GET', `/prompts/${data[0].id}`);
    assert.equal(served.prompt_version, 1);
    assert.match(served.string, /You are brief/);
    assert.equal(await gateway.audited('prompts', 'publish'), 2);
    await assertAccessible(page);

    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('row', { name: /Version 2.*Default/ }).waitFor();
  });

  test('two versions are compared, and a label moves to one', async (t) => {
    const { id } = await make('Compared');
    await gateway.api('PUT', `/prompts/${id}`, {
      patch: true,
      string: template('with wit'),
      version_description: 'Wit',
    });
    await gateway.api('POST', '/labels', { name: 'staging', workspace_id: gateway.workspace });
    const page = await openWindow(t, gateway, { look: 'dark' });
    await page.goto(`/console/prompts/${id}?tab=versions&from=1&to=2`);
    const difference = page.getByRole('region', { name: 'From version 1 to version 2' });
    await difference.getByText('You answer with wit.').waitFor();
    await difference.getByText('You answer politely.').waitFor();
    await page.getByLabel('Label of version 2').selectOption('staging');
    await page.getByText('The label is set.').first().waitFor();
    assert.match((await gateway.api('GET', `/prompts/${id}@staging`)).string, /with wit/);
    await assertAccessible(page);
  });

  test('a change of somebody else is told, and nothing that was typed is lost', async (t) => {
    const { id } = await make('Shared');
    const page = await openWindow(t, gateway, { expected: /412/ });
    await page.goto(`/console/prompts/${id}`);
    await page.getByLabel('Text of message 1').fill('Mine.');
    await gateway.api('PUT', `/prompts/${id}`, { patch: true, string: template('as theirs') });
    await page.getByRole('button', { name: 'Save as a new version' }).click();
    await page.getByRole('button', { name: /Save version/ }).click();
    await page.getByText('Somebody else changed this meanwhile').first().waitFor();
    await page.getByRole('button', { name: 'Save mine over it' }).click();
    await page.getByText('Version 3 is saved.').first().waitFor();
    assert.match((await gateway.api('GET', `/prompts/${id}@latest`)).string, /Mine\./);
  });

  test('a mistake in a template is told at its field', async (t) => {
    const { id } = await make('Broken');
    const page = await openWindow(t, gateway, { expected: /400/ });
    await page.goto(`/console/prompts/${id}`);
    await page.getByLabel('Text of message 1').fill('Open {{#never}} closed');
    await page.getByRole('button', { name: 'Save as a new version' }).click();
    await page.getByRole('button', { name: /Save version/ }).click();
    await page.getByRole('alert').filter({ hasText: 'is no template' }).waitFor();
    assert.equal(await page.getByLabel('Text of message 1').inputValue(), 'Open {{#never}} closed');
  });

  test('partials, collections and labels are made here; markup stays text', async (t) => {
    await make(`Evil ${markup}`, `${markup} {{what}}`);
    const page = await openWindow(t, gateway);
    await page.goto('/console/prompts');
    await page.getByText(`Evil ${markup}`).click();
    await page.getByLabel('Template').waitFor();
    assert.equal(await page.locator('img').count(), 0);
    await page.goto('/console/prompts?view=partials');
    await page.getByRole('button', { name: 'New partial' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Tone');
    await page.getByRole('button', { name: /^Workspace: / }).click();
    await page.getByRole('option').first().click();
    await page.getByLabel('Text', { exact: true }).fill('Be kind.');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('The partial is made.').first().waitFor();
    assert.equal(await gateway.audited('prompt_partials', 'create'), 1);
    await page.goto('/console/prompts?view=collections');
    await page.getByText('default', { exact: true }).first().waitFor();
    await assertAccessible(page);
  });

  test('a key that only reads is shown no button that changes', async (t) => {
    const { id } = await make('Read only');
    const { key } = await gateway.makeKey('reader', ['prompts.list', 'prompts.read']);
    const page = await openWindow(t, gateway, { key });
    await page.goto(`/console/prompts/${id}`);
    await page.getByLabel('Text of message 1').waitFor();
    for (const name of ['Save as a new version', 'Delete', 'Rename or move'])
      assert.equal(await page.getByRole('button', { name }).count(), 0, name);
  });
});
