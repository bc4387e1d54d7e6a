import { GatewayError } from '../../core/errors/gateway-error.ts';

/** What goes with a failure beside its sentence. */
export interface McpFailureDetails {
  /** HTTP status of the server's answer; shown as `status` in the body of the error. */
  readonly status?: number;
  readonly cause?: unknown;
}

/**
 * No handshake came about. `host` as the caller named it; `why` ends the sentence in general words, with the remedy:
 * never what the server wrote, and never a header's value.
 */
export function mcpFailed(host: string, why: string, details: McpFailureDetails = {}): GatewayError {
  const { status, cause } = details;
  return new GatewayError('mcp_failed', `The handshake with "${host.slice(0, 255)}" failed: ${why}.`, {
    cause,
    ...(status === undefined ? {} : { extra: { status } }),
  });
}

/** What an HTTP status means that is no success. */
export function mcpRefused(host: string, status: number): GatewayError {
  return mcpFailed(host, `it answered with status ${status}; ${remedyOf(status)}`, { status });
}

function remedyOf(status: number): string {
  if (status < 400) return 'name the address to which it redirects';
  if (status === 401) return 'it wants credentials: set the headers that it expects (OAuth is not spoken)';
  if (status === 403) return 'it does not allow this: check the headers that are sent';
  if (status === 404) return 'check the path of the URL, and whether its transport is http or sse';
  if (status === 405) return 'it does not speak this transport: try the other one, http or sse';
  if (status === 429) return 'it had too many requests: try again later';
  return status < 500 ? 'check the URL, its transport and the headers that are sent' : "see the server's log";
}
