import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { GuardedAnswer, GuardedFetch, GuardedRequest } from '../../core/ports/guarded-fetch.ts';
import { TrustedHosts } from '../../core/base/host-rules.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Counter, Metrics } from '../../core/ports/metrics.ts';
import { createAddressGuard, type AddressGuard, type Resolve } from '../addresses/address-guard.ts';
import type { SocketObserver } from '../transport/connection.ts';
import { TlsSessions } from '../transport/open-socket.ts';
import { admitUrl } from './admit-url.ts';
import { fetchFailed } from './fetch-errors.ts';
import { FetchHop } from './fetch-hop.ts';
import { followRedirect, type FetchStep } from './fetch-step.ts';

export interface GuardedFetchOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics?: Metrics;
  /** `security.trusted_hosts`. */
  readonly trustedHosts: readonly string[];
  /** Resolves names. Default: the system. */
  readonly resolve?: Resolve;
  /** Fetches under way at once; one more fails. Default 128. */
  readonly maxConcurrent?: number;
  /** Bytes that all fetches under way hold together. Default 256 MiB. */
  readonly maxHeldBytes?: number;
}

/** What the fetches of one gateway share. */
interface Shared {
  readonly options: GuardedFetchOptions;
  readonly trusted: TrustedHosts;
  readonly guard: AddressGuard;
  readonly observer: SocketObserver;
  count(result: 'ok' | 'refused' | 'failed'): Counter | undefined;
  underWay: number;
  heldBytes: number;
}

/**
 * The guarded fetch over undici's client: every hop on a connection of its own, at an address that was checked when
 * it was resolved and once more when the socket stood. Holds nothing between fetches, so it needs no closing.
 */
export function createGuardedFetch(options: GuardedFetchOptions): GuardedFetch {
  const counter = options.metrics?.counter({
    name: 'weir_guarded_fetches_total',
    help: 'Fetches of addresses that requests named, by result.',
    labels: ['result'],
  });
  const shared: Shared = {
    options,
    trusted: new TrustedHosts(options.trustedHosts),
    guard: createAddressGuard(options.resolve),
    observer: {
      sessions: new TlsSessions(),
      opened: () => 0,
      connected: () => undefined,
      closed: () => undefined,
    },
    count: (result) => counter?.({ result }),
    underWay: 0,
    heldBytes: 0,
  };
  return {
    fetch(request) {
      const task = new FetchTask(request, shared);
      return { answer: task.run(), abort: () => task.abort() };
    },
  };
}

/** One fetch with all its redirects. */
class FetchTask {
  readonly #request: GuardedRequest;
  readonly #shared: Shared;
  #hop: FetchHop | undefined;
  #ended: GatewayError | undefined;
  #heldBytes = 0;
  #host = 'the address';

  constructor(request: GuardedRequest, shared: Shared) {
    this.#request = request;
    this.#shared = shared;
  }

  async run(): Promise<GuardedAnswer> {
    const { count, options } = this.#shared;
    try {
      const answer = await this.#bounded();
      count('ok')?.inc();
      return answer;
    } catch (error) {
      const { code, message, cause } = error as GatewayError;
      count(code === 'address_refused' ? 'refused' : 'failed')?.inc();
      options.log.debug('A guarded fetch brought nothing', { code, message, cause });
      throw error;
    }
  }

  abort(): void {
    this.#end(fetchFailed(this.#host, 'it was given up'));
  }

  async #bounded(): Promise<GuardedAnswer> {
    const shared = this.#shared;
    const { maxConcurrent = 128, clock } = shared.options;
    const { url: text, method = 'GET', headers = [], body = null, timeoutMs } = this.#request;
    const first = admitUrl(text, shared.trusted);
    this.#host = first.url.host;
    if (shared.underWay >= maxConcurrent) {
      const why = `${maxConcurrent} fetches are under way, the most that are allowed; try again shortly`;
      throw fetchFailed(this.#host, why);
    }
    shared.underWay += 1;
    const cancelTimer = clock.after(timeoutMs, () =>
      this.#end(fetchFailed(this.#host, `no whole answer came within ${timeoutMs} ms`)),
    );
    try {
      return await this.#follow({ ...first, method: method.toUpperCase(), headers, body });
    } finally {
      cancelTimer();
      shared.underWay -= 1;
      shared.heldBytes -= this.#heldBytes;
    }
  }

  async #follow(first: FetchStep): Promise<GuardedAnswer> {
    const { maxRedirects = 3, maxBytes, accept } = this.#request;
    const { guard, observer, trusted } = this.#shared;
    const take = (bytes: number): boolean => this.#take(bytes);
    const judge = accept === undefined ? {} : { accept: accept.bind(this.#request) };
    let step = first;
    for (let redirects = 0; ; redirects++) {
      if (this.#ended !== undefined) throw this.#ended;
      this.#hop = new FetchHop(step, { guard, observer, maxBytes, take, ...judge });
      this.#hop.start();
      const { location, ...answer } = await this.#hop.result;
      if (location === undefined) return answer;
      if (redirects >= maxRedirects) {
        throw fetchFailed(step.url.host, `it redirects more than ${maxRedirects} times`);
      }
      step = followRedirect(step, answer.status, location, trusted);
    }
  }

  #end(reason: GatewayError): void {
    this.#ended ??= reason;
    this.#hop?.abort(this.#ended);
  }

  #take(bytes: number): boolean {
    const shared = this.#shared;
    const { maxHeldBytes = 268_435_456 } = shared.options;
    if (shared.heldBytes + bytes > maxHeldBytes) return false;
    shared.heldBytes += bytes;
    this.#heldBytes += bytes;
    return true;
  }
}
