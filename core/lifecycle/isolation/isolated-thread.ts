import type { Worker } from 'node:worker_threads';
import { startThread } from '../../base/start-thread.ts';
import type { Clock } from '../../ports/clock.ts';
import {
  type FromThread,
  heardError,
  type ThreadData,
  type ThreadRequest,
  type ToThread,
} from './messages.ts';
import { PendingCalls } from './pending-calls.ts';

/** Bounds of a thread. */
export interface IsolationLimits {
  /** Heap and buffers, in MiB. */
  readonly memoryMb: number;
  /** How long one call may hold the thread, in milliseconds. */
  readonly cpuMs: number;
}

/** Why a thread is stopped. */
export type StopReason = 'memory' | 'cpu' | 'exit';

/** Options of `IsolatedThread`. */
interface IsolatedThreadOptions {
  /** URL of the plugin's bundle. */
  readonly module: string;
  readonly limits: IsolationLimits;
  readonly clock: Clock;
  /** Receives messages of the thread that answer no call. */
  heard(message: Exclude<FromThread, { id: number }>): void;
  /** It has ended, and calls in flight have failed. Not called after `terminate`. */
  stopped(reason: StopReason, message: string): void;
}

/** Calls of one thread that wait for their end. */
const mostCalls = 10_000;
const givenUp = 'the call was given up before its thread answered';
/** How long a thread may take without a turn until its first answer, in milliseconds: it loads modules. */
const loadingMs = 10_000;

/**
 * One thread with one plugin in it. Ends itself when a call holds it for longer than `cpuMs`, or when it exceeds its
 * memory limit; the gateway continues. Its owner may start another one.
 */
export class IsolatedThread {
  /** What it has got once, and knows by its number: parameters and requests. */
  readonly has = new WeakSet<object>();
  readonly #options: IsolatedThreadOptions;
  readonly #worker: Worker;
  readonly #turns = new Int32Array(new SharedArrayBuffer(4));
  readonly #calls = new PendingCalls();
  #hasAnswered = false;
  #isOver = false;
  #cancelLook: () => void;
  #seenTurns = 0;
  #seenAt: number;

  constructor(options: IsolatedThreadOptions) {
    this.#options = options;
    const { limits, clock } = options;
    const data: ThreadData = { module: options.module, turns: this.#turns };
    this.#worker = startThread(new URL('./plugin-thread.ts', import.meta.url), {
      workerData: data,
      name: 'plugin',
      execArgv: [],
      resourceLimits: {
        maxOldGenerationSizeMb: limits.memoryMb,
        maxYoungGenerationSizeMb: Math.min(16, limits.memoryMb),
      },
    });
    this.#worker.unref();
    this.#worker.on('message', (message: FromThread) => this.#heard(message));
    this.#worker.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') this.#outOfMemory();
      else this.#stop('exit', `its thread ended: ${error.message}`);
    });
    this.#worker.on('exit', (code) => this.#stop('exit', `its thread ended with ${code}`));
    this.#seenAt = clock.monotonic();
    this.#cancelLook = clock.after(this.#lookMs, () => this.#look());
  }

  /** Resolves as the thread answers; rejects as it throws, or when it ends or `signal` aborts before. */
  call<T>(call: ThreadRequest, signal?: AbortSignal): Promise<T> {
    if (this.#isOver) return Promise.reject(new Error('its thread has ended'));
    if (this.#calls.size >= mostCalls)
      return Promise.reject(new Error(`${mostCalls} calls wait for its thread, and no more may`));
    if (signal === undefined) return this.#calls.open<T>((id) => this.send({ id, call }));
    if (signal.aborted) return Promise.reject(new Error(givenUp));
    let abort = (): void => undefined;
    const answer = this.#calls.open<T>((id) => {
      abort = () => {
        this.#calls.reject(id, new Error(givenUp));
        this.send({ abort: id });
      };
      this.send({ id, call });
    });
    signal.addEventListener('abort', abort, { once: true });
    return answer.finally(() => signal.removeEventListener('abort', abort));
  }

  /** Sends it a message without an answer. */
  send(message: ToThread): void {
    if (!this.#isOver) this.#worker.postMessage(message);
  }

  /** Ends it at once; calls in flight fail. */
  async terminate(): Promise<void> {
    this.#over('its thread was ended');
    await this.#worker.terminate();
  }

  #heard(message: FromThread): void {
    if (this.#isOver) return;
    if ('memoryBytes' in message && message.memoryBytes > this.#options.limits.memoryMb * 1024 * 1024)
      return this.#outOfMemory();
    if (!('id' in message)) return this.#options.heard(message);
    this.#hasAnswered = true;
    if ('error' in message) this.#calls.reject(message.id, heardError(message.error));
    else this.#calls.resolve(message.id, message.value);
  }

  get #lookMs(): number {
    return Math.max(20, Math.min(1000, Math.floor(this.#options.limits.cpuMs / 4)));
  }

  /** A thread that takes no turn for as long as a call may take is in a loop. */
  #look(): void {
    const { clock, limits } = this.#options;
    const now = clock.monotonic();
    const limitMs = this.#hasAnswered ? limits.cpuMs : Math.max(loadingMs, limits.cpuMs);
    const turns = Atomics.load(this.#turns, 0);
    if (turns !== this.#seenTurns) {
      this.#seenTurns = turns;
      this.#seenAt = now;
    } else if (now - this.#seenAt > limitMs) {
      return this.#stop('cpu', `a call held its thread for more than ${limitMs} ms (isolate.cpu_ms)`);
    }
    this.send({ ping: true });
    this.#cancelLook = clock.after(this.#lookMs, () => this.#look());
  }

  #outOfMemory(): void {
    this.#stop(
      'memory',
      `its thread needs more than ${this.#options.limits.memoryMb} MiB (isolate.memory_mb)`,
    );
  }

  #stop(reason: StopReason, message: string): void {
    if (this.#isOver) return;
    this.#over(message);
    void this.#worker.terminate();
    this.#options.stopped(reason, message);
  }

  #over(message: string): void {
    this.#isOver = true;
    this.#cancelLook();
    this.#calls.rejectAll(message);
  }
}
