import { GatewayError, type Scope } from '../../core/pipeline/plugin.ts';
import type { McpAddress } from '../../core/ports/mcp.ts';
import { addressOf, type ReferringIntegration } from './mcp-address.ts';

const maxFailureLength = 1000;
/** Shorter values would be found in every sentence. */
const shortestHidden = 4;

/** How a handshake ended. */
export type Handshake<T> =
  | { readonly value: T }
  | {
      /** A sentence for people, without any header's value. */
      readonly failure: string;
      /** HTTP status of the server's answer, where there was one. */
      readonly status: number | undefined;
    };

/** What handshakes are made with. */
export type HandshakeScope = Pick<Scope, 'log' | 'mcp' | 'secrets' | 'secretManagers'>;

/**
 * Speaks to the server of an MCP integration, for the workspace or for the organisation itself. Never rejects: a server
 * that cannot be spoken to is an answer, too. Not for use within a transaction.
 */
export async function shakeHands<T>(
  scope: HandshakeScope,
  integration: ReferringIntegration,
  workspaceId: string | undefined,
  speak: (address: McpAddress) => Promise<T>,
): Promise<Handshake<T>> {
  let address: McpAddress | undefined;
  try {
    address = await addressOf(integration, workspaceId, scope);
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

function withoutValues(message: string, address: McpAddress | undefined): string {
  let text = message;
  const values = address?.headers.filter((_, index) => index % 2 === 1) ?? [];
  for (const value of values) if (value.length >= shortestHidden) text = text.replaceAll(value, '…');
  return text;
}
