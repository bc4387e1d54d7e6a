import type { HeaderList } from '../ports/header-list.ts';
import {
  credentialHeaders,
  type HeaderName,
  headerNameList,
  HeaderNames,
  headersSetAnew,
  hopByHopHeaders,
  isHeaderName,
} from '../base/header-names.ts';
import type { ForwardedTrace } from '../base/trace-context.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { AttemptOptions, RouteOptions } from '../pipeline/router.ts';
import type { PlanLeaf } from './plan/plan-node.ts';

/** Settings of a request's own headers for its transport. */
interface RoutingHeaders {
  /** Milliseconds, 1 to a day; undefined: config and options apply. */
  readonly requestTimeoutMs: number | undefined;
  /** Lower-case names of the client's headers that reach the provider even when the request is translated; at most 64. */
  readonly forwardHeaders: readonly string[];
  /** Lower-case names of the client's headers that never reach the provider; at most 64. */
  readonly sensitiveHeaders: readonly string[];
}

const maxTimeoutMs = 86_400_000;
const maxNames = 64;
const noNames: readonly string[] = Object.freeze([]);
const nothingSaid: RoutingHeaders = Object.freeze({
  requestTimeoutMs: undefined,
  forwardHeaders: noNames,
  sensitiveHeaders: noNames,
});

/**
 * Reads `request-timeout`, `forward-headers` and `sensitive-headers` under the gateway's prefixes; an empty one counts
 * as absent. Throws `invalid_header` that names the header and the invalid part.
 */
export function readRoutingHeaders(exchange: Exchange): RoutingHeaders {
  const timeout = exchange.service('request-timeout') || undefined;
  const forward = exchange.service('forward-headers') || undefined;
  const sensitive = exchange.service('sensitive-headers') || undefined;
  if (timeout === undefined && forward === undefined && sensitive === undefined) return nothingSaid;
  return {
    requestTimeoutMs: timeout === undefined ? undefined : readTimeout(timeout),
    forwardHeaders:
      forward === undefined ? noNames : readForwardHeaders(forward, exchange.knownNames.prefixes),
    sensitiveHeaders: sensitive === undefined ? noNames : readNames('sensitive-headers', sensitive),
  };
}

function readTimeout(text: string): number {
  const value = /^\d{1,8}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > maxTimeoutMs) {
    throw invalid(
      'request-timeout',
      `Send whole milliseconds, 1 to ${maxTimeoutMs} (a day), or leave it out.`,
    );
  }
  return value;
}

function readForwardHeaders(text: string, servicePrefixes: readonly string[]): readonly string[] {
  const names = readNames('forward-headers', text);
  for (const name of names) {
    const reason = refusedForwardName(name, servicePrefixes);
    if (reason !== undefined) throw invalid('forward-headers', `Take "${name}" out of it: ${reason}.`);
  }
  return names;
}

function readNames(header: string, text: string): readonly string[] {
  const names = headerNameList(text);
  if (names.length > maxNames) throw invalid(header, `It may name ${maxNames} headers at the most.`);
  const wrong = names.find((name) => !isHeaderName(name));
  if (wrong === undefined) return names;
  throw invalid(
    header,
    `"${wrong.slice(0, 64)}" is no name of a header. Send names with commas between them.`,
  );
}

function invalid(header: string, remedy: string): GatewayError {
  return new GatewayError('invalid_header', `The ${header} header cannot be used. ${remedy}`, {
    param: header,
  });
}

const credentials: ReadonlySet<string> = new Set([...credentialHeaders, 'cookie', 'proxy-authorization']);

/** Headers with which servers in a cloud ask its metadata service for credentials. */
const cloudMetadata: ReadonlySet<string> = new Set([
  'metadata',
  'metadata-flavor',
  'x-google-metadata-request',
  'x-aws-ec2-metadata-token',
  'x-aws-ec2-metadata-token-ttl-seconds',
  'x-aliyun-ecs-metadata-token',
  'x-aliyun-ecs-metadata-token-ttl-seconds',
  'x-identity-header',
]);

/**
 * Reason why a client's header must not be forwarded by name (`forward_headers` of a config, the `forward-headers`
 * header), as the end of a sentence without its full stop; undefined for an allowed name. Case-insensitive.
 * `servicePrefixes` are the gateway's own, each with its dash (`x-service-`).
 */
export function refusedForwardName(
  name: string,
  servicePrefixes: readonly string[] = [],
): string | undefined {
  if (!isHeaderName(name)) return 'it is no name of a header';
  const lower = name.toLowerCase();
  if (lower === 'forward-headers' || servicePrefixes.some((prefix) => lower.startsWith(prefix)))
    return 'headers for the gateway itself never go to a provider';
  if (credentials.has(lower))
    return 'credentials are never forwarded; give the provider a credential of its own';
  if (cloudMetadata.has(lower)) return 'it opens metadata services of clouds';
  if (hopByHopHeaders.has(lower)) return 'it belongs to one connection';
  return headersSetAnew.has(lower) ? 'the gateway sets it anew for every provider' : undefined;
}

export interface ForwardOptions {
  /** Forward the caller's credential headers. */
  readonly passCredentials: boolean;
  /** The authorization header held a service key: never forward it. */
  readonly dropAuthorization: boolean;
  /** Prefix of service keys: a credential header that holds one is never forwarded, whichever header it is. */
  readonly keyPrefix: string;
  /** The body is replaced, so the headers that describe it are dropped. */
  readonly bodyChanged: boolean;
  /** Set where the request is translated: headers of the client's own dialect are dropped. */
  readonly translated?: { readonly speaksAnthropic: boolean } | undefined;
  /**
   * Trace context for the provider; the client's `baggage` is then forwarded. Undefined: `traceparent`, `tracestate` and
   * `baggage` are dropped, except those in `forward`.
   */
  readonly trace?: ForwardedTrace | undefined;
  /** Lower-case names that are kept although they belong to the client's dialect or to a trace. Default none. */
  readonly forward?: readonly string[] | undefined;
  /** Lower-case names that are dropped, even those in `forward`. Default none. */
  readonly sensitive?: readonly string[] | undefined;
}

/**
 * The client's headers for the provider, in their order and case; `names` describes them. Left out: hop-by-hop headers
 * and those that `Connection` names, all headers under the gateway's prefixes, the service key in any header, headers
 * that are set anew (host, length, accept-encoding), headers that the request calls sensitive, and, without `trace`,
 * trace headers. Credentials have their own rules, and headers that describe the body go with it even when they are
 * called sensitive.
 */
export function forwardRequestHeaders(
  headers: HeaderList,
  names: readonly HeaderName[],
  options: ForwardOptions,
): string[] {
  const forwarded: string[] = [];
  const named = connectionNames(headers, names);
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as HeaderName;
    if (name.hopByHop || name.ours || name.service !== undefined || named?.has(name.lower)) continue;
    const value = headers[2 * i + 1] as string;
    if (name.credential && !mayPassCredential(name.lower, value, options)) continue;
    if (options.bodyChanged && name.lower === 'content-encoding') continue;
    if (name.trace && !mayForwardTrace(name.lower, options)) continue;
    if (isWithheld(name, options)) continue;
    forwarded.push(headers[2 * i] as string, value);
  }
  const { trace, sensitive } = options;
  if (trace !== undefined && sensitive?.includes('traceparent') !== true)
    forwarded.push('traceparent', trace.parent);
  return forwarded;
}

/**
 * Headers of a request that may affect the provider's answer, as name (lower-case) and value in turn. Left out: headers
 * of the connection and of the gateway, credentials, headers about the client or the trace, and headers that the request
 * calls sensitive.
 */
export function relevantHeaders(
  headers: HeaderList,
  names: readonly HeaderName[],
  sensitive: readonly string[],
): HeaderList {
  const telling: string[] = [];
  for (let i = 0; i < names.length; i++) {
    const { lower, hopByHop, ours, service, credential, trace, ofClient } = names[i] as HeaderName;
    if (hopByHop || ours || service !== undefined || credential || trace || ofClient) continue;
    if (!sensitive.includes(lower)) telling.push(lower, headers[2 * i + 1] as string);
  }
  return telling;
}

/** Whether a trace header is forwarded. The gateway's own `traceparent` replaces the client's. */
function mayForwardTrace(lower: string, { trace, forward }: ForwardOptions): boolean {
  if (trace === undefined) return forward?.includes(lower) === true;
  return lower === 'baggage' || (lower === 'tracestate' && trace.keepsState);
}

/** Headers without which the body cannot be read. */
const describesBody: ReadonlySet<string> = new Set(['content-type', 'content-encoding', 'content-md5']);

function isWithheld(
  { lower, credential }: HeaderName,
  { translated, forward, sensitive }: ForwardOptions,
): boolean {
  if (sensitive?.includes(lower) === true && !credential && !describesBody.has(lower)) return true;
  if (translated === undefined) return false;
  const isForced = forward?.includes(lower) === true && !describesBody.has(lower);
  return !isForced && isClientWireHeader(lower, translated.speaksAnthropic);
}

/** Headers of the client's own dialect and SDK, which have no meaning for a host of another one. */
const clientsWire = /^(?:content-type|content-md5|accept|x-stainless-|openai-|x-goog-(?!api-key$))/;

function isClientWireHeader(lower: string, speaksAnthropic: boolean): boolean {
  return lower.startsWith('anthropic-') ? !speaksAnthropic : clientsWire.test(lower);
}

/** Rules for the caller's credential headers. */
type CredentialRules = Pick<ForwardOptions, 'passCredentials' | 'dropAuthorization' | 'keyPrefix'>;

/** Whether a credential header of the caller, named in lower case, is forwarded to the provider. */
export function mayPassCredential(name: string, value: string, options: CredentialRules): boolean {
  if (!options.passCredentials || (name === 'authorization' && options.dropAuthorization)) return false;
  const secret = name === 'authorization' ? value.replace(/^\s*bearer\s+/i, '') : value;
  return !secret.startsWith(options.keyPrefix);
}

/** Without prefixes of the gateway. */
const anyNames = new HeaderNames([]);

/** Answer headers under the gateway's prefixes that only the gateway itself may set. */
const ofTheGateway: ReadonlySet<string> = new Set([
  'request-id',
  'trace-id',
  'provider',
  'cache-status',
  'retry-attempt-count',
  'last-used-option-index',
  'dropped',
  'explain',
  'warning',
]);

/**
 * The provider's headers for the client: all except hop-by-hop ones, those that apply to the origin that a browser sees
 * (cookies, HSTS, CORS), the length unless `keepLength`, and those that the gateway itself sets under the prefixes of
 * `known`, which a provider that is also a gateway would send.
 */
export function forwardAnswerHeaders(
  headers: HeaderList,
  keepLength: boolean,
  known: HeaderNames = anyNames,
): string[] {
  const forwarded: string[] = [];
  const names = known.ofList(headers);
  const named = connectionNames(headers, names);
  for (let i = 0; i < names.length; i++) {
    const { lower, hopByHop, ofOrigin, service } = names[i] as HeaderName;
    if (hopByHop || ofOrigin || named?.has(lower) || (!keepLength && lower === 'content-length')) continue;
    if (service !== undefined && ofTheGateway.has(service)) continue;
    forwarded.push(headers[2 * i] as string, headers[2 * i + 1] as string);
  }
  return forwarded;
}

/** Names in the provider's `Connection` headers, which are hop-by-hop. */
function connectionNames(headers: HeaderList, names: readonly HeaderName[]): Set<string> | undefined {
  let named: Set<string> | undefined;
  for (let i = 0; i < names.length; i++) {
    if ((names[i] as HeaderName).lower !== 'connection') continue;
    const value = (headers[2 * i + 1] as string).toLowerCase();
    if (value === 'keep-alive' || value === 'close') continue;
    named ??= new Set();
    for (const part of value.split(',')) named.add(part.trim());
  }
  return named;
}

/** Merged options by target, for the plugin options of its last attempt: there is nearly always one plugin. */
const merged = new WeakMap<PlanLeaf, { readonly options: RouteOptions; readonly made: AttemptOptions }>();

/**
 * The plugin's options, overridden by the target's settings, and both by the request's own headers. Throws
 * `invalid_header`.
 */
export function attemptOptionsOf(
  exchange: Exchange,
  leaf: PlanLeaf | undefined,
  options: RouteOptions,
): AttemptOptions {
  const base = leaf === undefined ? options : leafOptions(leaf, options);
  const said = readRoutingHeaders(exchange);
  const { requestTimeoutMs, forwardHeaders, sensitiveHeaders } = said;
  const isSilent = requestTimeoutMs === undefined && forwardHeaders.length + sensitiveHeaders.length === 0;
  if (isSilent) return base;
  const limit = requestTimeoutMs ?? base.requestTimeoutMs;
  return {
    ...base,
    requestTimeoutMs: limit,
    headTimeoutMs: longEnough(base.headTimeoutMs, limit),
    forwardHeaders: forwardHeaders.length > 0 ? forwardHeaders : base.forwardHeaders,
    sensitiveHeaders,
  };
}

function leafOptions(leaf: PlanLeaf, options: RouteOptions): AttemptOptions {
  const known = merged.get(leaf);
  if (known?.options === options) return known.made;
  const { settings } = leaf;
  const requestTimeoutMs = settings.requestTimeoutMs ?? options.requestTimeoutMs;
  const made: AttemptOptions = {
    ...options,
    requestTimeoutMs,
    headTimeoutMs: longEnough(options.headTimeoutMs, requestTimeoutMs),
    firstTokenTimeoutMs: settings.firstTokenTimeoutMs ?? options.firstTokenTimeoutMs,
    idleTimeoutMs: settings.idleTimeoutMs ?? options.idleTimeoutMs,
    strictOpenAiCompliance: settings.strictOpenAiCompliance ?? options.strictOpenAiCompliance,
    configOnDrop: settings.onDrop,
    forwardHeaders: settings.forwardHeaders,
  };
  merged.set(leaf, { options, made });
  return made;
}

/** A longer timeout of a whole attempt also applies to the head of its answer. */
function longEnough(headTimeoutMs: number, requestTimeoutMs: number): number {
  return headTimeoutMs === 0 ? 0 : Math.max(headTimeoutMs, requestTimeoutMs);
}
