import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import type { Scope } from '../../core/pipeline/plugin.ts';
import { mcpIntegrationCapabilityRoutes } from './mcp-integration-capabilities.ts';
import { mcpIntegrationWorkspaceRoutes } from './mcp-integration-workspaces.ts';
import { mcpIntegrationRoutes } from './mcp-integrations.ts';
import { mcpMetadataRoutes } from './mcp-metadata.ts';
import { mcpServerCapabilityRoutes } from './mcp-server-capabilities.ts';
import { mcpServerConnectionRoutes } from './mcp-server-connections.ts';
import { mcpServerTestRoute } from './mcp-server-test.ts';
import { mcpServerUserAccessRoutes } from './mcp-server-user-access.ts';
import { mcpServerRoutes } from './mcp-servers.ts';

/** Everything about servers of the Model Context Protocol. */
export function mcpRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    ...mcpIntegrationRoutes(scope),
    ...mcpIntegrationWorkspaceRoutes(scope),
    ...mcpIntegrationCapabilityRoutes(scope),
    ...mcpServerRoutes(scope),
    mcpServerTestRoute(scope),
    ...mcpServerCapabilityRoutes(scope),
    ...mcpServerUserAccessRoutes(scope),
    ...mcpServerConnectionRoutes(),
    ...mcpMetadataRoutes(scope),
  ];
}
