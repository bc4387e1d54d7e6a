// Every page of the console, empty and with data that is full of markup, in both looks.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { eventually } from '../kit/process-kit.ts';
import { assertAccessible, markup, openWindow, useConsole } from './console-kit.ts';

const shell = new URL('../../plugins/console/app/src/shell/', import.meta.url);
/** The paths of all places that the navigation leads to, as their tables say them. */
const places = readdirSync(shell)
  .filter((file) => file.endsWith('places.ts'))
  .flatMap((file) => [...readFileSync(new URL(file, shell), 'utf8').matchAll(/path: '(\/[^']*)'/g)])
  .map(([, path = '']) => path)
  .sort();

const looks = ['light', 'dark'] as const;
const looksEmpty = new Set(['/prompts', '/guardrails', '/integrations', '/secrets', '/configs', '/exports']);

/** Goes to a place and waits until nothing of it loads any more. */
async function visit(page: Page, path: string): Promise<void> {
  await page.goto(`/console${path}`);
  // An open dialog hides the page behind it from the roles of the page.
  await page.locator('main h1').first().waitFor({ state: 'attached' });
  const loading = page.locator('[role=status][aria-label=Loading]');
  await eventually(async () => (await loading.count()) === 0 || undefined);
}

/** Visits each and looks at it; fails with what all of them are at fault. */
async function eachPlace(paths: readonly string[], look: (path: string) => Promise<void>): Promise<void> {
  const faults: string[] = [];
  for (const path of paths) {
    await look(path).catch((error: unknown) => faults.push(`${path}: ${String(error)}`));
  }
  assert.deepEqual(faults, []);
}

describe('every page of the console', () => {
  const gateway = useConsole();

  for (const look of looks)
    test(`empty and ${look}: accessible, and what is empty says what to do`, async (t) => {
      const page = await openWindow(t, gateway, { look });
      const shown = await page
        .getByRole('navigation')
        .first()
        .locator('li a')
        .evaluateAll((all) =>
          all.map((link) => (link.getAttribute('href') ?? '').replace('/console', '') || '/'),
        );
      assert.deepEqual(shown.toSorted(), places);
      await eachPlace(places, async (path) => {
        await visit(page, path);
        assert.equal(await page.getByRole('alert').count(), 0);
        if (looksEmpty.has(path))
          assert.ok((await page.getByRole('main').getByRole('button', { name: /^New / }).count()) > 0);
        await assertAccessible(page);
      });
    });

  describe('with names, prompts, answers and tools full of markup', () => {
    /** Where one record, or its form, is open. */
    const opened: string[] = [];
    /** What shows a text full of markup. */
    const shows = ['/logs', '/keys', '/configs', '/prompts', '/guardrails', '/integrations', '/secrets'];

    before(async () => {
      const { workspace } = gateway;
      const post = (path: string, body: object): Promise<any> => gateway.api('POST', path, body);
      const name = `Name ${markup}`;
      const key = await gateway.makeKey(name, ['completions.write']);
      await post('/admin/workspaces', { name, description: markup });
      await post('/admin/users/invites', {
        ...{ email: 'ann@example.com', role: 'member', workspaces: [{ id: workspace, role: 'member' }] },
      });
      const config = await post('/configs', {
        name,
        workspace_id: workspace,
        config: { provider: 'mock', override_params: { model: markup } },
      });
      const prompt = await post('/prompts', {
        ...{ name, workspace_id: workspace, model: markup, parameters: {} },
        string: JSON.stringify([{ role: 'user', content: `${markup} {{what}}` }]),
      });
      await post('/prompts/partials', { name, string: markup, workspace_id: workspace });
      await post('/labels', { name: 'staging', description: markup, workspace_id: workspace });
      const guardrail = await post('/guardrails', {
        name,
        checks: [{ id: 'default.contains', parameters: { words: [markup], operator: 'none' } }],
        actions: {},
      });
      const integration = await post('/integrations', {
        ...{ name, slug: 'marked', ai_provider_id: 'openai', key: 'sk-0123456789', description: markup },
      });
      const secret = await post('/secret-references', {
        ...{ name, description: markup, manager_type: 'hashicorp_vault', secret_path: markup },
        auth_config: {
          ...{
            vault_auth_type: 'token',
            vault_addr: 'https://vault.example.com',
            vault_token: 'hvs.01234567',
          },
        },
        allow_all_workspaces: true,
      });
      const call = {
        id: 'call',
        type: 'function',
        function: { name: 'look', arguments: JSON.stringify({ markup }) },
      };
      const answer = await gateway.chat('', {
        headers: { 'x-service-metadata': JSON.stringify({ _user: markup, team: markup }) },
        body: {
          model: 'mock-gpt',
          messages: [
            { role: 'system', content: markup },
            { role: 'assistant', content: markup, tool_calls: [call] },
            { role: 'tool', tool_call_id: 'call', content: markup },
            { role: 'user', content: markup },
          ],
        },
      });
      assert.equal(answer.status, 200, await answer.text());
      const log = answer.headers.get('x-service-request-id') ?? '';
      const trace = answer.headers.get('x-service-trace-id') ?? '';
      await eventually(() => gateway.api('GET', `/logs/${log}`).then(Boolean, () => undefined));
      await post('/feedback', { trace_id: trace, value: -1, metadata: { comment: markup } });
      opened.push(
        ...[`/logs/${log}`, `/traces/${trace}`, `/playground?log=${log}`, `/configs/${config.data.slug}`],
        ...[`/configs/${config.data.slug}?view=graph`, `/configs/${config.data.slug}?view=versions`],
        ...[`/prompts/${prompt.id}`, `/prompts/${prompt.id}?tab=versions`, `/prompts/${prompt.id}?tab=try`],
        ...[`/keys?open=${key.id}`, `/keys?open=${key.id}&edit=1`, `/guardrails?open=${guardrail.id}`],
        ...[`/guardrails?open=${guardrail.id}&edit=1`, `/integrations?open=${integration.id}`],
        ...[`/secrets?open=${secret.id}`, '/prompts?view=partials', '/prompts?view=labels'],
        ...[
          '/people?show=invites',
          '/?by=user',
          '/workspaces?new=1',
          '/keys?new=1',
          '/mcp?view=servers&new=1',
        ],
      );
    });

    for (const look of looks)
      test(`${look}: accessible, and all of it stays text`, async (t) => {
        const page = await openWindow(t, gateway, { look });
        await eachPlace([...places, ...opened], async (path) => {
          await visit(page, path);
          if (shows.includes(path)) await page.getByText(markup).filter({ visible: true }).first().waitFor();
          assert.equal(await page.locator('img[src="x"]').count(), 0, 'an image of the markup');
          assert.notEqual(await page.title(), 'owned');
          await assertAccessible(page);
        });
      });
  });
});
