import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** The project's folder. */
export const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
/** The owner key that every gateway of these tests starts with. */
export const ownerKey = 'wk_test_0123456789abcdef';

const startTimeoutMs = 30_000;
const stopTimeoutMs = 20_000;

/** A folder with a configuration in it; the gateway's data go below it. */
export interface Home {
  readonly folder: string;
  readonly configFile: string;
  readonly data: string;
  /** Writes a file below the folder as editors do it: a new one renamed over the old one. Returns its absolute name. */
  write(name: string, text: string): Promise<string>;
  remove(): Promise<void>;
}

/** Makes a temporary folder outside of the project with this configuration. */
export async function makeHome(config: string): Promise<Home> {
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-e2e-'));
  const home: Home = {
    folder,
    configFile: path.join(folder, 'gateway.config.yaml'),
    data: path.join(folder, 'data'),
    async write(name, text) {
      const file = path.join(folder, name);
      await writeFile(`${file}.new`, text);
      await rename(`${file}.new`, file);
      return file;
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
  await home.write('gateway.config.yaml', config);
  return home;
}

/** An answer, read to its end. */
export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** What a request says; the defaults make it a chat with the mock provider that says Hello. */
export interface Asking {
  readonly path?: string;
  readonly content?: string;
  readonly model?: string;
  readonly stream?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Readonly<Record<string, unknown>>;
}

/** A gateway that runs in a process of its own. */
export interface GatewayProcess {
  readonly url: string;
  readonly child: ChildProcess;
  /** Everything that it has written to standard error so far. */
  readonly stderr: string;
  /** Sends a request and resolves with the head of the answer. */
  open(asking?: Asking): Promise<Response>;
  ask(asking?: Asking): Promise<Answered>;
  /** The page /status. */
  status(): Promise<Record<string, unknown>>;
  /** Ends it with SIGTERM and resolves to its exit code; null when it had to be killed. */
  stop(): Promise<number | null>;
  /** Ends it with SIGKILL. */
  kill(): Promise<void>;
}

/** Starts the gateway on a free port and resolves when it listens; rejects with its output when it ends before. */
export async function startGateway(home: Home): Promise<GatewayProcess> {
  const args = ['start', '--config', home.configFile, '--port', '0', '--data', home.data];
  const child = spawn(process.execPath, ['--import', 'tsx', path.join(root, 'main.ts'), ...args], {
    cwd: root,
    env: { ...process.env, WEIR_ADMIN_KEY: ownerKey },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const url = await listening(child, () => stderr);
  const open = (asking: Asking = {}): Promise<Response> => fetch(`${url}/v1${pathOf(asking)}`, init(asking));
  const ended = once(child, 'exit');
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    child.kill(signal);
    const force = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs);
    await ended;
    clearTimeout(force);
    return child.exitCode;
  };
  return {
    url,
    child,
    get stderr() {
      return stderr;
    },
    open,
    async ask(asking) {
      const response = await open(asking);
      return { status: response.status, headers: response.headers, text: await response.text() };
    },
    status: async () => (await (await fetch(`${url}/status`)).json()) as Record<string, unknown>,
    stop: () => end('SIGTERM'),
    kill: async () => void (await end('SIGKILL')),
  };
}

function pathOf({ path: asked = '/chat/completions' }: Asking): string {
  return asked;
}

function init({ content = 'Hello', model = 'mock-gpt', stream = false, headers, body }: Asking): RequestInit {
  const chat = { model, messages: [{ role: 'user', content }], ...(stream ? { stream } : {}) };
  return {
    method: 'POST',
    headers: {
      'x-service-api-key': ownerKey,
      'x-service-provider': 'mock',
      'content-type': 'application/json',
      ...headers,
    },
    body: JSON.stringify(body ?? chat),
    signal: AbortSignal.timeout(30_000),
  };
}

function listening(child: ChildProcess, stderr: () => string): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = '';
    const fail = (what: string): void => {
      clearTimeout(timer);
      child.kill('SIGKILL');
      reject(new Error(`The gateway ${what}: ${output}${stderr()}`));
    };
    const timer = setTimeout(() => fail('did not start in time'), startTimeoutMs);
    child.once('exit', (code) => fail(`ended with ${String(code)}`));
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      const url = /listens on (http:\/\/127\.0\.0\.1:\d+)/.exec(output)?.[1];
      if (url === undefined) return;
      clearTimeout(timer);
      child.removeAllListeners('exit');
      resolve(url);
    });
  });
}

/** Asks until the answer is a value; fails with `what` when there is none within some seconds. */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 8000,
): Promise<T> {
  for (const end = Date.now() + timeoutMs; ;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    if (Date.now() > end) throw new Error(`This did not happen within ${timeoutMs} ms: ${what}`);
    await pause(25);
  }
}
