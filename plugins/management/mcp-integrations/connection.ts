import { GatewayError, type Scope } from '../../../core/pipeline/plugin.ts';
import { mcpAddressOf, type ReferringIntegration } from '../../../core/organisation/mcp-address.ts';
import { clientCredentials, oauthSecretOf } from '../../../core/organisation/mcp-token.ts';
import type { McpAddress } from '../../../core/ports/mcp.ts';
import type { HeaderList } from '../../../core/ports/header-list.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';

const maxFailureLength = 1000;
/** Shorter header values are not hidden: they would match parts of ordinary words. */
const shortestHidden = 4;

/** Result of a handshake. */
export type Handshake<T> =
  | { readonly value: T }
  | {
      /** A sentence for users, without header values. */
      readonly failure: string;
      /** HTTP status of the server's answer; undefined without an answer. */
      readonly status: number | undefined;
    };

/** Parts of the scope for handshakes. */
export type HandshakeScope = Pick<Scope, 'log' | 'mcp' | 'secrets' | 'secretManagers'>;

/**
 * Connects to the server of an MCP integration, for the workspace or for the organisation itself. Never rejects: a
 * failure is a result, too. Do not call it within a transaction.
 */
export async function shakeHands<T>(
  scope: HandshakeScope,
  integration: ReferringIntegration,
  workspaceId: string | undefined,
  speak: (address: McpAddress) => Promise<T>,
): Promise<Handshake<T>> {
  let address: McpAddress | undefined;
  try {
    address = await mcpAddressOf(integration, workspaceId, scope);
    address = {
      ...address,
      headers: [...address.headers, ...(await authorization(scope, integration, workspaceId))],
    };
    return { value: await speak(address) };
  } catch (error) {
    if (GatewayError.is(error)) {
      const status = error.extra?.['status'];
      return {
        failure: withoutValues(error.message, address).slice(0, maxFailureLength),
        status: typeof status === 'number' && Number.isInteger(status) ? status : undefined,
      };
    }
    const { id } = integration.record;
    const reason = withoutValues(String(error), address);
    scope.log.error('A handshake with an MCP server broke off', { integration: id, error: reason });
    return { failure: 'The gateway itself failed in the handshake; its log says why.', status: undefined };
  }
}

/** The gateway's own token for the server; tokens of users are of no use to a handshake that is made for all. */
async function authorization(
  scope: HandshakeScope,
  integration: ReferringIntegration,
  workspaceId: string | undefined,
): Promise<HeaderList> {
  const { url, authType, oauth: settings = {} } = integration.record.data;
  if (authType !== 'oauth_client_credentials') return [];
  const secret = await oauthSecretOf(integration, workspaceId, scope);
  const { accessToken } = await clientCredentials(scope.mcp.oauth, { url, settings }, secret);
  return ['authorization', `Bearer ${accessToken}`];
}

function withoutValues(message: string, address: McpAddress | undefined): string {
  let text = message;
  const values = address?.headers.filter((_, index) => index % 2 === 1) ?? [];
  for (const value of values) if (value.length >= shortestHidden) text = text.replaceAll(value, '…');
  return text;
}

/** Reads the secret references of an MCP integration for `mcpAddressOf`, which runs outside of the transaction. */
export async function withReferences(
  { records }: Pick<ResourcesReader, 'records'>,
  record: StoredRecord<'mcp_integration'>,
): Promise<ReferringIntegration> {
  const { organisationId, data } = record;
  const references: ReferringIntegration['references'][number][] = [];
  for (const { secretReferenceId } of data.secretMappings)
    references.push(await records.find('secret_reference', { organisationId }, secretReferenceId));
  return { record, references };
}
