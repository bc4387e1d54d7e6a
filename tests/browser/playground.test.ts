import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually } from '../kit/process-kit.ts';
import { assertAccessible, openWindow, useConsole } from './console-kit.ts';

describe('the playground', () => {
  const gateway = useConsole();

  test('streams answers of two columns side by side, and tells what they took', async (t) => {
    const page = await openWindow(t, gateway);
    await page.getByRole('link', { name: 'Playground' }).click();
    await page.getByLabel('Text 1').fill('Hello <img src=x onerror=alert(1)>');
    await page.getByLabel('Model').fill('mock-gpt');
    await page.getByRole('button', { name: 'Add a column' }).click();
    const [one, two] = [1, 2].map((number) => page.getByRole('region', { name: `Column ${number}` }));
    assert.ok(one && two);
    await two.getByLabel('Model').fill('mock-large');
    await page.keyboard.press('Control+Enter');
    for (const column of [one, two]) {
      await column.getByText('Status').waitFor();
      await column.getByText('Tokens in, out').waitFor();
      await column.getByText('Log entry').waitFor();
      await column.getByRole('button', { name: 'Go on with this answer' }).waitFor();
    }
    await one.getByRole('button', { name: 'Go on with this answer' }).click();
    await page.getByLabel('Text 3').waitFor();
    for (const look of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: look });
      await assertAccessible(page);
    }
  });

  test('stops an answer, and shows a refusal in the words of the gateway', async (t) => {
    const page = await openWindow(t, gateway, { expected: /40\d/ });
    await page.goto('/console/playground');
    await page.getByLabel('Text 1').fill('Count');
    await page.getByLabel('Model').fill('mock:chunk_latency_ms=50,tokens=5000');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Stopped').waitFor();
    await page.getByLabel('Provider').fill('@nobody');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('alert').filter({ hasText: 'nobody' }).waitFor();
  });

  test('runs a saved config, replays a logged request, and saves what was tried', async (t) => {
    const body = { name: 'Tried', config: { provider: 'mock', override_params: { model: 'mock-gpt' } } };
    const { data } = await gateway.api('POST', '/configs', { ...body, workspace_id: gateway.workspace });
    const answer = await gateway.chat('From the log', { headers: { 'x-service-config': data.slug } });
    await answer.text();
    const id = answer.headers.get('x-service-request-id') ?? '';
    await eventually(async () => {
      const { data: rows } = await gateway.api('GET', '/logs');
      return rows.some((one: { id: string }) => one.id === id) || undefined;
    });
    const page = await openWindow(t, gateway);
    await page.goto(`/console/playground?log=${id}`);
    await page.getByText('This conversation comes from a log entry.').waitFor();
    assert.equal(await page.getByLabel('Text 1').inputValue(), 'From the log');
    assert.equal(await page.getByLabel('Config').inputValue(), data.slug);
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('button', { name: 'Go on with this answer' }).waitFor();
    await page.getByRole('button', { name: 'Save as a prompt' }).click();
    const dialog = page.getByRole('dialog', { name: 'Save as a prompt' });
    await dialog.getByLabel('Name').fill('From the playground');
    await dialog.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('The prompt is saved.').first().waitFor();
    const prompts = await gateway.api('GET', '/prompts');
    assert.ok(prompts.data.some((one: { name: string }) => one.name === 'From the playground'));
    const trail = await gateway.api('GET', '/audit-logs');
    assert.ok(trail.records.some((one: any) => one.method === 'POST' && one.uri === '/v1/prompts'));
  });

  test('the request as code holds a placeholder, never a key', async (t) => {
    const page = await openWindow(t, gateway);
    await page.goto('/console/playground');
    await page.getByLabel('Text 1').fill("It's");
    await page.getByLabel('Model').fill('mock-gpt');
    await page.getByRole('button', { name: 'Copy as code' }).click();
    const dialog = page.getByRole('dialog', { name: 'Copy as code' });
    for (const language of ['curl', 'Python', 'TypeScript'])
      await dialog.getByRole('region', { name: language }).getByText('YOUR_KEY').waitFor();
    assert.ok(!(await page.content()).includes(gateway.ownerKey));
  });
});
