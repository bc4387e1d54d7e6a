import type { Dispatcher } from 'undici';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { UpstreamCall } from '../../core/ports/transport.ts';
import { type AddressGuard, addressRefused } from '../addresses/address-guard.ts';
import { Connection, type SocketObserver } from '../transport/connection.ts';
import { type HeaderList, headerValue } from '../../core/ports/header-list.ts';
import { credentialHeaders } from '../../core/base/header-names.ts';
import { hostRefusalReason, type TrustedHosts } from '../../core/base/host-rules.ts';

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
export function fetchFailed(host: string, why: string, cause?: unknown): GatewayError {
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
