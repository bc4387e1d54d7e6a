import { definePlugin, defineRoute, GatewayError, type Scope, Type } from '../../core/pipeline/plugin.ts';
import { compileRedaction, redactionFaults } from '../../core/redaction/redaction.ts';
import { redactionRules } from '../../core/redaction/redaction-options.ts';
import { apiKeyRoutes } from './api-keys/routes.ts';
import { auditLogRoutes, DeniedAttempts } from './audit-logs.ts';
import { callerRoute } from './api-keys/access.ts';
import { cacheSummaryRoute, graphRoutes } from './analytics/routes.ts';
import { configFileRoutes } from './config-file.ts';
import { configRoutes } from './configs/routes.ts';
import { collectionRoutes } from './prompts/collections.ts';
import { deploymentRoutes } from './deployments.ts';
import { exportRoutes } from './exports/routes.ts';
import { feedbackRoutes } from './feedback.ts';
import { getLogRoute, listLogsRoute } from './logs/routes.ts';
import { groupMappingRoutes } from './users/group-mappings.ts';
import { groupRoutes, namedGroupRoutes } from './analytics/groups.ts';
import { guardrailChecksRoute, guardrailRoutes } from './guardrails/routes.ts';
import { insertLogsRoute } from './logs/reported.ts';
import { integrationRoutes } from './integrations/routes.ts';
import { modelPricingRoute, providerKindsRoute } from './integrations/models.ts';
import { inviteRoutes } from './invites/routes.ts';
import { litellmRoutes } from './litellm/routes.ts';
import { labelRoutes } from './prompts/labels.ts';
import { memberRoutes } from './workspaces/members.ts';
import { otelRoutes } from './telemetry/routes.ts';
import { promptPartialRoutes } from './prompts/partials.ts';
import { promptRoutes } from './prompts/routes.ts';
import { settingsRoutes } from './settings/routes.ts';
import { secretReferenceRoutes } from './secret-references/routes.ts';
import { rateLimitPolicyRoutes } from './policies/rate-limits.ts';
import { LogStreams } from './logs/stream.ts';
import { traceRoutes } from './logs/traces.ts';
import { usageLimitPolicyRoutes } from './policies/usage-limits.ts';
import { providerRoutes } from './providers/routes.ts';
import { userRoutes } from './users/routes.ts';
import { virtualKeyRoutes } from './providers/virtual-keys.ts';
import { workspaceRoutes } from './workspaces/routes.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import {
  mcpIntegrationCapabilityRoutes,
  mcpServerCapabilityRoutes,
} from './mcp-integrations/capabilities.ts';
import { mcpIntegrationRoutes } from './mcp-integrations/routes.ts';
import { mcpMetadataRoutes, mcpServerTestRoute } from './mcp-integrations/metadata.ts';
import { mcpServerConnectionRoutes } from './mcp-servers/connections.ts';
import { mcpServerRoutes } from './mcp-servers/routes.ts';
import { mcpVirtualServerRoutes } from './mcp-virtual-servers/routes.ts';
import { mcpServerUserAccessRoutes } from './mcp-servers/user-access.ts';
import { reachOf } from '../../core/access/scopes.ts';
import { type CacheArea, invalidationKeptMs, invalidationKey } from '../../core/base/cache-namespace.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';

/** The administration API: contributes its routes to a pipeline that matches `routes: contributed`. */
export default definePlugin({
  name: 'management',
  description:
    'Serves the administration API: workspaces, people, service keys and the audit trail; log entries and analytics, limited to the access of the key; the invalidation of cached answers.',
  schema: Type.Object(
    {
      redact: Type.Optional(
        redactionRules('requests, answers and spans that are reported by `POST /logs` or over OTLP'),
      ),
      litellm: Type.Optional(
        Type.Boolean({
          default: false,
          description:
            "Also answer the paths of LiteLLM's proxy for keys and teams (`/key/generate`, `/team/new` …), over the same records; members without a counterpart are refused unless they are empty. See docs/moving-from-litellm.md.",
        }),
      ),
      config_writes: Type.Optional(
        Type.Boolean({
          default: false,
          description:
            "Whether holders of an owner's key may write the text of the configuration file over the API and in the console, where they read it in any case, its literal secrets masked. A caller who may write it may run code in the gateway: a plugin is a file that it names.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  capabilities: { needs: ['key'], routes: true },
  check: ({ redact }) => redactionFaults(redact, '/redact'),
  async create({ redact = [], config_writes: writes = false, litellm = false }, scope) {
    const redaction = compileRedaction(redact, scope.keyPrefix);
    const streams = new LogStreams(scope);
    const routes = [
      listLogsRoute(scope),
      insertLogsRoute(scope, redaction),
      streams.route,
      getLogRoute(scope),
      ...traceRoutes(scope),
      ...exportRoutes(scope),
      ...groupRoutes(scope),
      ...namedGroupRoutes(scope),
      ...graphRoutes(scope),
      cacheSummaryRoute(scope),
      invalidateCacheRoute(scope),
      callerRoute(scope),
      ...configFileRoutes(scope, writes),
      ...settingsRoutes(scope),
      ...userRoutes(scope),
      ...workspaceRoutes(scope),
      ...memberRoutes(scope),
      ...inviteRoutes(scope),
      ...groupMappingRoutes(scope),
      ...apiKeyRoutes(scope),
      ...integrationRoutes(scope),
      ...providerRoutes(scope),
      ...virtualKeyRoutes(scope),
      ...configRoutes(scope),
      ...secretReferenceRoutes(scope),
      ...auditLogRoutes(),
      ...rateLimitPolicyRoutes(scope),
      ...usageLimitPolicyRoutes(scope),
      ...guardrailRoutes(scope),
      guardrailChecksRoute(scope),
      ...deploymentRoutes(scope),
      ...feedbackRoutes(scope),
      ...otelRoutes(scope, redaction),
      modelPricingRoute(scope),
      providerKindsRoute(scope),
      ...collectionRoutes(scope),
      ...labelRoutes(scope),
      ...promptPartialRoutes(scope),
      ...promptRoutes(scope),
      ...mcpRoutes(scope),
      ...(litellm ? litellmRoutes(scope) : []),
    ];
    const retiring = (): void => streams.end();
    if (scope.resources === undefined || !scope.features.isOn('audit_logs')) return { routes, retiring };
    const denied = new DeniedAttempts(scope, scope.resources);
    return { routes, retiring, settled: (context, outcome) => denied.settled(context, outcome) };
  },
});

/** Routes of MCP (Model Context Protocol) servers and integrations. */
function mcpRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    ...mcpIntegrationRoutes(scope),
    ...mcpIntegrationCapabilityRoutes(scope),
    ...mcpServerRoutes(scope),
    mcpServerTestRoute(scope),
    ...mcpServerCapabilityRoutes(scope),
    ...mcpServerUserAccessRoutes(scope),
    ...mcpServerConnectionRoutes(scope),
    ...mcpMetadataRoutes(scope),
    ...mcpVirtualServerRoutes(scope),
  ];
}

const Query = Type.Object(
  {
    namespace: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        description: 'Namespace whose answers are invalidated, as in the request header `cache-namespace`.',
      }),
    ),
    all: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Invalidate all answers of the workspace, with or without a namespace. Instead of `namespace`.',
      }),
    ),
    workspace_id: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 256,
        description: 'For owner and organisation keys. Default: the workspace of the key.',
      }),
    ),
  },
  { additionalProperties: false },
);

const Reply = Type.Object({
  success: Type.Literal(true),
  data: Type.Object({
    namespace: Type.Union([Type.String(), Type.Null()], { description: 'Null for the whole workspace.' }),
    workspace_id: Type.String(),
    invalidated_at: Type.String({
      format: 'date-time',
      description: 'Answers to requests before this time are no longer used.',
    }),
  }),
});

/** Value of a mark; only its storage time matters. */
const mark = Buffer.from('invalidated', 'utf8');

/** `DELETE /cache`: invalidates the cached answers of a namespace or of a workspace, including those by similarity. */
export function invalidateCacheRoute({ cache, clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'cache.delete',
    method: 'DELETE',
    path: '/cache',
    summary: 'Invalidates cached answers of one namespace or of a whole workspace',
    scope: 'cache.delete',
    audit: 'delete',
    query: Query,
    reply: Reply,
    async handle({ query, key }) {
      const area = areaOf(query, key);
      const place = invalidationKey(area);
      const asked = clock.now();
      await cache.set(place, mark, invalidationKeptMs);
      // An unreachable store drops writes silently, so the mark is read back.
      const kept = await cache.get(place);
      if (kept === undefined || kept.storedAt < asked) {
        throw new GatewayError(
          'store_unavailable',
          'The cache store has not taken it: answers of before may still be used. Try again when the store answers.',
          { headers: ['retry-after', '2'] },
        );
      }
      return {
        success: true as const,
        data: {
          namespace: area.namespace ?? null,
          workspace_id: area.workspaceId,
          invalidated_at: new Date(kept.storedAt).toISOString(),
        },
      };
    },
  });
}

function areaOf(
  {
    namespace,
    all = false,
    workspace_id: named,
  }: { namespace?: string; all?: boolean; workspace_id?: string },
  key: KeyRecord,
): CacheArea {
  if ((namespace === undefined) !== all) {
    throw new GatewayError(
      'invalid_request',
      all
        ? 'Give either "namespace" or "all=true", not both.'
        : 'Which answers? Give "namespace", or "all=true" for all of the workspace.',
      { param: 'namespace' },
    );
  }
  const { organisationId, workspaceId: reach } = reachOf(key);
  if (reach !== undefined && named !== undefined && named !== reach) {
    throw new GatewayError('scope_missing', `The key "${key.name}" belongs to another workspace.`, {
      param: 'workspace_id',
    });
  }
  return { organisationId, workspaceId: named ?? key.workspaceId, namespace };
}
