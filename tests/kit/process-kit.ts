/** The product as a user runs it: `main.ts` in a process of its own, with files of its own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { engineOfProcess } from './processes.ts';
import { defaultRuntime, launcher, type Runtime } from './runtimes.ts';

/** The preset owner key of started processes. */
export const ownerKey = 'wk_test_0123456789abcdef';

const main = fileURLToPath(new URL('../../main.ts', import.meta.url));
/** Users start it with that. */
const run = fileURLToPath(new URL('../../scripts/run.mjs', import.meta.url));
/** So long a command may take, and a gateway run: under chaos it has to outlive a few timeouts. */
const commandMs = 120_000;
const gatewayMs = 600_000;

/** How a process that ended did so. */
interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** One process of the gateway. */
export interface WeirProcess {
  readonly child: ChildProcess;
  /** `http://127.0.0.1:PORT`. */
  readonly url: string;
  readonly port: number;
  stdout(): string;
  stderr(): string;
  /** Waits until the text is in standard error; fails after half a minute, showing what is. */
  untilStderr(text: string | RegExp): Promise<string>;
  /** Sends the signal (SIGTERM) and waits for the end. Harmless when it ended already. */
  stop(signal?: NodeJS.Signals): Promise<Ended>;
}

/** What a process is started with. */
interface WeirOptions {
  /** The configuration: YAML text, or a value that is written as JSON. Without it, `config` or none is used. */
  readonly yaml?: unknown;
  /** A configuration file that exists already. */
  readonly config?: string;
  /**
   * Data folder. Default: what the environment names, or a new temporary one. An embedded store that the configuration
   * names and that is not there is put there as a first start would make it, which takes seconds.
   */
  readonly data?: string;
  /** Working folder. Default: the temporary one. */
  readonly cwd?: string;
  /** Joined with the environment; undefined removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Default: what the environment names, or 0, a free one. */
  readonly port?: number;
  /** Default: Node, or what WEIR_TEST_RUNTIME names. */
  readonly runtime?: Runtime;
  /** Given the process before it listens, for a test that ends it there. */
  readonly onChild?: (child: ChildProcess) => void;
}

const temporary = new Set<string>();
const alive = new Set<ChildProcess>();
// A test runner that dies must not leave gateways behind.
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});

/** A new empty folder; `removeTemporary` deletes it. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'weir-test-'));
  temporary.add(folder);
  return folder;
}

/** Ends every process that is still there, and deletes the temporary folders; for `after`. */
export async function stopEverything(): Promise<void> {
  const ending = [...alive].map(async (child) => {
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  await Promise.all(ending);
  for (const folder of temporary) {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
  temporary.clear();
}

/** Runs `weir …` to its end. It is killed when it does not end in two minutes. */
export async function runWeir(
  args: readonly string[],
  { cwd, env, runtime }: Pick<WeirOptions, 'cwd' | 'env' | 'runtime'> = {},
): Promise<Ended> {
  return launch(args, { cwd: cwd ?? (await temporaryFolder()), env, runtime }, commandMs).ended;
}

/**
 * The same configuration without a store for administration, unless it names one: opening one takes seconds, and few
 * tests look at it. No line moves.
 */
export function withoutAdministration(text: string): string {
  if (/\bresources\b/.test(text)) return text;
  const none = 'resources: { url: "none:" }';
  if (/^\s*"storage": \{/m.test(text))
    return text.replace(/"storage": \{/, `"storage": { "resources": { "url": "none:" },`);
  if (text.startsWith('{')) return text.replace('{', '{ "storage": { "resources": { "url": "none:" } },');
  if (/^storage: \{/m.test(text)) return text.replace(/^storage: \{/m, `storage: { ${none},`);
  return /^storage:/m.test(text) ? text : `${text.trimEnd()}\nstorage: { ${none} }\n`;
}

/** Starts `weir start` and waits until it listens. Fails with its output when it ends before that. */
export async function startWeir(options: WeirOptions = {}): Promise<WeirProcess> {
  const folder = await temporaryFolder();
  const args = ['start'];
  const { data, port: asked, env: given } = options;
  if (data !== undefined || given?.['WEIR_DATA'] === undefined) {
    args.push('--data', data ?? path.join(folder, 'data'));
  }
  if (asked !== undefined || given?.['PORT'] === undefined) args.push('--port', String(asked ?? 0));
  let file = options.config;
  if (options.yaml !== undefined) {
    file = path.join(folder, 'gateway.config.yaml');
    const text = typeof options.yaml === 'string' ? options.yaml : JSON.stringify(options.yaml, null, 1);
    await writeFile(file, withoutAdministration(text));
  }
  const store = path.join(data ?? given?.['WEIR_DATA'] ?? path.join(folder, 'data'), 'resources');
  const text = file === undefined ? '' : await readFile(file, 'utf8').catch(() => '');
  if (/["' ]pglite:["'\s,}]/.test(text) && !existsSync(store))
    await (await import('./made-stores.ts')).copyMigratedStore(store);
  if (file !== undefined) args.push('--config', file);
  // No balancer stands before it, unless a test puts one there.
  const env = { WEIR_ADMIN_KEY: ownerKey, WEIR_DRAIN_DELAY_MS: '0', ...options.env };
  const { child, output, ended } = launch(
    args,
    { cwd: options.cwd ?? folder, env, runtime: options.runtime },
    gatewayMs,
  );
  options.onChild?.(child);
  const port = await new Promise<number>((resolve, reject) => {
    const look = (): void => {
      const found = /listens on http:\/\/127\.0\.0\.1:(\d+)[^\d][\s\S]*\n/.exec(output.stdout);
      if (found) resolve(Number(found[1]));
    };
    child.stdout?.on('data', look);
    void ended.then((end) =>
      reject(
        new Error(`It ended with ${end.code ?? end.signal} before it listened:\n${end.stdout}${end.stderr}`),
      ),
    );
  });
  return {
    child,
    port,
    url: `http://127.0.0.1:${port}`,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    async untilStderr(text) {
      const has = (): boolean =>
        typeof text === 'string' ? output.stderr.includes(text) : text.test(output.stderr);
      await eventually(
        () => has() || undefined,
        () => `${text} in standard error, which is:\n${output.stderr}`,
      );
      return output.stderr;
    },
    async stop(signal = 'SIGTERM') {
      child.kill(signal);
      return ended;
    },
  };
}

function launch(
  args: readonly string[],
  { cwd, env: given = {}, runtime = defaultRuntime }: Pick<WeirOptions, 'cwd' | 'env' | 'runtime'>,
  longestMs: number,
) {
  const env: NodeJS.ProcessEnv = { ...process.env, ...given };
  // What the shell of the tests happens to hold must not decide.
  for (const name of ['WEIR_CONFIG', 'WEIR_DATA', 'PORT', 'NODE_TEST_CONTEXT', 'NODE_OPTIONS']) {
    if (given[name] === undefined) delete env[name];
  }
  for (const [name, value] of Object.entries(given)) if (value === undefined) delete env[name];
  const { program, args: before } = launcher(runtime);
  const child = spawn(program, [...(runtime === 'node' ? [run] : [...before, main]), ...args], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  alive.add(child);
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const timer = setTimeout(() => {
    output.stderr += `\nThe tests killed it: it ran for longer than ${longestMs / 1000} seconds.\n`;
    child.kill('SIGKILL');
  }, longestMs);
  const ended = new Promise<Ended>((resolve) => {
    child.once('exit', () => alive.delete(child));
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, ...output });
    });
  });
  return { child, output, ended };
}

/** Tries until there is a value; fails after half a minute with what was expected. */
export async function eventually<Value>(
  attempt: () => Value | undefined | Promise<Value | undefined>,
  expected: () => string = () => 'what was waited for',
  withinMs = 30_000,
): Promise<Value> {
  const end = performance.now() + withinMs;
  for (;;) {
    const value = await attempt();
    if (value !== undefined) return value;
    if (performance.now() > end) throw new Error(`Never came: ${expected()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The process of a gateway's analytics engine, or of its embedded relational store. Linux only. */
export async function engineOf(
  { child }: WeirProcess,
  program: Parameters<typeof engineOfProcess>[1] = 'chdb-child',
): Promise<number> {
  return eventually(() => engineOfProcess(child.pid ?? 0, program));
}

/** The sum of a metric over its series, of a text of /metrics, whose labels contain the other text. */
export function sumOfSeries(metrics: string, name: string, label = ''): number {
  return metrics
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) && line.includes(label))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
