import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { GuardedAnswer, GuardedFetch, GuardedRequest } from '../../core/ports/transport.ts';
import { TrustedHosts } from '../../core/base/host-rules.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Counter, Metrics } from '../../core/ports/metrics.ts';
import { type AddressGuard, createAddressGuard, type Resolve } from '../addresses/address-guard.ts';
import { type SocketObserver, TlsSessions } from '../transport/connection.ts';
import {
  admitUrl,
  fetchFailed,
  type FetchStep,
  followRedirect,
  GuardedHop,
  type HopSurroundings,
  isEncoded,
  networkReason,
  redirectOf,
} from './guarded-hop.ts';
import { type HeaderList, headerValue } from '../../core/ports/header-list.ts';

/** Limits of one hop, and its memory accounting. */
interface HopLimits extends HopSurroundings {
  readonly maxBytes: number;
  /** Reserves memory; false when there is none left. */
  take(bytes: number): boolean;
  accept?(status: number, headers: HeaderList): void;
}

/** An answer, or a redirect location. */
type HopResult = GuardedAnswer & { readonly location: string | undefined };

/** One request that collects its whole answer. `result` rejects with a `GatewayError`. */
class FetchHop extends GuardedHop {
  readonly result: Promise<HopResult>;
  readonly #limits: HopLimits;
  #resolve: (result: HopResult) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #status = 0;
  #headers: HeaderList = [];
  #chunks: Buffer[] = [];
  #size = 0;

  constructor(step: FetchStep, limits: HopLimits) {
    super(step, limits);
    this.#limits = limits;
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  onHeaders(status: number, rawHeaders: Buffer[]): boolean {
    if (this.over || status < 200) return true;
    this.#status = status;
    this.#headers = rawHeaders.map((one) => one.toString('latin1'));
    const location = redirectOf(status, this.#headers);
    if (location !== undefined) this.#succeed(Buffer.alloc(0), location);
    else this.#judgeHead();
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.over) return true;
    this.#size += chunk.length;
    if (this.#size > this.#limits.maxBytes) this.fail(this.#tooLarge());
    else if (!this.#limits.take(chunk.length)) this.fail(this.#noRoom());
    else this.#chunks.push(chunk);
    return true;
  }

  onComplete(): void {
    if (!this.over) this.#succeed(Buffer.concat(this.#chunks), undefined);
  }

  onError(cause: unknown): void {
    this.fail(networkFailure(this.host, cause));
  }

  #judgeHead(): void {
    if (isEncoded(this.#headers)) {
      this.fail(fetchFailed(this.host, 'it sends compressed bytes where plain ones were asked for'));
      return;
    }
    const announced = Number(headerValue(this.#headers, 'content-length') ?? 0);
    if (announced > this.#limits.maxBytes && this.step.method !== 'HEAD') {
      this.fail(this.#tooLarge());
      return;
    }
    try {
      this.#limits.accept?.(this.#status, this.#headers);
    } catch (error) {
      this.fail(
        GatewayError.is(error) ? error : fetchFailed(this.host, 'its answer was not accepted', error),
      );
    }
  }

  #tooLarge(): GatewayError {
    return fetchFailed(this.host, `it is larger than ${this.#limits.maxBytes} bytes`);
  }

  #noRoom(): GatewayError {
    return fetchFailed(this.host, 'the gateway holds as many fetched bytes as it may; try again shortly');
  }

  #succeed(body: Buffer, location: string | undefined): void {
    this.close();
    this.#resolve({ status: this.#status, headers: this.#headers, body, location });
  }

  protected fail(error: GatewayError): void {
    if (this.over) return;
    this.close();
    this.#reject(error);
  }

  protected override close(): void {
    super.close();
    this.#chunks = [];
  }
}

export interface GuardedFetchOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics?: Metrics;
  /** `security.trusted_hosts`. */
  readonly trustedHosts: readonly string[];
  /** Resolves names. Default: the system's resolver. */
  readonly resolve?: Resolve;
  /** Upper bound of concurrent fetches; one more fails. Default 128. */
  readonly maxConcurrent?: number;
  /** Upper bound of bytes that all running fetches hold together. Default 256 MiB. */
  readonly maxHeldBytes?: number;
}

/** State that the fetches of one gateway share. */
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
 * The guarded fetch over undici's client: every hop has a connection of its own, to an address that is checked when it
 * is resolved and again when the socket is connected. Holds nothing between fetches, so it needs no closing.
 */
export function createGuardedFetch(options: GuardedFetchOptions): GuardedFetch {
  const counter = options.metrics?.counter({
    name: 'weir_guarded_fetches_total',
    help: 'Fetches of URLs named in requests, by result.',
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

/** The caller's error for a failure of the network, of TLS or of undici. */
function networkFailure(host: string, cause: unknown): GatewayError {
  return GatewayError.is(cause) ? cause : fetchFailed(host, networkReason(cause), cause);
}
