import { Worker } from 'node:worker_threads';
import type { Clock } from '../../ports/clock.ts';
import {
  type FromThread,
  heardError,
  type ThreadData,
  type ThreadRequest,
  type ToThread,
} from './messages.ts';

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

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Calls of one thread that wait for their end. */
const mostCalls = 10_000;
/** How long a thread may take without a turn until its first answer, in milliseconds: it loads modules. */
const loadingMs = 10_000;

/**
 * One thread with one plugin in it. Ends itself when a call holds it for longer than `cpuMs`, or when it exceeds its
 * memory limit; the gateway continues. Its owner may start another one.
 */
export class IsolatedThread {
  readonly #options: IsolatedThreadOptions;
  readonly #worker: Worker;
  readonly #turns = new Int32Array(new SharedArrayBuffer(4));
  readonly #waiting = new Map<number, Waiting>();
  #calls = 0;
  #hasAnswered = false;
  #isOver = false;
  #cancelLook: () => void;
  #seenTurns = 0;
  #seenAt: number;

  constructor(options: IsolatedThreadOptions) {
    this.#options = options;
    const { limits, clock } = options;
    const data: ThreadData = { module: options.module, turns: this.#turns };
    const settings = {
      workerData: data,
      name: 'plugin',
      resourceLimits: {
        maxOldGenerationSizeMb: limits.memoryMb,
        maxYoungGenerationSizeMb: Math.min(16, limits.memoryMb),
      },
    };
    const entry = new URL('./plugin-thread.ts', import.meta.url);
    this.#worker = entry.pathname.endsWith('.ts')
      ? new Worker(loading(entry), { ...settings, eval: true, execArgv: [] })
      : new Worker(entry, { ...settings, execArgv: [] });
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

  /** Resolves as the thread answers; rejects as it throws, or when it ends before. */
  call<T>(call: ThreadRequest): Promise<T> {
    if (this.#isOver) return Promise.reject(new Error('its thread has ended'));
    if (this.#waiting.size >= mostCalls)
      return Promise.reject(new Error(`${mostCalls} calls wait for its thread, and no more may`));
    const id = ++this.#calls;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve: (value) => resolve(value as T), reject });
      try {
        this.send({ id, call });
      } catch (error) {
        this.#waiting.delete(id);
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
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
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    this.#hasAnswered = true;
    if ('error' in message) waiting?.reject(heardError(message.error));
    else waiting?.resolve(message.value);
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
    for (const { reject } of this.#waiting.values()) reject(new Error(message));
    this.#waiting.clear();
  }
}

/** Threads do not inherit the main thread's loader for TypeScript. */
function loading(entry: URL): string {
  const loader = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  return `import(${loader}).then(({ register }) => { register(); return import(${JSON.stringify(entry.href)}); })`;
}
