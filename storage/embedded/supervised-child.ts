import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { type FailedMessage, readChildMessage, type StartMessage, type StopMessage } from './child-side.ts';
import type { Readable } from 'node:stream';

const maxCharacters = 4096;

/** Keeps the last few kilobytes of a stream of text, for the message that explains why a process ended. */
class OutputTail {
  text = '';

  constructor(stream: Readable | null) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      this.text = (this.text + chunk).slice(-maxCharacters);
    });
  }
}

/** Flags of this process that must not be handed to a child: they open ports, run tests, watch files or hold code. */
const notInherited =
  /^--?(inspect|debug|test|watch|experimental-test|prof|cpu-prof|heap-prof|diagnostic-dir)/;
const withCode = new Set(['-e', '--eval', '-p', '--print', '-pe']);

/**
 * Node's flags for a child that runs a file of our own sources: those of this process that make sense there, and the
 * loader for TypeScript when nothing of the kind is among them. Other runtimes take TypeScript as it is.
 */
export function childArguments(execArgv: readonly string[], loader: string | undefined): string[] {
  const kept: string[] = [];
  for (let i = 0; i < execArgv.length; i += 1) {
    const flag = execArgv[i] as string;
    if (withCode.has(flag)) i += 1;
    else if (!notInherited.test(flag)) kept.push(flag);
    // A word that follows a flag and is none is its value.
    else if (execArgv[i + 1]?.startsWith('-') === false) i += 1;
  }
  const loads = kept.some((flag) => /\btsx\b|transform-types|strip-types/.test(flag));
  return loads || loader === undefined ? kept : [...kept, '--import', loader];
}

/** Where the loader for TypeScript is, or undefined on a runtime that needs none. */
function typeScriptLoader(): string | undefined {
  return 'deno' in process.versions || 'bun' in process.versions ? undefined : import.meta.resolve('tsx');
}

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
  /** Default 300,000: then a start has failed, and the child is killed. */
  readonly startTimeoutMs?: number;
  /** Default 12,000; then the child is killed. */
  readonly stopTimeoutMs?: number;
  /** The wait before the first restart, doubled with every further one until a child has run for a minute. Default 100. */
  readonly backOffMs?: number;
  /** The longest wait before a restart. Default 60,000. */
  readonly maxBackOffMs?: number;
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

/** Within the first minute of the next one, an end is one of a row. */
const steadyMs = 60_000;
/** From so many ends in a row on it is an error in the log. */
const manyFailures = 5;
/** A start that takes longer is told so often. */
const tellStartMs = 30_000;

/**
 * One child process that is started again when it ends unasked, on the same port and with the same options: for ever, after
 * waits that grow to a minute.
 */
export class SupervisedChild {
  readonly #settings: SupervisedChildOptions;
  #child: ChildProcess | undefined;
  #port = 0;
  #restarts = 0;
  /** Ends in a row. */
  #failures = 0;
  #readyAt = -Infinity;
  #trouble: string | undefined;
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

  /** Why it does not run now and when it is started again, in a sentence; undefined while it runs. */
  get trouble(): string | undefined {
    return this.#trouble;
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
    const { entry, environment, options, clock, name, startTimeoutMs = 300_000 } = this.#settings;
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
      const cancelTimeout = this.#boundStart(startTimeoutMs, () => {
        failed ??= new ChildStartError(
          `it has not answered within ${startTimeoutMs / 1000} s (storage.engine_start_ms)`,
          'other',
          '',
        );
        child.kill('SIGKILL');
      });
      child.on('message', (received) => {
        const told = readChildMessage(received);
        if (told?.type === 'failed') failed = new ChildStartError(told.message, told.reason, '');
        if (told?.type !== 'ready') return;
        ready = true;
        this.#readyAt = clock.monotonic();
        this.#trouble = undefined;
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

  /** Calls `late` when a start takes too long; until then the log tells that it is waited for. Returns what ends it. */
  #boundStart(timeoutMs: number, late: () => void): () => void {
    const { clock, log, name } = this.#settings;
    let waitedMs = 0;
    let cancelNext: () => void = () => undefined;
    const wait = (): void => {
      const ms = Math.min(tellStartMs, timeoutMs - waitedMs);
      cancelNext = clock.after(ms, () => {
        waitedMs += ms;
        if (waitedMs >= timeoutMs) return late();
        log.warn(`the ${name} has not answered for ${waitedMs / 1000} s; it is waited for`, {
          at_most_seconds: timeoutMs / 1000,
        });
        wait();
      });
    };
    wait();
    return () => cancelNext();
  }

  #ended(reason: string, output: string): void {
    if (this.#stopping) return;
    const { log, clock, name, backOffMs = 100, maxBackOffMs = 60_000 } = this.#settings;
    const wasSteady = clock.monotonic() - this.#readyAt >= steadyMs;
    this.#failures = wasSteady ? 1 : this.#failures + 1;
    const wait = Math.min(backOffMs * 2 ** Math.min(this.#failures - 1, 30), maxBackOffMs);
    const often = this.#failures === 1 ? '' : `, ${this.#failures} times in a row`;
    this.#trouble = `${reason}${often}; it is started again in ${wait < 1000 ? `${wait} ms` : `${wait / 1000} s`}`;
    if (this.#failures < manyFailures) log.warn(this.#trouble, { output });
    else log.error(this.#trouble, { output });
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
