import type { GatewayError } from './gateway-error.ts';

/** Codes of JSON-RPC for the errors that have one; all others are server errors. */
const rpcCodes: Readonly<Partial<Record<GatewayError['code'], number>>> = {
  invalid_json: -32_700,
  mcp_message_invalid: -32_600,
  mcp_capability_refused: -32_602,
};

/** The user has to open an address first: `data` has `elicitations` (MCP 2025-11-25). */
const elicitationRequired = -32_042;

/** The error as the answer to the message of JSON-RPC with this `id`. */
export function rpcError(
  requestId: string,
  id: string | number | null,
  { code, message, extra }: GatewayError,
): { readonly jsonrpc: '2.0'; readonly id: typeof id; readonly error: object } {
  const data = { code, request_id: requestId, ...extra };
  const rpcCode = 'elicitations' in data ? elicitationRequired : (rpcCodes[code] ?? -32_000);
  // Messages are shortened, and this has to be whole.
  const link = extra?.['connect_url'];
  const told = typeof link === 'string' ? `${message} ${link}` : message;
  return { jsonrpc: '2.0', id, error: { code: rpcCode, message: told, data } };
}
