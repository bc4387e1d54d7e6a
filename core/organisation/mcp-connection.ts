import { sha256 } from '../base/bytes.ts';
import type { OauthClient, OauthClients } from '../ports/oauth.ts';
import type { StoredRecord } from '../ports/records.ts';
import { type SecretBox, secretContext } from '../ports/secret-managers.ts';

/** Secrets of a connection, and the last of them of a client, by field. */
type ConnectionField = 'access_token' | 'refresh_token' | 'client_secret';

/** Slug of the record of a user's connection to a server: one for each. */
export function connectionSlug(server: string, userId: string): string {
  return `c-${sha256(JSON.stringify([server, userId]), 'base64url')}`;
}

/** An opened secret of a connection or a client; empty for none. Throws `internal` when its key is missing. */
export function connectionSecret(
  { id, secrets }: StoredRecord<'mcp_connection' | 'mcp_client'>,
  field: ConnectionField,
  box: SecretBox,
): string {
  const sealed = secrets[field];
  return sealed === undefined ? '' : box.open(sealed, secretContext(id, field));
}

/** Sealed secrets of the record with this id; empty ones are left out. */
export function sealedConnection(
  id: string,
  plain: Readonly<Partial<Record<ConnectionField, string>>>,
  box: SecretBox,
): Readonly<Record<string, string>> {
  const given = Object.entries(plain).filter(([, text]) => text !== '');
  return Object.fromEntries(given.map(([field, text]) => [field, box.seal(text, secretContext(id, field))]));
}

/**
 * The client that a connection belongs to. `secret` is that of the settings, for a client that the gateway has not
 * registered itself.
 */
export function clientOfConnection(
  record: StoredRecord<'mcp_connection'>,
  secret: string,
  box: SecretBox,
): OauthClient {
  const { clientId: id, clientMethod: method, isRegistered } = record.data;
  return { id, method, secret: isRegistered ? connectionSecret(record, 'client_secret', box) : secret };
}

/**
 * Has the authorization server forget the tokens (RFC 7009), where it can. Rejects with `credentials_failed` or
 * `address_refused`.
 */
export async function revokeConnection(
  oauth: OauthClients,
  record: StoredRecord<'mcp_connection'>,
  client: OauthClient,
  box: SecretBox,
): Promise<void> {
  const { issuer, revocationEndpoint } = record.data;
  if (revocationEndpoint === '') return;
  const token =
    connectionSecret(record, 'refresh_token', box) || connectionSecret(record, 'access_token', box);
  if (token !== '') await oauth.revoke({ issuer, revocationEndpoint }, client, token);
}
