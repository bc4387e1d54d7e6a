/** The console as a user has it: a gateway in a process of its own, and a real browser. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { freePort } from '../kit/free-port.ts';
import {
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const programs = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
/**
 * Parts of the browser beside the page: each window would start a process for the suggestions of its address bar, which
 * takes as long as a page. All but the last line is what playwright switches off itself; the last such list is the one that holds.
 */
const unused = [
  ...[
    'AvoidUnnecessaryBeforeUnloadCheckSync',
    'DestroyProfileOnBrowserClose',
    'HttpsUpgrades',
    'PaintHolding',
  ],
  ...['HttpsFirstBalancedModeAutoEnable', 'MediaRouter', 'OptimizationHints', 'NetworkTimeServiceQuerying'],
  ...['ThirdPartyStoragePartitioning', 'AimEnabled', 'PreconnectToSearch', 'LensOverlay'],
  ...['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'SpareRendererForSitePerProcess'],
];
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

/** The program that `WEIR_BROWSER` names, or Debian's; undefined when there is none. */
export function findBrowserProgram(): string | undefined {
  return process.env['WEIR_BROWSER'] ?? programs.find((one) => existsSync(one));
}

/** The same; throws when there is none. */
function browserProgram(): string {
  const program = findBrowserProgram();
  assert.ok(program, 'No Chromium is installed: apt-get install chromium, or name one in WEIR_BROWSER.');
  return program;
}

/** The one browser of this process; `closeBrowser` ends it. */
async function theBrowser(): Promise<Browser> {
  if ((await browser)?.isConnected() === false) browser = undefined;
  browser ??= chromium.launch({
    executablePath: browserProgram(),
    args: ['--no-sandbox', '--disable-dev-shm-usage', `--disable-features=${unused.join(',')}`],
  });
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

/** Names and texts full of it have to stay text. When it runs, the page's title is another. */
export const markup = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>';

/** A configuration, or what makes one for the port at the start. */
type ConsoleConfig = object | ((port: number) => object | Promise<object>);

/** A gateway with its console, in a process of its own. */
export class ConsoleGateway {
  readonly ownerKey: string = ownerKey;
  /** The id of the default workspace. */
  workspace = '';
  readonly #config: ConsoleConfig;
  #made: object | undefined;
  #weir: WeirProcess | undefined;
  /** Its data folder, which is there when the configuration is asked for. */
  data = '';
  #port: number | undefined;
  readonly #closers: (() => unknown)[] = [];

  constructor(config: ConsoleConfig) {
    this.#config = config;
  }

  get #running(): WeirProcess {
    assert.ok(this.#weir, 'The gateway runs while the tests do.');
    return this.#weir;
  }

  get url(): string {
    return this.#running.url;
  }

  get child(): ChildProcess {
    return this.#running.child;
  }

  /** Starts it; once more after `stop`, at the same address and with the data that it had. */
  async start(): Promise<void> {
    this.data ||= await temporaryFolder();
    this.#port ??= await freePort();
    // Once: it may start stores, which a gateway that starts again finds as they are.
    this.#made ??= typeof this.#config === 'function' ? await this.#config(this.#port) : this.#config;
    this.#weir = await startWeir({ yaml: this.#made, data: this.data, port: this.#port });
    this.workspace = (await this.api('GET', '/workspaces')).data[0].id;
  }

  async stop(): Promise<void> {
    await this.#running.stop();
  }

  /** What else the suite has to end at its end, such as a provider. */
  after(close: () => unknown): void {
    this.#closers.push(close);
  }

  /** Ends what `after` was given. */
  async close(): Promise<void> {
    for (const close of this.#closers) await close();
  }

  /** A request with the owner's key, below `/v1`; the answer's JSON. Fails unless the answer is a success. */
  async api<T = any>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<T> {
    const answer = await fetch(`${this.url}/v1${path}`, {
      method,
      headers: { 'x-service-api-key': ownerKey, 'content-type': 'application/json', ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text === '' ? 'null' : text);
  }

  /** Makes a service key of the default workspace. */
  async makeKey(
    name: string,
    scopes: readonly string[],
  ): Promise<{ readonly id: string; readonly key: string }> {
    return this.api('POST', '/api-keys/workspace/service', { name, scopes, workspace_id: this.workspace });
  }

  /** Somebody of this first name comes by an invite, and is a member of a workspace. Default: the default one. */
  async join(first: string, workspace = this.workspace): Promise<{ readonly id: string }> {
    const email = `${first.toLowerCase()}@example.com`;
    const { invite_link: link } = await this.api('POST', '/admin/users/invites', { email, role: 'member' });
    const token = new URL(link).hash.slice(1);
    const name = { first_name: first, last_name: 'Park' };
    const { user } = await this.api('POST', '/invites/accept', { token, ...name });
    const users = [{ id: user.id, role: 'member' }];
    await this.api('POST', `/admin/workspaces/${workspace}/users`, { users });
    return user;
  }

  /** How many entries of the audit trail say that this was done, to one resource or any. */
  async audited(type: string, action: string, id?: string): Promise<number> {
    const one = id === undefined ? '' : `&resource_id=${id}`;
    return (await this.api('GET', `/audit-logs?resource_type=${type}&action=${action}${one}`)).total;
  }

  /** Sends a chat, to the mock provider unless it says another. */
  async chat(
    content: string,
    {
      key = ownerKey,
      headers = {},
      body = {},
    }: { key?: string; headers?: Record<string, string>; body?: object } = {},
  ): Promise<Response> {
    return fetch(`${this.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-service-api-key': key, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content }], ...body }),
    });
  }

  /** Waits until the log holds so many requests of a filter. A store that has just started may refuse for a moment. */
  async untilLogged(count: number, filter = ''): Promise<void> {
    let last: unknown;
    await eventually(
      async () => {
        last = await this.api('GET', `/logs?include_total=true&page_size=1${filter}`).then(
          ({ total }) => total,
          String,
        );
        return last === count || undefined;
      },
      () => `${count} requests in the log; there are ${String(last)}`,
    );
  }
}

/** An entry of the log, as far as tests look at it. */
interface LoggedEntry {
  readonly id: string;
  readonly created_at: string;
  readonly metrics: { readonly cost: number; readonly metadata: Readonly<Record<string, string>> };
}

/** Each entry of the log from one moment to another, by pages; `filter` is more of the query. */
export async function loggedEntries(
  gateway: ConsoleGateway,
  { from, to, filter = '' }: { readonly from: number; readonly to: number; readonly filter?: string },
): Promise<readonly LoggedEntry[]> {
  const min = new Date(from).toISOString();
  const max = new Date(to).toISOString();
  const query = `time_of_generation_min=${min}&time_of_generation_max=${max}&page_size=200${filter}`;
  const found: LoggedEntry[] = [];
  let place = '';
  do {
    const { data, next_cursor: next } = await gateway.api('GET', `/logs?${query}${place}`);
    found.push(...data);
    place = next === null ? '' : `&cursor=${next}`;
  } while (place !== '');
  return found;
}

/**
 * Sample requests for a gateway that does not run yet, as `npm run seed:demo` makes them; `args` are its. Their owner's
 * key is that of the tests.
 */
export async function seedDemo(data: string, config: object, args: readonly string[]): Promise<void> {
  const file = path.join(await temporaryFolder(), 'gateway.config.yaml');
  await writeFile(file, JSON.stringify(config));
  const script = fileURLToPath(new URL('../../scripts/seed-demo.ts', import.meta.url));
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--import', 'tsx', script, '--config', file, '--data', data, ...args],
    { env: { ...process.env, WEIR_ADMIN_KEY: ownerKey }, encoding: 'utf8' },
  );
  assert.equal(status, 0, stderr);
}

let suitesLeft = 0;

/**
 * The gateway of a suite's tests: it starts before the first and ends after the last, and the browser after the last
 * suite of this process. Hooks that are registered earlier run before it starts, later ones when it runs.
 */
export function useConsole(config: ConsoleConfig = consoleConfig): ConsoleGateway {
  const gateway = new ConsoleGateway(config);
  suitesLeft += 1;
  before(async () => {
    buildConsole();
    await gateway.start();
  });
  after(async () => {
    suitesLeft -= 1;
    if (suitesLeft === 0) await closeBrowser();
    await stopEverything();
    await gateway.close();
  });
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
  // Without the form, which the tests of signing in fill in: most others begin with a session.
  if (key !== null) {
    const begun = await context.request.post('/console/session', { data: { credential: key } });
    assert.equal(begun.status(), 200, await begun.text());
  }
  await page.goto(place);
  if (key !== null) await page.getByRole('navigation').first().waitFor();
  return page;
}

/** Signs in with a key, in the form. */
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
      `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }).then((result) => result.violations)`,
    );
  const shown = found.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}\n${nodes.map((node) => `  ${node.html.slice(0, 200)}\n  ${node.failureSummary ?? ''}`).join('\n')}`,
  );
  assert.deepEqual(shown, [], `accessibility of ${page.url()}`);
}
