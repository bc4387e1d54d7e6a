import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { runtimeFlags } from '../runtime-flags.mjs';
import { benchKey } from './workload.ts';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(path.dirname(here));
/** Processes of the bench: sources, or compiled as the bench is (`scripts/bench.mjs`). */
const parts = {
  part: new URL('./part.ts', import.meta.url),
  'mcp-upstream': new URL('./mcp-upstream.ts', import.meta.url),
  asker: new URL('./asker.ts', import.meta.url),
  'window-asker': new URL('./window-asker.ts', import.meta.url),
};

/** Arguments of Node that run it. */
function partArguments(name: keyof typeof parts): string[] {
  const file = fileURLToPath(parts[name]);
  return file.endsWith('.ts') ? ['--import', 'tsx', file] : [file];
}

/** A gateway with new embedded stores, on a machine with other work. */
const startTimeoutMs = 180_000;

/** A process under measurement. */
export interface Subject {
  readonly name: string;
  readonly port: number;
  readonly child: ChildProcess;
  /** CPU time of the process so far in microseconds, user and system. */
  cpu(): Promise<number>;
  /** Resident memory in bytes. */
  memory(): Promise<number>;
  stop(): Promise<void>;
}

/** The provider of the bench, or its MCP server. */
export async function startUpstream(
  part: 'part' | 'mcp-upstream' = 'part',
): Promise<{ port: number; stop(): Promise<void> }> {
  const child = launch([...partArguments(part), 'upstream']);
  return { port: await announcedPort(child, /^port (\d+)/m), stop: () => end(child) };
}

/**
 * A client in a process of its own, so that its work does not delay the measured requests: asks for one path after the
 * other until it is stopped, which returns the number of answers. Rejects then when one was not 200.
 */
export async function startAsker(
  port: number,
  paths: readonly string[],
): Promise<{ stop(): Promise<number> }> {
  const child = launch([...partArguments('asker'), `http://127.0.0.1:${port}`, benchKey, ...paths]);
  await nextMessage(child);
  const counted = nextMessage(child);
  // It may reject before `stop` awaits it.
  counted.catch(() => undefined);
  return {
    stop() {
      if (child.connected) child.send('stop');
      return counted.then(Number);
    },
  };
}

/** What the process says next; rejects when it ends instead. */
export function nextMessage(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null): void =>
      reject(new Error(`The asking process ended with ${String(code)}.`));
    child.once('exit', ended);
    child.once('message', (message) => {
      child.off('exit', ended);
      resolve(message);
    });
  });
}

/** A process that asks what open windows of the console ask; see `window-asker.ts`. */
export function startWindowAsker(): ChildProcess {
  return launch(partArguments('window-asker'));
}

/** Start options that all kinds of subjects share. */
interface SubjectOptions {
  /** It answers questions of `memory-probe.mjs` over its IPC channel. */
  readonly memoryProbe?: boolean;
  /** It reports how long its event loop took no turn (`turn-probe.mjs`). */
  readonly turnProbe?: boolean;
  /** Processes of the bare proxy on one port. Default 1. */
  readonly processes?: number;
}

/** The yardstick proxy in front of the upstream. */
export async function startBare(upstreamPort: number, options: SubjectOptions = {}): Promise<Subject> {
  const child = launch([
    ...probeArguments(options),
    ...partArguments('part'),
    'bare',
    String(upstreamPort),
    String(options.processes ?? 1),
  ]);
  const port = await announcedPort(child, /^port (\d+)/m);
  const read = async (): Promise<{ cpu_us: number; rss: number }> =>
    (await (await fetch(`http://127.0.0.1:${port}/cpu`)).json()) as { cpu_us: number; rss: number };
  return {
    name: 'bare',
    port,
    child,
    cpu: async () => (await read()).cpu_us,
    memory: async () => (await read()).rss,
    stop: () => end(child),
  };
}

export interface WeirSubject extends Subject {
  readonly folder: string;
  readonly configFile: string;
  readonly dataFolder: string;
  metric(name: string): Promise<number>;
}

/** The whole first chain: auth, parameter check, three limit windows, provider, logger with bodies. */
export function benchConfig(upstreamPort: number, extraPlugins: readonly string[] = [], note = ''): string {
  return `# ${note}
version: 1
log: { level: warn }
providers:
  bench: { dialect: openai-chat, base_url: "http://127.0.0.1:${upstreamPort}/v1", service: openai }
pipelines:
  - name: admin
    match: { routes: contributed }
    plugins: [auth, management]
  - name: gateway
    match: { path: /** }
    plugins:
      - auth
      - request-parameters: { params: { blockedKeys: [logit_bias] } }
      - rate-limit: { requests_per_minute: 100000000, requests_per_hour: 100000000, requests_per_day: 100000000 }
${extraPlugins.map((line) => `      - ${line}\n`).join('')}      - provider
      - logger: { bodies: true }
`;
}

interface WeirOptions extends SubjectOptions {
  readonly upstreamPort: number;
  /** An existing folder from an earlier run; a new one is made otherwise. */
  readonly folder?: string;
  readonly config?: string;
  /** Instead of the flags with which the gateway is started. */
  readonly flags?: readonly string[];
  /** Instead of Node with these flags: another runtime, and its arguments before the file. */
  readonly runtime?: { readonly program: string; readonly args: readonly string[] };
}

/** The gateway itself, as `npm start` runs it, on a data folder of its own. */
export async function startWeir({
  upstreamPort,
  folder,
  config,
  flags = runtimeFlags,
  runtime,
  memoryProbe = false,
  turnProbe = false,
}: WeirOptions): Promise<WeirSubject> {
  const home = folder ?? (await mkdtemp(path.join(os.tmpdir(), 'weir-bench-')));
  const configFile = path.join(home, 'gateway.config.yaml');
  const dataFolder = path.join(home, 'data');
  await writeFile(configFile, config ?? benchConfig(upstreamPort));
  const args = [
    // For profiling: WEIR_BENCH_NODE_ARGS="--cpu-prof --cpu-prof-dir=DIR".
    ...(runtime === undefined
      ? [
          ...(process.env['WEIR_BENCH_NODE_ARGS']?.split(' ') ?? []),
          ...flags,
          ...probeArguments({ memoryProbe, turnProbe }),
          path.join(root, 'scripts', 'run.mjs'),
        ]
      : [...runtime.args, 'main.ts']),
    'start',
    '--config',
    configFile,
    '--port',
    '0',
    '--data',
    dataFolder,
  ];
  const child = launch(args, { WEIR_ADMIN_KEY: benchKey }, runtime?.program);
  const port = await announcedPort(child, /listens on http:\/\/127\.0\.0\.1:(\d+)/);
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const value = new RegExp(`^${name}(?:\\{[^}]*\\})? ([0-9.e+-]+)`, 'm').exec(text)?.[1];
    if (value === undefined) throw new Error(`The gateway exposes no metric ${name}.`);
    return Number(value);
  };
  return {
    name: 'weir',
    port,
    child,
    folder: home,
    configFile,
    dataFolder,
    metric,
    cpu: async () => (await metric('process_cpu_seconds_total')) * 1e6,
    memory: () => metric('process_resident_memory_bytes'),
    stop: () => end(child),
  };
}

/** Removes the data of a bench's gateway from disk. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
}

function probeArguments({ memoryProbe, turnProbe }: SubjectOptions): readonly string[] {
  if (turnProbe === true) return ['--import', pathToFileURL(path.join(here, 'turn-probe.mjs')).href];
  if (memoryProbe !== true) return [];
  return ['--expose-gc', '--import', pathToFileURL(path.join(here, 'memory-probe.mjs')).href];
}

function launch(
  args: readonly string[],
  extra: Record<string, string> = {},
  program = process.execPath,
): ChildProcess {
  return spawn(program, args, {
    cwd: root,
    env: { ...process.env, ...extra },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
}

function announcedPort(child: ChildProcess, pattern: RegExp): Promise<number> {
  return new Promise((resolve, reject) => {
    let output = '';
    const timer = setTimeout(() => {
      child.kill();
      reject(new Error(`A process of the bench did not start: ${output}`));
    }, startTimeoutMs);
    child.stdout?.on('data', (data: Buffer) => {
      output += data.toString();
      const port = pattern.exec(output)?.[1];
      if (port === undefined) return;
      clearTimeout(timer);
      resolve(Number(port));
    });
    child.once('exit', (code) => {
      clearTimeout(timer);
      reject(new Error(`A process of the bench ended with ${String(code)}: ${output}`));
    });
  });
}

function end(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) {
      resolve();
      return;
    }
    const force = setTimeout(() => child.kill('SIGKILL'), 20_000);
    child.once('exit', () => {
      clearTimeout(force);
      resolve();
    });
    child.kill('SIGTERM');
  });
}
