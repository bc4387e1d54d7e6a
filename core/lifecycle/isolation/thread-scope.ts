import type { MaybePromise } from '../../pipeline/context.ts';
import type { Scope } from '../../pipeline/plugin.ts';
import type { CachedValue } from '../../ports/cache.ts';
import { systemClock } from '../../ports/clock.ts';
import type { Decision } from '../../ports/counters.ts';
import type { Log, LogLevel } from '../../ports/log.ts';
import type { MetricDefinition } from '../../ports/metrics.ts';
import type { GuardedAnswer, GuardedRequest } from '../../ports/transport.ts';
import {
  type FromThread,
  heardError,
  type Service,
  type ThreadSettings,
  toldError,
  type ToThread,
} from './messages.ts';
import { PendingCalls } from './pending-calls.ts';
import { notIsolated } from './thread-context.ts';

/** The parts of a scope that a thread has. */
type LentScope = Pick<
  Scope,
  | 'log'
  | 'clock'
  | 'counters'
  | 'cache'
  | 'guardedFetch'
  | 'metrics'
  | 'headerPrefix'
  | 'keyPrefix'
  | 'basePath'
  | 'publicUrl'
  | 'onDispose'
  | 'setTimeout'
  | 'setInterval'
>;

/** The scope of a plugin in its thread: some services are local, others call the gateway. */
export class ThreadScope {
  readonly #send: (message: FromThread) => void;
  readonly #disposers: (() => MaybePromise<void>)[] = [];
  readonly #calls = new PendingCalls();

  constructor(send: (message: FromThread) => void) {
    this.#send = send;
  }

  /** The scope for `create`. Members that a thread cannot have throw a sentence that says so. */
  lend(settings: ThreadSettings): Scope {
    const own: LentScope = {
      ...settings,
      log: this.#log({}),
      clock: systemClock,
      counters: {
        take: (...args) => this.#ask<Decision>('counters.take', args),
        adjust: (...args) => this.#ask<void>('counters.adjust', args),
      },
      cache: {
        get: (...args) => this.#ask<CachedValue | undefined>('cache.get', args),
        set: (...args) => this.#ask<void>('cache.set', args),
        delete: (...args) => this.#ask<void>('cache.delete', args),
      },
      guardedFetch: { fetch: (request) => this.#fetch(request) },
      metrics: {
        counter: (definition) => (labels) => ({
          inc: (value = 1) => this.#send({ metric: 'counter', definition: plain(definition), labels, value }),
        }),
        gauge: (definition) => (labels) => ({
          set: (value) => this.#send({ metric: 'gauge', definition: plain(definition), labels, value }),
        }),
        histogram: (definition) => (labels) => ({
          observe: (value) =>
            this.#send({ metric: 'histogram', definition: plain(definition), labels, value }),
        }),
        onScrape: () => {
          throw notIsolated('metrics.onScrape');
        },
        render: () => {
          throw notIsolated('metrics.render');
        },
      },
      onDispose: (dispose) => void this.#disposers.push(dispose),
      setTimeout: (run, ms) => {
        const timer = setTimeout(() => void this.#guarded(run), ms);
        return () => clearTimeout(timer);
      },
      setInterval: (run, ms) => {
        const timer = setInterval(() => void this.#guarded(run), ms);
        return () => clearInterval(timer);
      },
    };
    return new Proxy(own as Scope, {
      get(target, name) {
        if (name in target || typeof name === 'symbol' || name === 'then')
          return Reflect.get(target, name) as unknown;
        throw notIsolated(`scope.${name}`);
      },
    });
  }

  /** Takes the gateway's answer to a call. */
  answered(message: Extract<ToThread, { answered: number } | { refused: number }>): void {
    if ('answered' in message) this.#calls.resolve(message.answered, message.value);
    else this.#calls.reject(message.refused, heardError(message.error));
  }

  /** Runs what `onDispose` registered, last first. */
  async dispose(): Promise<void> {
    for (let next = this.#disposers.pop(); next !== undefined; next = this.#disposers.pop()) {
      try {
        await next();
      } catch (thrown) {
        this.#send({ fault: 'dispose', error: toldError(thrown) });
      }
    }
  }

  async #guarded(run: () => MaybePromise<void>): Promise<void> {
    try {
      await run();
    } catch (thrown) {
      this.#send({ fault: 'timer', error: toldError(thrown) });
    }
  }

  #ask<T>(service: Service, args: readonly unknown[]): Promise<T> {
    return this.#calls.open<T>((asks) => this.#send({ asks, service, args }));
  }

  #fetch({ accept, ...request }: GuardedRequest): { answer: Promise<GuardedAnswer>; abort(): void } {
    let abort = (): void => undefined;
    const aborted = new Promise<never>((_, reject) => {
      abort = () => reject(new Error('The fetch was given up.'));
    });
    aborted.catch(() => undefined);
    const fetched = this.#ask<GuardedAnswer>('fetch', [request]).then((answer) => {
      accept?.(answer.status, answer.headers);
      return { ...answer, body: Buffer.from(answer.body) };
    });
    return { answer: Promise.race([fetched, aborted]), abort };
  }

  #log(fixed: Readonly<Record<string, unknown>>): Log {
    const write =
      (log: LogLevel) =>
      (message: string, fields: Readonly<Record<string, unknown>> = {}): void =>
        this.#send({ log, message, fields: fieldsText({ ...fixed, ...fields }) });
    return {
      debug: write('debug'),
      info: write('info'),
      warn: write('warn'),
      error: write('error'),
      child: (fields) => this.#log({ ...fixed, ...fields }),
    };
  }
}

function plain({ name, help, labels, buckets }: MetricDefinition<string>): MetricDefinition<string> {
  return { name, help, labels: [...labels], ...(buckets !== undefined && { buckets: [...buckets] }) };
}

/** Fields may hold values that no message can carry. */
function fieldsText(fields: Readonly<Record<string, unknown>>): string {
  try {
    return JSON.stringify(fields, (_, value: unknown) =>
      value instanceof Error
        ? (value.stack ?? value.message)
        : typeof value === 'bigint'
          ? String(value)
          : value,
    );
  } catch {
    return '{}';
  }
}
