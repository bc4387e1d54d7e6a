import { sharedAccess } from './shared-access.ts';

/** What messages call one. */
export const mcpIntegrationNoun = 'MCP integration';

/** Who may do what with MCP integrations. */
export const mcpIntegrationAccess = sharedAccess('mcp_integration', {
  noun: mcpIntegrationNoun,
  resource: 'mcp_integrations',
});
