import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ownerKey, startWeir, withoutAdministration } from './process-kit.ts';

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
      await writeFile(`${file}.new`, name === 'gateway.config.yaml' ? withoutAdministration(text) : text);
      await rename(`${file}.new`, file);
      return file;
    },
    async remove() {
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
  await home.write('gateway.config.yaml', config);
  return home;
}

/** An answer, read to its end. */
interface Answered {
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
  readonly pid: number;
  /** Everything that it has written to standard error so far. */
  readonly stderr: string;
  /** Sends a request and resolves with the head of the answer. */
  open(asking?: Asking): Promise<Response>;
  ask(asking?: Asking): Promise<Answered>;
  /** The page /status. */
  status(): Promise<Record<string, unknown>>;
  /** Ends it with SIGTERM and resolves to its exit code. */
  stop(): Promise<number | null>;
  /** Ends it with SIGKILL. */
  kill(): Promise<void>;
}

/** Starts the gateway on a free port and resolves when it listens; rejects with its output when it ends before. */
export async function startGateway(home: Home): Promise<GatewayProcess> {
  const weir = await startWeir({ config: home.configFile, data: home.data });
  const open = (asking: Asking = {}): Promise<Response> =>
    fetch(`${weir.url}/v1${asking.path ?? '/chat/completions'}`, init(asking));
  return {
    url: weir.url,
    pid: weir.child.pid ?? 0,
    get stderr() {
      return weir.stderr();
    },
    open,
    async ask(asking) {
      const response = await open(asking);
      return { status: response.status, headers: response.headers, text: await response.text() };
    },
    status: async () => (await (await fetch(`${weir.url}/status`)).json()) as Record<string, unknown>,
    stop: async () => (await weir.stop()).code,
    kill: async () => void (await weir.stop('SIGKILL')),
  };
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

/** The text that a stream of chat completions adds up to (first choices only). */
export function saidBy(stream: string): string {
  return [...stream.matchAll(/^data: (\{.*)$/gm)]
    .map(([, json = '']) => (JSON.parse(json) as Chunk).choices[0]?.delta.content ?? '')
    .join('');
}

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string | null } }[];
}
