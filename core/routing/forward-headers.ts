import type { HeaderList } from '../ports/header-list.ts';

/** Headers that belong to one connection (RFC 9110, 7.6.1) and never travel on. */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Set anew for the upstream, or answered by the gateway itself. */
const ours = new Set(['host', 'expect', 'content-length', 'accept-encoding']);
/** Where callers put provider credentials; replaced whenever the gateway brings its own. */
export const credentialHeaders = ['authorization', 'x-api-key', 'api-key'] as const;
const credentials: ReadonlySet<string> = new Set(credentialHeaders);

export interface ForwardOptions {
  /** Header prefixes of the gateway, each with its dash: `x-service-`. */
  readonly servicePrefixes: readonly string[];
  /** The caller's credential headers go along. */
  readonly passCredentials: boolean;
  /** The authorization header held a service key: it never goes along. */
  readonly dropAuthorization: boolean;
  /** What service keys begin with: a credential header that holds one never goes along, wherever the caller put it. */
  readonly keyPrefix: string;
  /** Replaces the body: its description no longer holds. */
  readonly bodyChanged: boolean;
}

const lowerCased = new Map<string, string>();
const maxLowerCased = 4096;

/**
 * The client's headers that go on to the provider, in their order and case. Left out: hop-by-hop headers and
 * those that `Connection` names, everything under our prefixes, the service key wherever it was, and headers
 * that are set anew (host, length, accept-encoding).
 */
export function forwardRequestHeaders(headers: HeaderList, options: ForwardOptions): string[] {
  const forwarded: string[] = [];
  const named = connectionNames(headers);
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    const lower = lowerCase(name);
    if (hopByHop.has(lower) || ours.has(lower) || named?.has(lower)) continue;
    if (credentials.has(lower) && !mayPass(lower, headers[i + 1] as string, options)) continue;
    if (options.bodyChanged && lower === 'content-encoding') continue;
    if (startsWithAny(lower, options.servicePrefixes)) continue;
    forwarded.push(name, headers[i + 1] as string);
  }
  return forwarded;
}

function mayPass(name: string, value: string, options: ForwardOptions): boolean {
  if (!options.passCredentials || (name === 'authorization' && options.dropAuthorization)) return false;
  const secret = name === 'authorization' ? value.replace(/^\s*bearer\s+/i, '') : value;
  return !secret.startsWith(options.keyPrefix);
}

/** The provider's headers that go on to the client: all but hop-by-hop ones, and the length unless it is kept. */
export function forwardAnswerHeaders(headers: HeaderList, keepLength: boolean): string[] {
  const forwarded: string[] = [];
  const named = connectionNames(headers);
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    const lower = lowerCase(name);
    if (hopByHop.has(lower) || named?.has(lower) || (!keepLength && lower === 'content-length')) continue;
    forwarded.push(name, headers[i + 1] as string);
  }
  return forwarded;
}

function connectionNames(headers: HeaderList): Set<string> | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (lowerCase(headers[i] as string) !== 'connection') continue;
    const value = (headers[i + 1] as string).toLowerCase();
    if (value !== 'keep-alive' && value !== 'close')
      return new Set(value.split(',').map((part) => part.trim()));
  }
  return undefined;
}

function startsWithAny(name: string, prefixes: readonly string[]): boolean {
  for (const prefix of prefixes) if (name.startsWith(prefix)) return true;
  return false;
}

/** Header names repeat on every request; lower-casing each of them again would be most of the cost here. */
function lowerCase(name: string): string {
  let lower = lowerCased.get(name);
  if (lower === undefined) {
    lower = name.toLowerCase();
    if (lowerCased.size < maxLowerCased) lowerCased.set(name, lower);
  }
  return lower;
}
