import { hostRefusalReason } from '../base/host-rules.ts';
import { GatewayError } from '../errors/gateway-error.ts';

/** Longest custom host, in characters. */
const maxCustomHost = 2048;

export interface BaseUrl {
  readonly origin: string;
  /** Path without a trailing slash: `/v1`. */
  readonly basePath: string;
}

/** `https://host/v1/` → origin and `/v1`. The built-in provider's `mock:…` stays whole. */
export function splitBaseUrl(baseUrl: string): BaseUrl {
  if (baseUrl.startsWith('mock:')) return { origin: baseUrl, basePath: '' };
  const url = new URL(baseUrl);
  return { origin: url.origin, basePath: url.pathname.replace(/\/+$/, '') };
}

/**
 * A base URL with its `{fields}` filled in. `global` has no region in its host names, so `{vertex_region}-` is removed.
 * Throws `invalid_request` for a field without a value (naming it), and for a row without an address.
 */
export function fillBaseUrl(
  template: string,
  fields: Readonly<Record<string, string>>,
  place: { readonly provider: string; readonly headerPrefix: string },
): string {
  if (template === '') {
    throw new GatewayError(
      'invalid_request',
      `The provider "${place.provider}" has no address of its own. Set base_url under providers.${place.provider} in the configuration, or send ${place.headerPrefix}-custom-host.`,
      { param: 'base_url' },
    );
  }
  if (!template.includes('{')) return template;
  const regional = fields['vertex_region'] === 'global' ? template.replace('{vertex_region}-', '') : template;
  return regional.replace(/\{([a-z][a-z0-9_]*)\}/g, (_whole, name: string) => {
    const value = fields[name];
    if (value !== undefined && value !== '') return value;
    throw new GatewayError(
      'invalid_request',
      `The provider "${place.provider}" needs ${name}. Set it under providers.${place.provider} in the configuration, or send ${place.headerPrefix}-${name.replaceAll('_', '-')}.`,
      { param: name },
    );
  });
}

/** Rules for an address that does not come from the operator. */
interface HostJudgement {
  /** Whether the host may be private: it is listed, or comes from the operator. */
  readonly isTrusted: (url: URL) => boolean;
  /** The request field with the address, for the error. */
  readonly param: string;
}

/**
 * Whether connections to a requested host need the address guard: true unless it is trusted. The addresses behind a
 * name are checked at connection. Throws `custom_host_refused` for an invalid or private address.
 */
export function mustBeGuarded(customHost: string, { isTrusted, param }: HostJudgement): boolean {
  const refusal = (reason: string): GatewayError =>
    new GatewayError('custom_host_refused', `The custom host is refused: ${reason}`, { param });
  if (customHost.length > maxCustomHost) throw refusal(`it is longer than ${maxCustomHost} characters.`);
  if (!URL.canParse(customHost)) throw refusal('it is no URL. Send https://host/path.');
  const url = new URL(customHost);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refusal('only http and https are served.');
  if (url.username !== '' || url.password !== '')
    throw refusal('it carries credentials. Send them in Authorization.');
  if (url.search !== '' || url.hash !== '')
    throw refusal('it has a query or a fragment. Send only scheme, host and path.');
  if (isTrusted(url)) return false;
  const reason = hostRefusalReason(url.hostname);
  if (reason === undefined) return true;
  throw refusal(`${reason}, and "${url.host}" is not listed in security.trusted_hosts.`);
}
