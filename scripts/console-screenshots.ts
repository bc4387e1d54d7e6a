// `node --import tsx scripts/console-screenshots.ts`: pictures of the console's main pages for docs/console.md, light and
// dark, on a month of sample data.
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildConsole, closeBrowser, consoleConfig, openWindow } from '../tests/browser/console-kit.ts';
import { ownerKey, startWeir, stopEverything, temporaryFolder } from '../tests/kit/process-kit.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const target = path.join(root, 'docs', 'console');
const rows = '60000';

const folder = await temporaryFolder();
const config = path.join(folder, 'gateway.config.yaml');
const data = path.join(folder, 'data');
await writeFile(config, JSON.stringify(consoleConfig, null, 1));
const seed = ['--import', 'tsx', 'scripts/seed-demo.ts', '--rows', rows, '--config', config, '--data', data];
const seeded = spawnSync(process.execPath, seed, {
  cwd: root,
  env: { ...process.env, WEIR_ADMIN_KEY: ownerKey },
  stdio: ['ignore', 2, 2],
});
if (seeded.status !== 0) throw new Error('The sample data could not be written; the lines above say why.');
buildConsole();
const weir = await startWeir({ config, data });
const closers: (() => Promise<void>)[] = [];
try {
  const api = async (method: string, place: string, body?: object): Promise<Response> =>
    fetch(`${weir.url}/v1${place}`, {
      method,
      headers: { 'x-service-api-key': ownerKey, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  const content = 'Which rivers flow into the North Sea? Answer with three names.';
  const chat = { model: 'mock-gpt', messages: [{ role: 'user', content }] };
  const answered = await api('POST', '/chat/completions', chat);
  const log = answered.headers.get('x-service-request-id') ?? '';
  await answered.arrayBuffer();
  const { data: workspaces } = (await (await api('GET', '/workspaces')).json()) as { data: { id: string }[] };
  const made = await api('POST', '/configs', {
    workspace_id: workspaces[0]?.id,
    name: 'Cheap first',
    config: {
      strategy: { mode: 'fallback', on_status_codes: [429, 503] },
      targets: [
        { provider: 'mock', weight: 1, override_params: { model: 'mock-small' } },
        {
          strategy: { mode: 'loadbalance' },
          targets: [
            { provider: 'openai', weight: 3 },
            { provider: 'anthropic', weight: 1 },
          ],
        },
      ],
    },
  });
  const { data: saved } = (await made.json()) as { data?: { slug?: string } };
  await mkdir(target, { recursive: true });
  for (const look of ['light', 'dark'] as const) {
    const page = await openWindow(
      { after: (close) => void closers.push(close) },
      { url: weir.url, ownerKey },
      { look, expected: /.*/ },
    );
    for (const [name, place] of [
      ['home', '/console?range=30d'],
      ['logs', '/console/logs?range=30d'],
      ['request', `/console/logs/${log}`],
      ['config', `/console/configs/${saved?.slug ?? ''}`],
      ['playground', '/console/playground'],
    ] as const) {
      await page.goto(place);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.waitForLoadState('networkidle');
      await page.screenshot({ path: path.join(target, `${name}-${look}.png`), animations: 'disabled' });
    }
  }
} finally {
  for (const close of closers) await close();
  await closeBrowser();
  await stopEverything();
}
