import type { Dispatcher } from 'undici';
import { credentialHeaders } from '../../core/base/header-names.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type {
  GuardedAnswer,
  GuardedFetch,
  GuardedRequest,
  UpstreamCall,
} from '../../core/ports/transport.ts';
import { TrustedHosts, hostRefusalReason } from '../../core/base/host-rules.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Counter, Metrics } from '../../core/ports/metrics.ts';
import {
  type AddressGuard,
  createAddressGuard,
  type Resolve,
  addressRefused,
} from '../addresses/address-guard.ts';
import { type SocketObserver, TlsSessions, Connection } from '../transport/connection.ts';
import { type HeaderList, headerValue } from '../../core/ports/header-list.ts';

/** Longest URL, in characters. */
const maxUrlLength = 8192;

/** A URL that may be fetched. */
interface AdmittedUrl {
  readonly url: URL;
  /** Listed in `security.trusted_hosts`: it may resolve to any address. */
  readonly trusted: boolean;
}

/**
 * Checks all parts of a URL that need no network, after normalisation, so that all spellings of a host are equal.
 * Throws `address_refused`. `base` is the URL that a relative redirect came from.
 */
export function admitUrl(text: string, trustedHosts: TrustedHosts, base?: URL): AdmittedUrl {
  if (text.length > maxUrlLength) throw addressRefusedError(`it is longer than ${maxUrlLength} characters`);
  if (!URL.canParse(text, base?.href)) throw addressRefusedError('it is no URL; send https://host/path');
  const url = new URL(text, base?.href);
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw addressRefusedError('only http and https are fetched');
  if (url.username !== '' || url.password !== '')
    throw addressRefusedError('it carries credentials; leave them out');
  url.hash = '';
  const trusted = trustedHosts.has(url);
  const reason = trusted ? undefined : hostRefusalReason(url.hostname);
  if (reason !== undefined) throw addressRefused(url.host, reason);
  return { url, trusted };
}

function addressRefusedError(reason: string): GatewayError {
  return new GatewayError('address_refused', `The URL is refused: ${reason}.`);
}

/** One request on the wire; a redirect derives the next one from it. */
export interface FetchStep extends AdmittedUrl {
  readonly method: string;
  readonly headers: HeaderList;
  readonly body: Uint8Array | null;
}

const redirects = new Set([301, 302, 303, 307, 308]);
/** Never sent to an origin other than their own. */
const secretHeaders = new Set<string>([...credentialHeaders, 'cookie', 'proxy-authorization']);

/** Redirect location of an answer; undefined when it is not a redirect. */
export function redirectOf(status: number, headers: HeaderList): string | undefined {
  return redirects.has(status) ? headerValue(headers, 'location') : undefined;
}

/**
 * The request that follows a redirect, by the rules of browsers: 303 uses GET, 301 and 302 turn POST into GET, the
 * others repeat the request. Credentials stay with their origin. Throws `address_refused` for an address that must not
 * be called, and `fetch_failed` for a redirect from https to http.
 */
export function followRedirect(
  step: FetchStep,
  status: number,
  location: string,
  trustedHosts: TrustedHosts,
): FetchStep {
  const next = admitUrl(location, trustedHosts, step.url);
  if (step.url.protocol === 'https:' && next.url.protocol === 'http:') {
    throw fetchFailed(step.url.host, 'it redirects from https to http; name an https address');
  }
  const becomesGet =
    (status === 303 && step.method !== 'HEAD') ||
    ((status === 301 || status === 302) && step.method === 'POST');
  const crosses = next.url.origin !== step.url.origin;
  const headers = without(
    step.headers,
    (name) => (crosses && secretHeaders.has(name)) || (becomesGet && name.startsWith('content-')),
  );
  return {
    ...next,
    headers,
    method: becomesGet ? 'GET' : step.method,
    body: becomesGet ? null : step.body,
  };
}

/** Set by the fetch itself, or specific to one connection. */
const owned = new Set([
  ...['host', 'connection', 'keep-alive', 'upgrade', 'expect', 'te', 'trailer'],
  ...['content-length', 'transfer-encoding', 'accept-encoding', 'proxy-connection'],
]);

/** Request headers in wire form: they request plain bytes, because a bound counts the received bytes. */
export function wireHeaders(headers: HeaderList): string[] {
  return [...without(headers, (name) => owned.has(name)), 'accept-encoding', 'identity'];
}

/** True for an answer whose bytes are not the plain ones that `wireHeaders` requests. */
export function isEncoded(headers: HeaderList): boolean {
  const encoding = headerValue(headers, 'content-encoding')?.trim().toLowerCase() ?? '';
  return encoding !== 'identity' && encoding !== '';
}

function without(headers: HeaderList, leaves: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (!leaves(name.toLowerCase())) kept.push(name, headers[i + 1] as string);
  }
  return kept;
}

/** State that the hops of one gateway share. */
export interface HopSurroundings {
  readonly guard: AddressGuard;
  readonly observer: SocketObserver;
}

const pool = { connectionIdle: () => undefined, connectionGone: () => undefined };

/**
 * One request on a connection of its own, which ends with it: a checked connection is never reused for another host.
 * Subclasses process the answer.
 */
export abstract class GuardedHop implements UpstreamCall, Dispatcher.DispatchHandler {
  protected readonly step: FetchStep;
  /** The request has ended. */
  protected over = false;
  readonly #connection: Connection;

  constructor(step: FetchStep, { guard, observer }: HopSurroundings) {
    this.step = step;
    this.#connection = new Connection(step.url.origin, pool, observer, step.trusted ? undefined : guard);
    this.#connection.call = this;
  }

  /** Sends the request. */
  start(): void {
    const { url, method, headers, body } = this.step;
    const path = url.pathname + url.search;
    this.#connection.dispatch({ method, path, headers: wireHeaders(headers), body, reset: true }, this);
  }

  resume(): void {
    // Never paused: its bound is the size.
  }

  abort(error: GatewayError): void {
    this.fail(error);
  }

  onConnect(): void {
    this.#connection.requestStarts();
  }

  abstract onHeaders(status: number, rawHeaders: Buffer[]): boolean;
  abstract onData(chunk: Buffer): boolean;
  abstract onComplete(): void;
  abstract onError(cause: unknown): void;
  /** Ends the request with this error, unless it has ended. */
  protected abstract fail(error: GatewayError): void;

  protected get host(): string {
    return this.step.url.host;
  }

  /** Releases the connection. */
  protected close(): void {
    // First, because closing the connection makes undici report an end.
    this.over = true;
    this.#connection.call = null;
    this.#connection.destroy();
  }
}

/**
 * Error for an answer that was not complete within the bounds. `host` in the caller's spelling, `why` in general terms:
 * a caller without access to a network must not learn its contents from an error.
 */
function fetchFailed(host: string, why: string, cause?: unknown): GatewayError {
  return new GatewayError('fetch_failed', `"${host.slice(0, 255)}" could not be fetched: ${why}.`, { cause });
}

/** Same in general terms, for the end of a sentence that names the host. */
export function networkReason(cause: unknown): string {
  const code =
    typeof cause === 'object' && cause !== null && 'code' in cause && typeof cause.code === 'string'
      ? cause.code
      : '';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'its name is unknown; check the spelling';
  if (/^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|EPROTO)/.test(code)) {
    return 'no trusted TLS connection; check its certificate and the scheme';
  }
  return 'it cannot be reached or broke the connection; check the URL';
}

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
