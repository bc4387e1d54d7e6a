import type { HeaderList } from '../ports/header-list.ts';
import { headerNameList } from '../base/header-names.ts';

/** What is told in place of a value. */
export const mask = '***';
const mostHeaders = 64;
const mostUnits = 512;
const mostBytes = 8192;

/** Headers whose values are no secret by what they are for. Every other value is masked, because nobody knows what it is. */
const shownNames =
  /^(?:accept|accept-encoding|accept-language|anthropic-beta|anthropic-version|cache-control|connection|content-encoding|content-length|content-type|date|host|openai-beta|priority|transfer-encoding|user-agent|x-request-id|x-stainless-[a-z-]+)$/;
/** The same of the gateway's own headers, without their prefix. */
const shownServiceNames: ReadonlySet<string> = new Set([
  ...['cache-force-refresh', 'cache-namespace', 'debug', 'explain', 'package-version', 'provider'],
  ...['request-timeout', 'span-id', 'span-name', 'strict-open-ai-compliance', 'trace-id'],
]);
/** What keys and tokens look like: a scheme of authorization, the beginnings that issuers give them, or a long run of letters and digits. */
const secretLike =
  /\b(?:bearer|basic|digest|token)\s+\S|\b(?:sk|pk|rk|gh[opsu]|xox[abp]|akia|aiza|eyj)[-_a-z0-9]{12,}|\b(?=[a-z_-]*[0-9])(?=[0-9_-]*[a-z])[a-z0-9_-]{40,}/i;

/** What deciding over a header needs to know of its request. */
export interface ShownHeadersOptions {
  /** Names of the gateway's own headers in this request, without their prefix (`trace-id`). */
  readonly serviceNames: readonly string[];
  /** What service keys begin with. */
  readonly keyPrefix: string;
  /** The value of the request's `sensitive-headers` header. */
  readonly sensitive: string | undefined;
  /** Takes out of a value what must not be told. Default: nothing. */
  readonly redact?: ((value: string) => string) | undefined;
  /** Further names, in lower case, whose values are no secret by what they are for. Default: none. */
  readonly alsoShown?: RegExp;
  /** Whether it is known who gave a header this value; one of unknown origin is masked. Default: all are known. */
  readonly isKnown?: (name: string, value: string) => boolean;
}

/**
 * The headers of a request as they may be told: names in lower case, repeated ones joined. A value is shown only where
 * the name says that it is no secret and the value does not look like one; all others are `***`. At most 64 headers and
 * about 8 KiB.
 */
export function shownHeaders(headers: HeaderList, options: ShownHeadersOptions): Record<string, string> {
  const { sensitive, alsoShown, isKnown } = options;
  const named = sensitive === undefined ? [] : headerNameList(sensitive);
  const shown = new Map<string, string>();
  let bytes = 0;
  for (let i = 0; i < headers.length && shown.size < mostHeaders; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    const given = headers[i + 1] as string;
    const isHarmless = isShownName(name, options.serviceNames) || alsoShown?.test(name) === true;
    const isShown = isHarmless && !named.includes(name) && isKnown?.(name, given) !== false;
    const value = isShown ? shownValue(given, options) : mask;
    const before = shown.get(name);
    bytes += name.length + value.length;
    if (bytes > mostBytes) break;
    shown.set(
      name,
      before === undefined ? value : before === mask || value === mask ? mask : `${before}, ${value}`,
    );
  }
  return Object.fromEntries(shown);
}

function isShownName(name: string, serviceNames: readonly string[]): boolean {
  if (shownNames.test(name)) return true;
  return serviceNames.some((own) => shownServiceNames.has(own) && name.endsWith(`-${own}`));
}

/** Whether a text looks like a key or a token, or holds a service key. */
export function looksSecret(text: string, keyPrefix: string): boolean {
  return secretLike.test(text) || text.includes(keyPrefix);
}

function shownValue(value: string, { keyPrefix, redact }: ShownHeadersOptions): string {
  if (looksSecret(value, keyPrefix)) return mask;
  const told = redact === undefined ? value : redact(value);
  return told.length > mostUnits ? `${told.slice(0, mostUnits)}…` : told;
}
