import { GatewayError } from '../errors/gateway-error.ts';

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
 * A base URL with its `{fields}` filled in. `global` has no region in its host names: `{vertex_region}-` vanishes then.
 * Throws `invalid_request` that names a field without a value, and for a row without any address.
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
