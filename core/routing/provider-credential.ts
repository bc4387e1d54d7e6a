import type { CredentialFactory, CredentialKind, Credentials } from '../ports/credentials.ts';
import type { ProviderRow } from '../providers/provider-row.ts';

export type CredentialHeader = NonNullable<ProviderRow['credentials']>;

/** What authorizes requests to one provider: fixed headers, or credentials that sign or fetch a token. */
export interface ProviderCredential {
  readonly headers: readonly string[];
  readonly credentials: Credentials | undefined;
}

/** Where a credential comes from. */
export interface CredentialSource {
  readonly row: ProviderRow;
  readonly apiKey: string | undefined;
  readonly fields: Readonly<Record<string, string>>;
  readonly factory: CredentialFactory;
  /** The operator wrote the fields. */
  readonly configured: boolean;
}

/** The credential that row, key and fields amount to; undefined when they hold none. Throws `invalid_request` for a field that is wrong. */
export function providerCredential(source: CredentialSource): ProviderCredential | undefined {
  const { row, apiKey, fields, factory, configured } = source;
  const kind = row.credentials ?? 'bearer';
  const made = madeKind(kind, fields, apiKey, configured);
  if (made !== undefined) {
    const given = apiKey === undefined ? fields : { ...fields, api_key: apiKey };
    return { headers: [], credentials: factory.create(made, given, { machineIdentity: configured }) };
  }
  if (apiKey === undefined) return undefined;
  return { headers: credentialHeader(kind, apiKey), credentials: undefined };
}

/** The header in which a host expects its credential. */
export function credentialHeader(kind: CredentialHeader, secret: string): string[] {
  if (kind === 'none') return [];
  const inOwnHeader = kind === 'x-api-key' || kind === 'api-key' || kind === 'x-goog-api-key';
  return inOwnHeader ? [kind, secret] : ['authorization', `Bearer ${secret}`];
}

/** The kind of credentials that have to be made per request or fetched; undefined when a fixed header does. */
function madeKind(
  kind: CredentialHeader,
  fields: Readonly<Record<string, string>>,
  apiKey: string | undefined,
  configured: boolean,
): CredentialKind | undefined {
  if (fields['azure_ad_token'] !== undefined || fields['azure_auth_mode'] !== undefined) return 'entra';
  if (fields['azure_entra_client_id'] !== undefined) return 'entra';
  if (kind === 'google' && fields['vertex_service_account_json'] !== undefined) return 'google';
  if (kind === 'entra' && apiKey === undefined && configured) return 'entra';
  if (kind !== 'sigv4' || apiKey !== undefined) return undefined;
  const own = fields['aws_access_key_id'] !== undefined || fields['aws_role_arn'] !== undefined;
  return own || (configured && fields['aws_region'] !== undefined) ? 'sigv4' : undefined;
}
