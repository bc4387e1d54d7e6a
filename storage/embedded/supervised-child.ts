import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { type FailedMessage, readChildMessage, type StartMessage, type StopMessage } from './child-side.ts';
import type { Readable } from 'node:stream';

const maxCharacters = 4096;

/** Keeps the last few kilobytes of a text stream, for the error message of an ended process. */
class OutputTail {
  text = '';

  constructor(stream: Readable | null) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      this.text = (this.text + chunk).slice(-maxCharacters);
    });
  }
}

/**
 * Flags of this process that must not be handed to a child: they open ports, run tests, watch files, or tune the heap for
 * many requests. With the gateway's heap a child keeps 200 MiB of garbage before it is collected, and for longer.
 */
const notInherited =
  /^--?(inspect|debug|test|watch|experimental-test|prof|cpu-prof|heap-prof|diagnostic-dir|(?:min|max)-semi-space|initial-(?:heap|old-space)|no-(?:allocation-site-pretenuring|parallel-scavenge)|gc-memory-reducer)/;
const withCode = new Set(['-e', '--eval', '-p', '--print', '-pe']);

/**
 * Node's flags for a child that runs a source file of this project: the inherited flags that apply to it, and the
 * loader for TypeScript when they include none. Other runtimes run TypeScript directly.
 */
export function childArguments(execArgv: readonly string[], loader: string | undefined): string[] {
  const kept: string[] = [];
  for (let i = 0; i < execArgv.length; i += 1) {
    const flag = execArgv[i] as string;
    if (withCode.has(flag)) i += 1;
    else if (!notInherited.test(flag)) kept.push(flag);
    // A word after a flag that is not a flag is its value.
    else if (execArgv[i + 1]?.startsWith('-') === false) i += 1;
  }
  const loads = kept.some((flag) => /\btsx\b|transform-types|strip-types/.test(flag));
  return loads || loader === undefined ? kept : [...kept, '--import', loader];
}

/** Location of the loader for TypeScript, or undefined on a runtime that needs none. */
function typeScriptLoader(): string | undefined {
  return 'deno' in process.versions || 'bun' in process.versions ? undefined : import.meta.resolve('tsx');
}

/** Options for starting a child process and keeping it running. Times are milliseconds. */
export interface SupervisedChildOptions {
  /** Name in log lines and errors: `analytics engine`. */
  readonly name: string;
  /** Source file that the child runs. */
  readonly entry: URL;
  /** Sent to the child over its channel, secrets included. */
  readonly options: unknown;
  readonly log: Log;
  readonly clock: Clock;
  readonly environment?: Readonly<Record<string, string>>;
  /** Default 300,000; then the start has failed, and the child is killed. */
  readonly startTimeoutMs?: number;
  /** Default 12,000; then the child is killed. */
  readonly stopTimeoutMs?: number;
  /** Delay before the first restart, doubled with every further one until a child has run for a minute. Default 100. */
  readonly backOffMs?: number;
  /** Longest delay before a restart. Default 60,000. */
  readonly maxBackOffMs?: number;
}

/** A child that did not become ready. */
export class ChildStartError extends Error {
  readonly reason: FailedMessage['reason'];
  /** The last output of the child on standard error. */
  readonly output: string;

  constructor(message: string, reason: FailedMessage['reason'], output: string) {
    super(message);
    this.name = 'ChildStartError';
    this.reason = reason;
    this.output = output;
  }
}

/** A child that ends before this age counts as a repeated failure. */
const steadyMs = 60_000;
/** Number of repeated failures that is logged as an error. */
const manyFailures = 5;
/** Interval of log lines during a long start. */
const tellStartMs = 30_000;

/**
 * One child process that is restarted when it ends unexpectedly, on the same port and with the same options: without
 * limit, after delays that grow to a minute.
 */
export class SupervisedChild {
  readonly #settings: SupervisedChildOptions;
  #child: ChildProcess | undefined;
  #port = 0;
  #restarts = 0;
  /** Repeated failures. */
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

  /** Reason why it is not running, and time of the next start, in a sentence; undefined while it runs. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Starts the child and resolves when it is ready. Throws a `ChildStartError` without a retry. */
  async start(): Promise<void> {
    await this.#launch();
  }

  /** Kills the child; it counts as an unexpected end, so another one replaces it. */
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

  /**
   * Calls `late` when a start takes too long; until then logs the wait at intervals. Returns the function that ends it.
   */
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

/** Variables that a runtime needs. All others are withheld: an environment often holds credentials. */
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
