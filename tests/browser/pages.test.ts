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

/** Waits until the page is there and nothing of it loads any more. */
async function settle(page: Page): Promise<void> {
  // An open dialog hides the page behind it from the roles of the page.
  await page.locator('main h1:not([data-left])').first().waitFor({ state: 'attached' });
  const loading = page.locator('[role=status][aria-label=Loading]');
  await eventually(async () => (await loading.count()) === 0 || undefined);
}

/** Loads the console at a place, as a link from elsewhere does. */
async function loadPlace(page: Page, path: string): Promise<void> {
  await page.goto(`/console${path}`);
  await settle(page);
}

/** Goes to a place within the console, as its own links do: without loading it again, which takes most of a second. */
async function walkTo(page: Page, path: string): Promise<void> {
  await page.evaluate(`(() => {
    const to = ${JSON.stringify(`/console${path}`)};
    // The page of another path has a title of its own.
    const bare = (path) => path.replace(/\\/$/, '');
    if (bare(new URL(to, location.href).pathname) !== bare(location.pathname))
      for (const title of document.querySelectorAll('main h1')) title.dataset.left = '';
    history.pushState({}, '', to);
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  })()`);
  await settle(page);
}

/** Visits each and looks at it; fails with what all of them are at fault. */
async function eachPlace(paths: readonly string[], look: (path: string) => Promise<void>): Promise<void> {
  const faults: string[] = [];
  for (const path of paths) {
    await look(path).catch((error: unknown) => faults.push(`${path}: ${String(error)}`));
  }
  assert.deepEqual(faults, []);
}

/** Windows of a telephone and of a small tablet, in CSS pixels. */
const narrow = [
  { width: 390, height: 844 },
  { width: 1024, height: 768 },
];

/**
 * The faults of size on the page that is shown: it scrolls sideways, a box of it does on a telephone, a target is smaller than 24 px (WCAG 2.5.8;
 * links within sentences excepted), or a text is cut and the pointer does not tell the whole.
 */
function misfits(page: Page): Promise<readonly string[]> {
  // As text: it is a program of the page, which the types of this one do not describe.
  return page.evaluate(`(() => {
    const isSeen = (one) =>
      one.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && one.closest('.sr-only') === null;
    const called = (one) =>
      one.tagName.toLowerCase() + ' “' + (one.getAttribute('aria-label') ?? one.textContent).slice(0, 40) + '”';
    const all = (selector) => [...document.querySelectorAll(selector)].filter(isSeen);
    const wide = all('html, main, [role=dialog]')
      .filter((one) => one.scrollWidth > one.clientWidth + 1)
      .map((one) => called(one) + ' scrolls sideways: ' + one.scrollWidth + ' px in ' + one.clientWidth);
    // Lines of code are as long as they are; what else is wide finds its room below.
    const boxes = (innerWidth > 640 ? [] : all('main *, [role=dialog] *')).flatMap((one) => {
      if (one.scrollWidth <= one.clientWidth + 1 || one.closest('pre, .cm-editor, textarea, input') !== null) return [];
      if (!['auto', 'scroll'].includes(getComputedStyle(one).overflowX)) return [];
      return [called(one) + ' scrolls sideways in its box: ' + one.scrollWidth + ' px in ' + one.clientWidth];
    });
    const small = all('a[href], button, input, select, textarea, summary').flatMap((one) => {
      // A label is a target of its control; a link in a sentence is as high as its line.
      const { width, height } = (one.closest('label') ?? one).getBoundingClientRect();
      const isInText =
        getComputedStyle(one).display === 'inline' &&
        [...one.parentElement.childNodes].some((beside) => beside.nodeType === 3 && beside.nodeValue.trim() !== '');
      if (isInText || width === 0 || (width >= 24 && height >= 24)) return [];
      return [called(one) + ' is a target of ' + Math.round(width) + ' × ' + Math.round(height) + ' px'];
    });
    const cut = all('body *').flatMap((one) => {
      if (getComputedStyle(one).textOverflow !== 'ellipsis' || one.scrollWidth <= one.clientWidth) return [];
      if (one.tagName === 'INPUT' || one.textContent.trim() === '') return [];
      one.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
      return (one.closest('[title]') ?? one.querySelector('[title]')) ? [] : [called(one) + ' is cut'];
    });
    return [...new Set([...wide, ...boxes, ...small, ...cut])];
  })()`);
}

describe('every page of the console', () => {
  const gateway = useConsole();

  // In one look each place is loaded as from a link, in the other it is reached within the console.
  const visits = { light: loadPlace, dark: walkTo };

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
        await visits[look](page, path);
        assert.equal(await page.getByRole('alert').count(), 0);
        if (looksEmpty.has(path))
          assert.equal(await page.getByRole('main').getByRole('button', { name: /^New / }).count(), 1);
        await assertAccessible(page);
      });
    });

  describe('with names, prompts, answers and tools full of markup', () => {
    /** Where one record, or its form, is open; and what no place leads to. */
    const opened: string[] = [
      ...['/configs/new', '/prompts/new', '/nowhere', '/guardrails?new=1', '/limits?show=usage&new=1'],
      ...['/exports?new=1', '/settings?show=defaults', '/settings?show=workspace', '/workspaces?new=1'],
      ...['/keys?new=1', '/mcp?view=servers&new=1', '/?by=user'],
    ];
    /** What shows a text full of markup, or the text itself that is seeded. */
    const shows = new Map<string, string>(
      [
        ...['/logs', '/keys', '/configs', '/prompts', '/guardrails', '/integrations', '/secrets', '/people'],
        ...['/workspaces', '/feedback', '/audit', '/mcp', '/mcp?view=integrations', '/limits', '/exports'],
        ...['/limits?show=usage', '/limits?show=rates', '/providers', '/providers?view=keys'],
        ...['/prompts?view=partials', '/prompts?view=labels', '/prompts?view=collections'],
      ].map((path) => [path, markup]),
    );
    shows.set('/people?show=invites', 'bea@example.com');
    shows.set('/nowhere', 'There is no such page');

    before(async () => {
      const { workspace } = gateway;
      const post = (path: string, body: object): Promise<any> => gateway.api('POST', path, body);
      const name = `Name ${markup}`;
      const key = await post('/api-keys/workspace/service', {
        ...{ name, workspace_id: workspace, scopes: ['completions.write', 'prompts.create'] },
        usage_limits: { credit_limit: 5, type: 'cost' },
      });
      await post('/admin/workspaces', { name, description: markup });
      const ofMember = { role: 'member', workspaces: [{ id: workspace, role: 'member' }] };
      await post('/admin/users/invites', { email: 'bea@example.com', ...ofMember });
      const invite = await post('/admin/users/invites', { email: 'ann@example.com', ...ofMember });
      const token = invite.invite_link.split('#')[1];
      await post('/invites/accept', { token, first_name: markup, last_name: 'Lee' });
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
      // The audit trail names this key as the one that acts.
      const label = { name: 'staging', description: markup, workspace_id: workspace };
      await gateway.api('POST', '/labels', label, { 'x-service-api-key': key.key });
      const collection = await post('/collections', { name, workspace_id: workspace });
      const guardrail = await post('/guardrails', {
        name,
        checks: [{ id: 'default.contains', parameters: { words: [markup], operator: 'none' } }],
        actions: {},
      });
      const integration = await post('/integrations', {
        ...{ name, slug: 'marked', ai_provider_id: 'openai', key: 'sk-0123456789', description: markup },
      });
      await gateway.api('PUT', `/integrations/${integration.id}/workspaces`, {
        workspaces: [{ id: workspace, enabled: true }],
      });
      const virtualKey = await post('/virtual-keys', {
        ...{ name, slug: 'old', provider: 'openai', key: 'sk-0123456789', workspace_id: workspace },
      });
      const rules = { conditions: [{ key: 'metadata.team', value: markup }], group_by: [{ key: 'api_key' }] };
      const usage = await post('/policies/usage-limits', {
        ...{ name, ...rules, type: 'cost', credit_limit: 50, workspace_id: workspace },
      });
      const rate = await post('/policies/rate-limits', {
        ...{ name, ...rules, type: 'requests', unit: 'rpm', value: 100, workspace_id: workspace },
      });
      const tools = await post('/mcp-integrations', {
        ...{ name, url: 'https://tickets.example.com/mcp', auth_type: 'none', transport: 'http' },
      });
      await gateway.api('PUT', `/mcp-integrations/${tools.id}/workspaces`, {
        global_workspace_access: { enabled: true },
      });
      const server = await post('/mcp-servers', {
        ...{ name, slug: 'marked-server', mcp_integration_id: tools.id, workspace_id: workspace },
      });
      await post('/logs/exports', {
        ...{ workspace_id: workspace, filters: {}, description: markup, requested_data: ['id'] },
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
        ...[`/secrets?open=${secret.id}`, `/limits?show=usage&open=${usage.id}`],
        ...[`/limits?show=rates&open=${rate.id}`, `/mcp?view=servers&open=${server.id}`],
        ...[`/providers?view=keys&open=${virtualKey.id}`, `/prompts?view=collections&open=${collection.id}`],
        ...[...shows.keys()].filter((path) => !places.includes(path) && !opened.includes(path)),
      );
      shows.set('/traces', trace);
    });

    /** Visits each list; the places that refuse the caller. */
    const refusing = async (page: Page): Promise<readonly string[]> => {
      const refused: string[] = [];
      const change = /^(New|Edit|Delete|Archive|Revoke|Rotate|Create)\b/;
      await eachPlace([...new Set([...places, ...shows.keys()])], async (path) => {
        await walkTo(page, path);
        const main = page.getByRole('main');
        const no = main.getByText('no right to see this').or(main.getByText('holders of an owner’s key'));
        const seeded = shows.get(path);
        if (seeded !== undefined)
          await main.getByText(seeded).or(no).filter({ visible: true }).first().waitFor({ timeout: 8000 });
        if ((await no.count()) > 0) refused.push(path);
        assert.equal(await main.getByRole('button', { name: change }).count(), 0);
      });
      return refused;
    };
    /** What the gateway answers to a change that a script of the page asks for. */
    const forged = (page: Page): Promise<{ status: number; text: string }> =>
      page.evaluate(async (workspace) => {
        const begun = await fetch('/console/session');
        const { session } = (await begun.json()) as { readonly session: { readonly csrf: string } };
        const answer = await fetch('/v1/labels', {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-service-csrf': session.csrf },
          body: JSON.stringify({ name: 'forged', workspace_id: workspace }),
        });
        return { status: answer.status, text: await answer.text() };
      }, gateway.workspace);

    test('a key that only reads is shown each list and no control that changes it', async (t) => {
      const { scopes: all } = await gateway.api<{ scopes: readonly string[] }>('GET', '/me');
      const scopes = all.filter((scope) => /^(?!completions).*\.(list|read|view)$/.test(scope));
      const body = { name: 'reads', scopes };
      const { key } = await gateway.api('POST', '/api-keys/organisation/service', body);
      const page = await openWindow(t, gateway, { key, expected: /403/ });
      assert.deepEqual(await refusing(page), ['/exports', '/playground', '/start']);
      const { status, text } = await forged(page);
      assert.deepEqual([status, /prompts\.create/.test(text)], [403, true], text);
    });

    test('a member is shown what members may see, and refused elsewhere', async (t) => {
      const invite = await gateway.api('POST', '/admin/users/invites', {
        ...{ email: 'mel@example.com', role: 'member' },
        workspaces: [{ id: gateway.workspace, role: 'member' }],
        workspace_api_key_details: {
          scopes: ['logs.list', 'logs.view', 'configs.list', 'configs.read', 'prompts.list', 'prompts.read'],
        },
      });
      const token = new URL(invite.invite_link).hash.slice(1);
      const { api_keys: keys } = await gateway.api('POST', '/invites/accept', { token });
      const page = await openWindow(t, gateway, { key: keys[0].key, expected: /403/ });
      const refused = await refusing(page);
      const seen = places.filter((path) => !refused.includes(path));
      // Health and pipelines are open to everybody here: the file does not say `server.operations`.
      assert.deepEqual(seen, ['/', '/configs', '/health', '/logs', '/pipelines', '/prompts', '/traces']);
      const { status, text } = await forged(page);
      assert.deepEqual([status, /prompts\.create/.test(text)], [403, true], text);
    });

    test('nothing scrolls sideways, targets have 24 px, and what is cut is told whole', async (t) => {
      const page = await openWindow(t, gateway, { expected: /400.*configs\/explain/ });
      await eachPlace([...places, ...opened], async (path) => {
        await walkTo(page, path);
        for (const size of narrow) {
          await page.setViewportSize(size);
          assert.deepEqual(await misfits(page), [], `${size.width} px wide`);
        }
      });
    });

    for (const look of looks)
      test(`${look}: accessible, and all of it stays text`, async (t) => {
        // The sample request of a config without targets is refused.
        const page = await openWindow(t, gateway, { look, expected: /400.*configs\/explain/ });
        await eachPlace([...places, ...opened], async (path) => {
          await visits[look](page, path);
          const seeded = shows.get(path);
          if (seeded !== undefined)
            await page.getByText(seeded).filter({ visible: true }).first().waitFor({ timeout: 8000 });
          assert.equal(await page.locator('img[src="x"]').count(), 0, 'an image of the markup');
          assert.notEqual(await page.title(), 'owned');
          await assertAccessible(page);
        });
      });
  });
});
