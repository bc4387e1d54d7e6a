import type { GatewayConfig } from '../config/schema.ts';
import type { ProviderRow, ProviderTable } from '../ports/provider-row.ts';
import { headerValue } from '../ports/header-list.ts';
import type { Target } from '../ports/router.ts';
import { credentialHeaders } from '../ports/header-names.ts';

/** A provider that can be addressed by name: its row laid out, and the credential that the gateway holds for it. */
export interface KnownProvider {
  /** With the credential that is held, or none: the caller's stays here. */
  readonly target: Target;
  /** With the caller's own credential. Only for a built-in name for which the gateway holds none. */
  readonly callerTarget: Target | undefined;
  readonly row: ProviderRow;
  /** Defined in YAML, and so addressable as a slug or virtual key. */
  readonly configured: boolean;
}

/** Every addressable provider by name: the built-in rows, overridden and extended by the configuration. */
export function compileTargets(
  providers: GatewayConfig['providers'],
  table: ProviderTable,
): ReadonlyMap<string, KnownProvider> {
  const known = new Map<string, KnownProvider>();
  for (const [name, row] of table) known.set(name, compile({ name, row, builtIn: true, configured: false }));
  for (const [name, { api_key: apiKey, ...row }] of Object.entries(providers)) {
    const merged = { ...table.get(name), ...row, headers: { ...table.get(name)?.headers, ...row.headers } };
    if (merged.base_url === undefined) continue;
    known.set(name, compile({ name, row: merged, apiKey, builtIn: table.has(name), configured: true }));
  }
  return known;
}

interface Source {
  readonly name: string;
  readonly row: ProviderRow;
  readonly apiKey?: string | undefined;
  readonly builtIn: boolean;
  readonly configured: boolean;
}

function compile({ name, row, apiKey, builtIn, configured }: Source): KnownProvider {
  const { origin, basePath } = splitBaseUrl(row.base_url ?? '');
  const credentials = row.credentials ?? 'bearer';
  const headers = Object.entries(row.headers ?? {}).flat();
  if (apiKey !== undefined) headers.push(...credentialHeader(credentials, apiKey));
  const held =
    credentials === 'none' || credentialHeaders.some((one) => headerValue(headers, one) !== undefined);
  const target: Target = {
    provider: name,
    service: row.service ?? name,
    dialect: row.dialect ?? 'openai-chat',
    origin,
    basePath,
    guarded: false,
    headers,
    passAuthorization: false,
    usageInStream: row.usage_in_stream ?? 'on_request',
  };
  const callerTarget = builtIn && !held ? { ...target, passAuthorization: true } : undefined;
  return { row, configured, target, callerTarget };
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
