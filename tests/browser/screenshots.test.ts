// The console's main pages on a month of sample data, in both looks. `scripts/console-screenshots.ts` keeps the pictures.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { ownerKey, temporaryFolder } from '../kit/process-kit.ts';
import { consoleConfig, openWindow, useConsole } from './console-kit.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** Where the pictures are kept; without it they are looked at and forgotten. */
const kept = process.env['WEIR_PICTURES'];
const rows = kept === undefined ? '3000' : '60000';
/** A picture of an empty page of this size has less. */
const leastBytes = 20_000;
const content = 'Which rivers flow into the North Sea? Answer with three names.';

describe('pictures of the console', () => {
  const gateway = useConsole(async () => {
    const config = path.join(await temporaryFolder(), 'gateway.config.yaml');
    await writeFile(config, JSON.stringify(consoleConfig));
    const { status, stderr } = spawnSync(
      process.execPath,
      [
        ...['--import', 'tsx', 'scripts/seed-demo.ts', '--rows', rows],
        ...['--config', config, '--data', gateway.data],
      ],
      { cwd: root, env: { ...process.env, WEIR_ADMIN_KEY: ownerKey }, encoding: 'utf8' },
    );
    assert.equal(status, 0, stderr);
    return consoleConfig;
  });
  let folder = '';
  let log = '';
  let config = '';
  before(async () => {
    folder = kept ?? (await temporaryFolder());
    await mkdir(folder, { recursive: true });
    const answer = await gateway.chat(content);
    await answer.text();
    log = answer.headers.get('x-service-request-id') ?? '';
    const targets = [
      { provider: 'openai', weight: 3 },
      { provider: 'anthropic', weight: 1 },
    ];
    const made = await gateway.api('POST', '/configs', {
      workspace_id: gateway.workspace,
      name: 'Cheap first',
      config: {
        strategy: { mode: 'fallback', on_status_codes: [429, 503] },
        targets: [
          { provider: 'mock', weight: 1, override_params: { model: 'mock-small' } },
          { strategy: { mode: 'loadbalance' }, targets },
        ],
      },
    });
    config = made.data.slug;
  });

  /** Each page, with what is there when its data is drawn. */
  const pages: readonly [name: string, place: () => string, drawn: (page: Page) => Promise<void>][] = [
    [
      'home',
      () => '?range=30d',
      (page) => page.getByRole('table', { name: /^By / }).locator('tbody tr').nth(2).waitFor(),
    ],
    [
      'logs',
      () => '/logs?range=30d',
      (page) => page.getByRole('table', { name: 'Requests' }).locator('[data-row]').nth(9).waitFor(),
    ],
    [
      'request',
      () => `/logs/${log}`,
      (page) => page.getByRole('article').getByText(content).first().waitFor(),
    ],
    [
      'config',
      () => `/configs/${config}`,
      (page) => page.getByRole('textbox', { name: 'Config as JSON' }).getByText('loadbalance').waitFor(),
    ],
    ['playground', () => '/playground', (page) => page.getByLabel('Text 1').waitFor()],
  ];

  for (const look of ['light', 'dark'] as const)
    test(`the main pages, ${look}, are drawn with their data`, async (t) => {
      // The sample config has no credentials for two of its providers, which its explanation is refused for.
      const page = await openWindow(t, gateway, { look, expected: /status of 400/ });
      for (const [name, place, drawn] of pages) {
        await page.goto(`/console${place()}`);
        await drawn(page);
        await page.waitForLoadState('networkidle');
        const picture = path.join(folder, `${name}-${look}.png`);
        await page.screenshot({ path: picture, animations: 'disabled' });
        assert.ok((await stat(picture)).size > leastBytes, picture);
      }
    });
});
