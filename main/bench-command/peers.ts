import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { PeerName } from '../../core/administration/cli/bench-arguments.ts';
import { messageOf } from '../../core/errors/gateway-error.ts';
import { ask } from './load.ts';
import { type Child, children } from './child.ts';
import { createServer } from 'node:net';

/** Another gateway, as a row of data: configured as the start page of its documentation does it, with one provider. */
interface Peer {
  readonly name: PeerName;
  readonly title: string;
  /** The installed program; undefined when there is none. */
  find(): Promise<Program | undefined>;
  /** How it is installed, for who wants it in the table. */
  readonly install: string;
  /** Arguments, with its file or folder of configuration and a port. */
  args(place: Place): readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Its configuration; undefined when requests carry it. */
  config?(place: Place): { readonly file: string; readonly text: string };
  /** Header lines of a request. */
  headers(upstream: string): readonly string[];
  /** Model of a request. */
  readonly model: string;
}

interface Place {
  readonly folder: string;
  readonly port: number;
  /** Address of the stand-in, with `/v1`. */
  readonly upstream: string;
}

interface Program {
  readonly program: string;
  readonly args: readonly string[];
  readonly version: string | undefined;
}

const run = promisify(execFile);
const versionMs = 30_000;
/** A gateway in Python takes long on a busy machine. */
const startMs = 120_000;
const askMs = 10_000;
const model = 'gpt-4o-mini';
const key = 'sk-bench-0123456789';
const bearer = `authorization: Bearer ${key}`;

const peers: readonly Peer[] = [
  {
    name: 'portkey',
    title: 'Portkey gateway',
    install: 'npm install @portkey-ai/gateway, in the working folder or with -g',
    find: findPortkey,
    args: ({ port }) => ['--headless', `--port=${port}`],
    headers: (upstream) => ['x-portkey-provider: openai', `x-portkey-custom-host: ${upstream}`, bearer],
    model,
  },
  {
    name: 'litellm',
    title: 'LiteLLM proxy',
    install: "pip install 'litellm[proxy]', with litellm on the PATH",
    find: () => onPath('litellm', ['--version']),
    args: ({ folder, port }) => [
      ...['--config', path.join(folder, 'config.yaml'), '--host', '127.0.0.1'],
      ...['--port', String(port), '--num_workers', '1'],
    ],
    // Prices come with the package: it asks no other host at its start.
    env: { LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR' },
    config: ({ upstream }) => ({
      file: 'config.yaml',
      text: JSON.stringify({
        model_list: [
          {
            model_name: model,
            litellm_params: { model: `openai/${model}`, api_base: upstream, api_key: 'sk-bench' },
          },
        ],
        litellm_settings: { telemetry: false },
        general_settings: { master_key: key },
      }),
    }),
    headers: () => [bearer],
    model,
  },
  {
    name: 'bifrost',
    title: 'Bifrost',
    install: 'bifrost-http on the PATH',
    find: () => onPath('bifrost-http'),
    args: ({ folder, port }) => ['-app-dir', folder, '-host', '127.0.0.1', '-port', String(port)],
    config: ({ upstream }) => ({
      file: 'config.json',
      text: JSON.stringify({
        config_store: { enabled: false },
        client: { enable_logging: false },
        providers: {
          openai: {
            keys: [{ name: 'bench', value: 'sk-bench', models: ['*'], weight: 1 }],
            // It adds /v1 itself.
            network_config: { base_url: upstream.replace(/\/v1$/, '') },
          },
        },
      }),
    }),
    headers: () => [],
    model: `openai/${model}`,
  },
  {
    name: 'agentgateway',
    title: 'agentgateway',
    install: 'agentgateway on the PATH',
    find: () => onPath('agentgateway', ['--version']),
    args: ({ folder }) => ['-f', path.join(folder, 'config.yaml')],
    config: ({ port, upstream }) => ({
      file: 'config.yaml',
      text: JSON.stringify({
        llm: {
          port,
          models: [
            { name: model, provider: 'openAI', params: { model, apiKey: 'sk-bench', baseUrl: upstream } },
          ],
        },
      }),
    }),
    headers: () => [],
    model,
  },
];

/** A peer that answers. */
interface StartedPeer {
  readonly name: PeerName;
  readonly title: string;
  readonly version: string | undefined;
  readonly port: number;
  readonly child: Child;
  readonly headers: readonly string[];
  readonly model: string;
}

/** A peer without figures, and why. */
interface AbsentPeer {
  readonly name: PeerName;
  readonly title: string;
  readonly reason: string;
}

interface PeersOptions {
  /** Undefined: those that are installed. */
  readonly wanted: readonly PeerName[] | undefined;
  /** A folder for their configurations. */
  readonly folder: string;
  readonly upstream: string;
  readonly signal: AbortSignal;
  /** Takes what ends the process, before anything else is done with it. */
  readonly own: (stop: () => Promise<void>) => void;
  readonly tell: (line: string) => void;
  /** The question that a peer has to answer with 200. */
  readonly questionOf: (peer: Omit<StartedPeer, 'child' | 'version'>) => Buffer;
}

/** Starts the peers one after the other. One that does not start or refuses the question is told as absent. */
export async function startPeers(
  options: PeersOptions,
): Promise<{ readonly started: readonly StartedPeer[]; readonly absent: readonly AbsentPeer[] }> {
  const { wanted, signal, tell } = options;
  const started: StartedPeer[] = [];
  const absent: AbsentPeer[] = [];
  for (const peer of peers) {
    if (wanted !== undefined && !wanted.includes(peer.name)) continue;
    signal.throwIfAborted();
    const { name, title, install } = peer;
    const found = await peer.find();
    if (found === undefined) {
      absent.push({ name, title, reason: `not installed (${install})` });
      continue;
    }
    tell(`Starting ${title} …`);
    try {
      started.push(await start(peer, found, options));
    } catch (error) {
      signal.throwIfAborted();
      absent.push({ name, title, reason: messageOf(error) });
    }
  }
  return { started, absent };
}

async function start(peer: Peer, found: Program, options: PeersOptions): Promise<StartedPeer> {
  const { upstream, own, questionOf, signal } = options;
  const folder = path.join(options.folder, peer.name);
  await mkdir(folder, { recursive: true });
  const place = { folder, upstream, port: await freePort() };
  const config = peer.config?.(place);
  if (config !== undefined) await writeFile(path.join(folder, config.file), config.text, { mode: 0o600 });
  const { program, args } = found;
  const env = peer.env ?? {};
  const child = children.launch({ program, args: [...args, ...peer.args(place)], env, cwd: folder });
  own(() => child.stop());
  const { name, title, model: named } = peer;
  const told = { name, title, port: place.port, headers: peer.headers(upstream), model: named };
  try {
    await untilAnswering(child, place.port, questionOf(told), signal);
  } catch (error) {
    await child.stop();
    throw error;
  }
  return { ...told, version: found.version, child };
}

/** Asks until the answer is 200; rejects with the last reason when the process ends or its time is over. */
async function untilAnswering(
  child: Child,
  port: number,
  question: Buffer,
  signal: AbortSignal,
): Promise<void> {
  let how: string | undefined;
  void child.ended.then((ended) => (how = ended));
  const end = performance.now() + startMs;
  let last = '';
  while (how === undefined && performance.now() < end) {
    signal.throwIfAborted();
    try {
      const answer = await ask(port, question, askMs);
      if (/^HTTP\/1\.1 200/.test(answer)) return;
      last = `it answers ${answer.slice(9, 12)}: ${oneLine(answer.slice(answer.indexOf('\r\n\r\n')))}`;
      // A refusal does not go away, other than the answers of a start.
      if (/^HTTP\/1\.1 4(?!04|08|25|29)/.test(answer)) break;
    } catch (error) {
      last = messageOf(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  if (how !== undefined) last = `${how}: ${oneLine(child.output().slice(-400))}`;
  throw new Error(`does not serve: ${last}`);
}

function oneLine(text: string): string {
  const line = text
    .split('\n')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .join(' ');
  return line.length > 300 ? `${line.slice(0, 299)}…` : line;
}

async function findPortkey(): Promise<Program | undefined> {
  const inside = path.join('@portkey-ai', 'gateway');
  const folders: string[] = [];
  for (let folder = process.cwd(); ; folder = path.dirname(folder)) {
    folders.push(path.join(folder, 'node_modules', inside));
    if (path.dirname(folder) === folder) break;
  }
  const entry = (folder: string): string => path.join(folder, 'build', 'start-server.js');
  let found = folders.find((folder) => existsSync(entry(folder)));
  if (found === undefined) {
    const root = await run('npm', ['root', '-g'], { timeout: versionMs }).catch(() => undefined);
    const general = root && path.join(root.stdout.trim(), inside);
    if (general !== undefined && existsSync(entry(general))) found = general;
  }
  if (found === undefined) return undefined;
  const { version } = JSON.parse(await readFile(path.join(found, 'package.json'), 'utf8')) as {
    readonly version?: string;
  };
  return { program: process.execPath, args: [entry(found)], version };
}

async function onPath(name: string, versionArgs?: readonly string[]): Promise<Program | undefined> {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter).filter((folder) => folder !== '');
  const program = folders.map((folder) => path.resolve(folder, name)).find((file) => existsSync(file));
  if (program === undefined) return undefined;
  const told =
    versionArgs && (await run(program, [...versionArgs], { timeout: versionMs }).catch(() => undefined));
  const version = /\d+\.\d+[0-9A-Za-z.+-]*/.exec(`${told?.stdout ?? ''} ${told?.stderr ?? ''}`)?.[0];
  return { program, args: [], version };
}

/** A port of loopback that is free now. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject).listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' ? (address?.port ?? 0) : 0));
    });
  });
}
