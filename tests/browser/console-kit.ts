/** The console as a user has it: a gateway in a process of its own, and a real browser. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { ownerKey, startWeir, type WeirProcess } from '../kit/process-kit.ts';

const programs = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
/** Time for each step of a page; the machine may be busy. */
const stepMs = 20_000;

/** The pipelines of the default file, with a store for administration. */
export const consoleConfig = {
  version: 1,
  pipelines: [
    { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    { name: 'console', match: { path: '/console/**' }, plugins: ['console'] },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: [
        'auth',
        ...['prompts', 'policies', 'guardrails', { cache: { mode: 'config' } }, 'mcp'],
        { provider: { default: 'mock' } },
        { logger: { bodies: true } },
      ],
    },
  ],
  storage: { resources: { url: 'pglite:' }, journal: { ship_ms: 100 } },
};

let browser: Promise<Browser> | undefined;

/** The one browser of this process; `closeBrowser` ends it. */
async function theBrowser(): Promise<Browser> {
  const program = process.env['WEIR_BROWSER'] ?? programs.find((one) => existsSync(one));
  assert.ok(program, 'No Chromium is installed: apt-get install chromium, or name one in WEIR_BROWSER.');
  browser ??= chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  return browser;
}

export async function closeBrowser(): Promise<void> {
  await (await browser)?.close();
  browser = undefined;
}

/** Builds the pages when they are not the build of their sources. */
export function buildConsole(): void {
  const script = fileURLToPath(new URL('../../scripts/build-console.mjs', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8', timeout: 300_000 });
  assert.equal(status, 0, stderr);
}

/** A gateway with its console. */
export interface ConsoleGateway extends Pick<WeirProcess, 'url' | 'stop' | 'child'> {
  readonly ownerKey: string;
  /** A request with the owner's key, below `/v1`; the answer's JSON. Fails unless the answer is a success. */
  api<T = any>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<T>;
  /** Makes a service key of the default workspace. */
  makeKey(name: string, scopes: readonly string[]): Promise<{ readonly id: string; readonly key: string }>;
  /** Sends a chat to the mock provider and resolves to its status. */
  chat(
    content: string,
    options?: { key?: string; headers?: Record<string, string>; body?: object },
  ): Promise<Response>;
}

export async function startConsole(config: object = consoleConfig, port?: number): Promise<ConsoleGateway> {
  buildConsole();
  const weir = await startWeir({
    yaml: JSON.stringify(config, null, 1),
    ...(port !== undefined && { port }),
  });
  const gateway: ConsoleGateway = {
    ...weir,
    ownerKey,
    async makeKey(name, scopes) {
      const { data } = await gateway.api('GET', '/workspaces');
      const body = { name, scopes, workspace_id: data[0].id };
      return gateway.api('POST', '/api-keys/workspace/service', body);
    },
    async api(method, path, body, headers = {}) {
      const answer = await fetch(`${weir.url}/v1${path}`, {
        method,
        headers: { 'x-service-api-key': ownerKey, 'content-type': 'application/json', ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
      return text === '' ? undefined : JSON.parse(text);
    },
    chat: (content, { key = ownerKey, headers = {}, body = {} } = {}) =>
      fetch(`${weir.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'x-service-api-key': key, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content }], ...body }),
      }),
  };
  return gateway;
}

/** How a window is opened. */
interface WindowOptions {
  /** Signs in with it. Default: the owner's key; null: signed out. */
  readonly key?: string | null;
  readonly look?: 'light' | 'dark';
  /** Errors in the browser's console that a test provokes. */
  readonly expected?: RegExp;
  /** Where it begins. Default: the home page. */
  readonly place?: string;
}

/**
 * A window of a user of their own, at the home page. At the end of the test it fails when the browser's console had an
 * error, or a page threw.
 */
export async function openWindow(
  t: { after(close: () => Promise<void>): void },
  { url, ownerKey: owner }: Pick<ConsoleGateway, 'url' | 'ownerKey'>,
  { key = owner, look = 'light', expected, place = '/console' }: WindowOptions = {},
): Promise<Page> {
  const context: BrowserContext = await (
    await theBrowser()
  ).newContext({
    colorScheme: look,
    viewport: { width: 1400, height: 900 },
    permissions: ['clipboard-read', 'clipboard-write'],
    baseURL: url,
  });
  context.setDefaultTimeout(stepMs);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('console', (message) => {
    const text = `${message.text()} (${message.location().url})`;
    if (message.type() === 'error' && expected?.test(text) !== true) errors.push(text);
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  t.after(async () => {
    await context.close();
    assert.deepEqual(errors, [], 'errors in the console of the browser');
  });
  await page.goto(place);
  if (key !== null) await signIn(page, key);
  return page;
}

/** Signs in with a key. */
export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('Service key').fill(key);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('navigation').first().waitFor();
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Fails when the page breaks a rule of WCAG 2.2 AA that a program can see. */
export async function assertAccessible(page: Page): Promise<void> {
  // Injected by the debugger, which the page's content security policy does not concern.
  await page.evaluate(`${axe}; undefined`);
  const found: { id: string; help: string; nodes: { html: string; failureSummary?: string }[] }[] =
    await page.evaluate(
      `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] }).then((result) => result.violations)`,
    );
  const shown = found.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}\n${nodes.map((node) => `  ${node.html.slice(0, 200)}\n  ${node.failureSummary ?? ''}`).join('\n')}`,
  );
  assert.deepEqual(shown, [], `accessibility of ${page.url()}`);
}
