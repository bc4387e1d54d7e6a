import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { childArguments, typeScriptLoader } from './child-arguments.ts';
import {
  readChildMessage,
  type FailedMessage,
  type StartMessage,
  type StopMessage,
} from './child-messages.ts';
import { OutputTail } from './output-tail.ts';

/** What a child process needs to be started and kept alive. Times are milliseconds. */
export interface SupervisedChildOptions {
  /** In log lines and errors: `analytics engine`. */
  readonly name: string;
  /** Our source file that the child runs. */
  readonly entry: URL;
  /** Handed to the child over its channel, secrets included. */
  readonly options: unknown;
  readonly log: Log;
  readonly clock: Clock;
  readonly environment?: Readonly<Record<string, string>>;
  /** Default 30,000. */
  readonly startTimeoutMs?: number;
  /** Default 12,000; then the child is killed. */
  readonly stopTimeoutMs?: number;
  /** So many unexpected ends within a minute and it stays down. Default 5. */
  readonly maxFailuresPerMinute?: number;
  /** The wait before the first restart, doubled with every further one within a minute. Default 100. */
  readonly backOffMs?: number;
}

/** A child that did not become ready. */
export class ChildStartError extends Error {
  readonly reason: FailedMessage['reason'];
  /** The last of what the child wrote on standard error. */
  readonly output: string;

  constructor(message: string, reason: FailedMessage['reason'], output: string) {
    super(message);
    this.name = 'ChildStartError';
    this.reason = reason;
    this.output = output;
  }
}

const minuteMs = 60_000;
const maxBackOffMs = 5000;

/** One child process that is started again when it ends unasked, on the same port and with the same options. */
export class SupervisedChild {
  readonly #settings: SupervisedChildOptions;
  #child: ChildProcess | undefined;
  #port = 0;
  #restarts = 0;
  #failures: number[] = [];
  #down: string | undefined;
  #stopping = false;
  #cancelRestart: () => void = () => undefined;

  constructor(settings: SupervisedChildOptions) {
    this.#settings = settings;
  }

  /** The port of the first start; it stays the same. */
  get port(): number {
    return this.#port;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get restarts(): number {
    return this.#restarts;
  }

  /** Why it stays down, or undefined while it runs or is about to run again. */
  get failure(): string | undefined {
    return this.#down;
  }

  /** Starts the child and resolves when it is ready. Throws a `ChildStartError`; nothing is retried then. */
  async start(): Promise<void> {
    await this.#launch();
  }

  /** Ends the child at once; it counts as an unexpected end, so another one takes its place. */
  kill(): void {
    this.#child?.kill('SIGKILL');
  }

  /** Asks the child to end, kills it when it does not, and resolves when it is gone. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#cancelRestart();
    const child = this.#child;
    if (child === undefined) return;
    const gone = new Promise<void>((resolve) => child.once('close', () => resolve()));
    const cancel = this.#settings.clock.after(this.#settings.stopTimeoutMs ?? 12_000, () =>
      child.kill('SIGKILL'),
    );
    const message: StopMessage = { type: 'stop' };
    if (child.connected) child.send(message, () => undefined);
    await gone;
    cancel();
  }

  #launch(): Promise<void> {
    const { entry, environment, options, clock, name } = this.#settings;
    const loader = entry.pathname.endsWith('.ts') ? typeScriptLoader() : undefined;
    const child = fork(fileURLToPath(entry), {
      execArgv: childArguments(process.execArgv, loader),
      env: { ...inheritedEnvironment(), ...environment },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#child = child;
    const output = new OutputTail(child.stderr);
    const message: StartMessage<unknown> = { type: 'start', port: this.#port, options };
    child.send(message, () => undefined);
    return new Promise((resolve, reject) => {
      let ready = false;
      let failed: ChildStartError | undefined;
      const cancelTimeout = clock.after(this.#settings.startTimeoutMs ?? 30_000, () => child.kill('SIGKILL'));
      child.on('message', (received) => {
        const told = readChildMessage(received);
        if (told?.type === 'failed') failed = new ChildStartError(told.message, told.reason, '');
        if (told?.type !== 'ready') return;
        ready = true;
        this.#port = told.port;
        cancelTimeout();
        resolve();
      });
      child.once('error', (error) => (failed ??= new ChildStartError(error.message, 'other', '')));
      child.once('close', (code, signal) => {
        cancelTimeout();
        this.#child = undefined;
        const end = `the ${name} ended with ${signal ?? `code ${code}`}`;
        if (ready) this.#ended(end, output.text);
        else reject(new ChildStartError(failed?.message ?? end, failed?.reason ?? 'other', output.text));
      });
    });
  }

  #ended(reason: string, output: string): void {
    if (this.#stopping) return;
    const { log, clock, name, maxFailuresPerMinute = 5, backOffMs = 100 } = this.#settings;
    const now = clock.monotonic();
    this.#failures = [...this.#failures.filter((at) => now - at < minuteMs), now];
    if (this.#failures.length >= maxFailuresPerMinute) {
      this.#down = `${reason}, ${this.#failures.length} times within a minute, and stays down: restart the gateway`;
      log.error(this.#down, { output });
      return;
    }
    const wait = Math.min(backOffMs * 2 ** (this.#failures.length - 1), maxBackOffMs);
    log.warn(`${reason}; it is started again in ${wait} ms`, { output });
    this.#cancelRestart = clock.after(wait, () => {
      this.#launch().then(
        () => {
          this.#restarts += 1;
          log.info(`the ${name} runs again`, { restarts: this.#restarts });
        },
        (error: ChildStartError) => this.#ended(`the ${name} did not start (${error.message})`, error.output),
      );
    });
  }
}

/** What a runtime needs to find itself. Everything else stays here: an environment often holds credentials. */
function inheritedEnvironment(): NodeJS.ProcessEnv {
  const names = [
    'PATH',
    'HOME',
    'TMPDIR',
    'TEMP',
    'LANG',
    'LC_ALL',
    'LD_LIBRARY_PATH',
    'NODE_OPTIONS',
    'DENO_DIR',
  ];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
