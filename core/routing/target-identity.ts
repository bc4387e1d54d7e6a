import { callerKeyHeader } from '../pipeline/keys.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { isSameList, type HeaderList } from '../ports/header-list.ts';
import type { HeaderName } from '../base/header-names.ts';
import type { Target } from '../pipeline/router.ts';
import { sha256 } from '../base/sha256.ts';
import { mayPassCredential } from './forward-headers.ts';

/** Targets of the configuration live as long as their generation; those of one request are forgotten with it. */
const known = new WeakMap<Target, Known>();

interface Known {
  /** Without what callers send. */
  readonly own: string;
  /** What the last caller sent, where callers' credentials are passed on, and the digest of both. */
  latest: { readonly passed: HeaderList; readonly digest: string } | undefined;
}

/**
 * A digest that is equal when a request goes to the same address as another, with the same credential, the same settings,
 * the same headers of the gateway's own and the same ones that are forwarded by name: what `AttemptView.target` promises. Never a secret itself.
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

/** What a caller has forwarded on purpose is meant to be read by the provider. */
function addForwarded(passed: string[], { headers, headerNames }: Exchange, names: readonly string[]): void {
  for (let i = 0; i < headerNames.length; i++) {
    const { lower } = headerNames[i] as HeaderName;
    if (names.includes(lower)) passed.push('forwarded', lower, headers[2 * i + 1] as string);
  }
}

/** The credential headers of the caller that may go on to a provider, flat. */
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
