import type { GatewayConfig } from '../config/schema.ts';
import type { ProviderRow, ProviderTable } from '../ports/provider-row.ts';
import type { Target } from '../ports/router.ts';

/** A provider that can be addressed by name: its row laid out, and the credential that the gateway holds for it. */
export interface KnownProvider {
  readonly target: Target;
  readonly row: ProviderRow;
  /** The gateway holds a credential: the caller's is never used. */
  readonly held: boolean;
  /** Defined in YAML, and so addressable as a slug or virtual key. */
  readonly configured: boolean;
}

/** Every addressable provider by name: the built-in rows, overridden and extended by the configuration. */
export function compileTargets(
  providers: GatewayConfig['providers'],
  table: ProviderTable,
): ReadonlyMap<string, KnownProvider> {
  const known = new Map<string, KnownProvider>();
  for (const [name, row] of table) known.set(name, compile(name, row, undefined, false));
  for (const [name, { api_key: apiKey, ...row }] of Object.entries(providers)) {
    const merged = { ...table.get(name), ...row, headers: { ...table.get(name)?.headers, ...row.headers } };
    if (merged.base_url !== undefined) known.set(name, compile(name, merged, apiKey, true));
  }
  return known;
}

function compile(
  name: string,
  row: ProviderRow,
  apiKey: string | undefined,
  configured: boolean,
): KnownProvider {
  const { origin, basePath } = splitBaseUrl(row.base_url ?? '');
  const credentials = row.credentials ?? 'bearer';
  const headers = Object.entries(row.headers ?? {}).flat();
  if (apiKey !== undefined) headers.push(...credentialHeader(credentials, apiKey));
  const held = apiKey !== undefined || credentials === 'none';
  return {
    row,
    held,
    configured,
    target: {
      provider: name,
      service: row.service ?? name,
      dialect: row.dialect ?? 'openai-chat',
      origin,
      basePath,
      headers,
      passAuthorization: !held,
      usageInStream: row.usage_in_stream ?? 'on_request',
    },
  };
}

/** The header in which a host expects its credential. */
export function credentialHeader(kind: NonNullable<ProviderRow['credentials']>, secret: string): string[] {
  if (kind === 'none') return [];
  return kind === 'bearer' ? ['authorization', `Bearer ${secret}`] : [kind, secret];
}

/** `https://host/v1/` → origin and `/v1`. The built-in provider's `mock:…` stays whole. */
export function splitBaseUrl(baseUrl: string): { origin: string; basePath: string } {
  if (baseUrl.startsWith('mock:')) return { origin: baseUrl, basePath: '' };
  const url = new URL(baseUrl);
  return { origin: url.origin, basePath: url.pathname.replace(/\/+$/, '') };
}
