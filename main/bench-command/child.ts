import { type ChildProcess, spawn } from 'node:child_process';
import { childArguments } from '../../storage/embedded/supervised-child.ts';

/** Starts processes to measure. */
export const children = { launch, launchSelf, announced };

/** A process of the bench, in a process group of its own. */
export interface Child {
  readonly pid: number;
  /** The last kilobytes of its output. */
  output(): string;
  /** Resolves when it has ended, to how. */
  readonly ended: Promise<string>;
  /** Ends it and all that it has started, by SIGTERM first. */
  stop(): Promise<void>;
}

const keptCharacters = 8192;
/** Longest wait for an end by SIGTERM. */
const graceMs = 15_000;

interface LaunchOptions {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** It ends by itself when this process goes. */
  readonly tied?: boolean;
}

/** Starts a process. A program that cannot be run ends at once. */
function launch({ program, args, env, cwd, tied = false }: LaunchOptions): Child {
  const child = spawn(program, args, {
    // The terminal's Ctrl-C goes to this process alone, which ends the others in order.
    detached: true,
    env: { ...process.env, ...env },
    ...(cwd !== undefined && { cwd }),
    stdio: ['ignore', 'pipe', 'pipe', ...(tied ? (['ipc'] as const) : [])],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-keptCharacters);
    });
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(`it ended with ${String(code ?? signal)}`));
  });
  return { pid: child.pid ?? 0, output: () => output, ended, stop: () => stop(child, ended) };
}

async function stop(child: ChildProcess, ended: Promise<string>): Promise<void> {
  const { pid } = child;
  if (pid === undefined) return;
  const signal = (name: NodeJS.Signals): void => {
    try {
      process.kill(-pid, name);
    } catch {
      // Nothing is left of the group.
    }
  };
  signal('SIGTERM');
  const force = setTimeout(() => signal('SIGKILL'), graceMs);
  await ended;
  clearTimeout(force);
  signal('SIGKILL');
}

/** Starts this program again: another command of it, with the same flags of the runtime where `asServer`. */
function launchSelf(
  args: readonly string[],
  options: { readonly asServer: boolean; readonly env?: Readonly<Record<string, string>> },
): Child {
  const { asServer, env = {} } = options;
  const flags = asServer ? process.execArgv : childArguments(process.execArgv, undefined);
  const file = process.argv[1] as string;
  return launch({ program: process.execPath, args: [...flags, file, ...args], env, tied: !asServer });
}

/** The first group of the pattern in the output; rejects when the process ends before, or takes longer than `ms`. */
async function announced(child: Child, pattern: RegExp, name: string, ms: number): Promise<string> {
  let isOver = false;
  void child.ended.then(() => (isOver = true));
  const end = performance.now() + ms;
  for (;;) {
    const found = pattern.exec(child.output())?.[1];
    if (found !== undefined) return found;
    if (isOver) throw new Error(`${name} did not start: ${await child.ended}.${indented(child.output())}`);
    if (performance.now() > end)
      throw new Error(`${name} did not start within ${ms / 1000} s.${indented(child.output())}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function indented(output: string): string {
  const lines = output.trim().split('\n').slice(-20);
  return output.trim() === '' ? '' : `\n${lines.map((line) => `  ${line}`).join('\n')}`;
}
