import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import { credentialHeaders } from '../../core/base/header-names.ts';
import type { TrustedHosts } from '../../core/base/host-rules.ts';
import { admitUrl, type AdmittedUrl } from './admit-url.ts';
import { fetchFailed } from './fetch-errors.ts';

/** One request on the wire; a redirect makes the next one of it. */
export interface FetchStep extends AdmittedUrl {
  readonly method: string;
  readonly headers: HeaderList;
  readonly body: Uint8Array | null;
}

const redirects = new Set([301, 302, 303, 307, 308]);
/** Never sent to another origin than the one they were meant for. */
const secretHeaders = new Set<string>([...credentialHeaders, 'cookie', 'proxy-authorization']);

/** Where an answer sends its reader; undefined when it is an answer of its own. */
export function redirectOf(status: number, headers: HeaderList): string | undefined {
  return redirects.has(status) ? headerValue(headers, 'location') : undefined;
}

/**
 * The request that follows a redirect, as browsers make it: 303 asks with GET, 301 and 302 turn POST into GET, the
 * others repeat the request. Credentials stay with their origin. Throws `address_refused` for an address that may
 * not be called, and `fetch_failed` for a way from https to http.
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

/** Set by the fetch itself, or belonging to one connection. */
const owned = new Set([
  ...['host', 'connection', 'keep-alive', 'upgrade', 'expect', 'te', 'trailer'],
  ...['content-length', 'transfer-encoding', 'accept-encoding', 'proxy-connection'],
]);

/** The headers of a request as they go on the wire: plain bytes are asked for, because a bound counts what comes. */
export function wireHeaders(headers: HeaderList): string[] {
  return [...without(headers, (name) => owned.has(name)), 'accept-encoding', 'identity'];
}

/** True for an answer whose bytes are not the plain ones that `wireHeaders` asks for. */
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
