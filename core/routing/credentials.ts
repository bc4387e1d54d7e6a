import { isPromise } from '../base/turns.ts';
import type { Credentials } from '../ports/credentials.ts';
import type { UpstreamRequest } from '../ports/transport.ts';
import type { ProviderRow } from '../providers/provider-row.ts';
import { callerKeyHeader } from '../pipeline/keys.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { type HeaderList, isSameList } from '../ports/header-list.ts';
import type { HeaderName } from '../base/header-names.ts';
import type { Target } from '../pipeline/router.ts';
import { sha256 } from '../base/bytes.ts';
import { mayPassCredential } from './forward-headers.ts';

/** Digests by target. Targets of the configuration live as long as their generation, others as long as their request. */
const known = new WeakMap<Target, Known>();

interface Known {
  /** The part without the caller's headers. */
  readonly own: string;
  /** The last caller's headers, where callers' credentials are passed on, and the digest of both parts. */
  latest: { readonly passed: HeaderList; readonly digest: string } | undefined;
}

/**
 * A digest that is equal for requests to the same address with the same credential, settings, headers of the gateway and
 * headers that are forwarded by name, as `AttemptView.target` promises. It reveals no secret.
 */
export function targetIdentity(
  exchange: Exchange,
  target: Target,
  keyPrefix: string,
  forwardHeaders: readonly string[],
): string {
  let one = known.get(target);
  if (one === undefined) {
    const { provider, dialect, origin, basePath, headers, credentialDigest } = target;
    const settings = Object.entries(target.settings).sort(([name], [other]) => (name < other ? -1 : 1));
    const parts = [provider, dialect, origin, basePath, credentialDigest, ...headers];
    const own = digest([...parts, ...settings.flat()]);
    one = { own, latest: undefined };
    known.set(target, one);
  }
  if (!target.passAuthorization && forwardHeaders.length === 0) return one.own;
  const passed = target.passAuthorization ? callerCredentials(exchange, keyPrefix) : [];
  if (forwardHeaders.length > 0) addForwarded(passed, exchange, forwardHeaders);
  if (one.latest === undefined || !isSameList(one.latest.passed, passed))
    one.latest = { passed, digest: digest([one.own, ...passed]) };
  return one.latest.digest;
}

/** Adds headers that the caller forwards by name, because the provider may read them. */
function addForwarded(passed: string[], { headers, headerNames }: Exchange, names: readonly string[]): void {
  for (let i = 0; i < headerNames.length; i++) {
    const { lower } = headerNames[i] as HeaderName;
    if (names.includes(lower)) passed.push('forwarded', lower, headers[2 * i + 1] as string);
  }
}

/** The caller's credential headers that may go to a provider, flat. */
export function callerCredentials(exchange: Exchange, keyPrefix: string): string[] {
  const { headers, headerNames } = exchange;
  const rules = {
    passCredentials: true,
    dropAuthorization: exchange.get(callerKeyHeader) === 'authorization',
    keyPrefix,
  };
  const passed: string[] = [];
  for (let i = 0; i < headerNames.length; i++) {
    const { lower, credential } = headerNames[i] as HeaderName;
    const value = headers[2 * i + 1] as string;
    if (credential && mayPassCredential(lower, value, rules)) passed.push(lower, value);
  }
  return passed;
}

function digest(parts: readonly string[]): string {
  return sha256(JSON.stringify(parts), 'base64url');
}

/** The request with the headers of the credentials; each replaces those of its name. A promise only to fetch a token. */
export function authorized(
  request: UpstreamRequest,
  credentials: Credentials,
): UpstreamRequest | Promise<UpstreamRequest> {
  const { method, origin, path, headers, body } = request;
  const signable = { method, origin, path, headers, body: body instanceof Uint8Array ? body : null };
  const added = credentials.authorize(signable);
  return isPromise(added) ? added.then((list) => withHeaders(request, list)) : withHeaders(request, added);
}

function withHeaders(request: UpstreamRequest, added: readonly string[]): UpstreamRequest {
  const names = new Set<string>();
  for (let i = 0; i < added.length; i += 2) names.add((added[i] as string).toLowerCase());
  const kept: string[] = [];
  const { headers } = request;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (!names.has(name.toLowerCase())) kept.push(name, headers[i + 1] as string);
  }
  return { ...request, headers: [...kept, ...added] };
}

type CredentialHeader = NonNullable<ProviderRow['credentials']>;

/** The header in which a host expects its credential. */
export function credentialHeader(kind: CredentialHeader, secret: string): string[] {
  if (kind === 'none') return [];
  const inOwnHeader = kind === 'x-api-key' || kind === 'api-key' || kind === 'x-goog-api-key';
  return inOwnHeader ? [kind, secret] : ['authorization', `Bearer ${secret}`];
}
