import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { McpClients } from '../../core/ports/mcp.ts';

/** What `createMcpClients` needs. */
export interface McpClientsOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** `security.trusted_hosts`. */
  readonly trustedHosts: readonly string[];
}

/** Makes what speaks to servers of the Model Context Protocol. */
export function createMcpClients(_options: McpClientsOptions): McpClients {
  throw new Error('not written');
}
