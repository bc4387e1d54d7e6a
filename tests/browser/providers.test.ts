import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type FakeProviders, startFakeProviders } from '../kit/fake-providers/fake-providers.ts';
import { eventually } from '../kit/process-kit.ts';
import { assertAccessible, consoleConfig, markup, openWindow, useConsole } from './console-kit.ts';

const firstSecret = 'sk-first-0123456789abcdef';
const secondSecret = 'sk-second-9876543210fedcba';

describe('integrations, providers, virtual keys and secrets in the console', () => {
  let provider: FakeProviders;
  const gateway = useConsole(async () => {
    provider = await startFakeProviders(gateway);
    return { ...consoleConfig, security: { trusted_hosts: [new URL(provider.url).host] } };
  });
  const arrived = (): string | undefined => provider.seen.at(-1)?.headers['authorization'];

  test("an operator makes an integration, and rotates the provider's secret", async (t) => {
    const page = await openWindow(t, gateway);
    await page.getByRole('link', { name: 'Integrations' }).click();
    await page.getByRole('button', { name: 'New integration' }).click();
    await page.getByRole('button', { name: /^Provider: / }).click();
    await page.getByPlaceholder('Type to search').fill('openai');
    await page.getByRole('option', { name: /^openai/ }).click();
    await page.getByLabel('Name', { exact: true }).fill('Rivers');
    await page.getByLabel('Slug', { exact: true }).fill('rivers');
    await page.getByRole('button', { name: /^Workspace: / }).click();
    await page.locator('[cmdk-item]').first().click();
    await page.getByLabel('Secret key').fill(firstSecret);
    await page.getByLabel('custom_host').fill(`${provider.url}/openai/v1`);
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('The integration is made.').first().waitFor();
    assert.equal(await gateway.audited('integrations', 'create'), 1);

    await page.getByRole('button', { name: 'Does it answer?' }).click();
    await page.getByLabel('Model', { exact: true }).fill('gpt-4o');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('It answers.').waitFor();
    await assertAccessible(page);
    assert.equal(arrived(), `Bearer ${firstSecret}`);
    await page.getByRole('dialog').last().getByText('Close', { exact: true }).last().click();

    await page.getByRole('button', { name: 'Rotate the secret' }).click();
    await page.getByText('Stored now: sk…ef').waitFor();
    await page.getByLabel('New secret').fill(secondSecret);
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Rotate', exact: true }).click();
    await page.getByText('The secret is now sk…ba.').first().waitFor();
    assert.equal(await gateway.audited('integrations', 'update'), 1);
    assert.ok(!(await page.content()).includes(secondSecret), 'the secret is not in the page');
    const answer = await gateway.chat('hello', {
      ...{ headers: { 'x-service-provider': '@rivers' }, body: { model: 'gpt-4o' } },
    });
    assert.equal(answer.status, 200);
    assert.equal(arrived(), `Bearer ${secondSecret}`);
  });

  test('models are switched on and off, with prices', async (t) => {
    const page = await openWindow(t, gateway, { look: 'dark' });
    const [{ id }] = (await gateway.api('GET', '/integrations')).data;
    await page.goto(`/console/integrations?open=${id}&tab=models`);
    await page.getByRole('button', { name: 'Add a model' }).click();
    await page.getByLabel('Name of the model').fill('gpt-4o');
    await page.getByLabel('US dollars for a million tokens of input').fill('3');
    await page.getByLabel('US dollars for a million tokens of output').fill('15');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('row', { name: /gpt-4o.*3.*15/ }).waitFor();
    const [{ pricing_config: prices }] = (await gateway.api('GET', `/integrations/${id}/models`)).models;
    assert.deepEqual(prices.pay_as_you_go.request_token, { price: 0.0003 });
    await assertAccessible(page);
    await page.getByLabel('Every model of the provider may be used').uncheck();
    await page.getByText('Saved. It holds from the next request on.').first().waitFor();
    const isOn = page.getByLabel('gpt-4o is on');
    await isOn.uncheck();
    await eventually(async () => (!(await isOn.isChecked()) && (await isOn.isEnabled())) || undefined);
    const headers = { 'x-service-provider': '@rivers' };
    const refused = await gateway.chat('hello', { headers, body: { model: 'gpt-4o' } });
    assert.equal(refused.status, 403, 'a model that is off is refused');
    // The model, the switch of all others, and the switch of this one.
    assert.equal(await gateway.audited('integration_models', 'update'), 3);
    await page.getByRole('button', { name: 'Forget gpt-4o' }).click();
    const confirm = page.getByRole('alertdialog', { name: 'Forget gpt-4o?' });
    await confirm.getByText('Its own prices and its switch are lost').waitFor();
    await assertAccessible(page);
    await confirm.getByRole('button', { name: 'Cancel' }).click();
    await confirm.waitFor({ state: 'detached' });
    assert.equal(await gateway.audited('integration_models', 'delete'), 0);
    await page.getByRole('button', { name: 'Forget gpt-4o' }).click();
    await confirm.getByRole('button', { name: 'Forget it' }).click();
    await page.getByText('Nothing is said of single models.').waitFor();
    assert.equal(await gateway.audited('integration_models', 'delete'), 1);
    await page.getByRole('link', { name: 'Who changed it' }).click();
    const trail = page.getByRole('table', { name: 'Audit trail' });
    const removed = trail.getByRole('row', { name: /owner.*delete integration models/ });
    await removed.waitFor();
    assert.equal(await removed.count(), 1);
    await removed.click();
    const entry = page.getByRole('dialog', { name: 'delete integration models' });
    await entry
      .getByText(/^owner/)
      .first()
      .waitFor();
    await entry
      .getByText(/gpt-4o/)
      .first()
      .waitFor();
    await assertAccessible(page);
  });

  test('a provider of the organisation is opened to a workspace, and limited', async (t) => {
    await gateway.api('POST', '/integrations', {
      ...{ name: `Shared ${markup}`, slug: 'shared', ai_provider_id: 'anthropic', key: firstSecret },
    });
    const page = await openWindow(t, gateway);
    await page.goto('/console/integrations');
    await page.getByText(`Shared ${markup}`).click();
    assert.equal(await page.locator('img').count(), 0);
    await page.getByRole('button', { name: 'Workspaces', exact: true }).click();
    await page
      .getByLabel(/may use it$/)
      .first()
      .check();
    await page.getByText('Saved.').first().waitFor();
    assert.equal(await gateway.audited('integration_workspaces', 'update'), 1);
    await page.goto('/console/providers');
    await page.getByText('@shared').first().click();
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByLabel('Note', { exact: true }).fill('For the website');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved.').first().waitFor();
    assert.equal(await gateway.audited('providers', 'update'), 1);
    await assertAccessible(page);
  });

  test('a reference to a secret elsewhere is made, with the fields of its manager', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/secrets?new=1');
    await page.getByLabel('Name', { exact: true }).fill('Key in the vault');
    await page.getByLabel('Secret manager').selectOption('hashicorp_vault');
    await page.getByLabel('Name or path').fill('secret/team/openai');
    await page.getByLabel('vault_addr *').fill('https://vault.example.com:8200');
    await page.getByLabel('vault_token *').fill('hvs.0123456789abcdefgh');
    await page.getByLabel('Every workspace may use it').check();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByText('The secret reference is made.').first().waitFor();
    await page.getByText('hv…gh').waitFor();
    assert.equal(await gateway.audited('secret_references', 'create'), 1);
    assert.ok(!(await page.content()).includes('hvs.0123456789abcdefgh'));
  });

  test('a virtual key is made and deleted', async (t) => {
    await gateway.api('POST', '/virtual-keys', {
      ...{
        name: 'Old style',
        slug: 'old',
        provider: 'openai',
        key: firstSecret,
        workspace_id: gateway.workspace,
      },
    });
    const page = await openWindow(t, gateway);
    await page.goto('/console/providers?view=keys');
    await page.getByText('Old style').click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('Delete: Old style. Done.').first().waitFor();
    assert.equal(await gateway.audited('virtual_keys', 'delete'), 1);
  });

  test('a key that only reads sees no button that changes or rotates', async (t) => {
    const { key } = await gateway.makeKey('reader', [
      ...['workspace_integrations.list', 'workspace_integrations.read', 'providers.list'],
    ]);
    const page = await openWindow(t, gateway, { key });
    await page.goto('/console/integrations');
    await page.getByText('Rivers', { exact: true }).click();
    await page.getByText('sk…ba').waitFor();
    for (const name of ['Rotate the secret', 'Edit', 'Delete', 'Does it answer?'])
      assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name);
  });
});
