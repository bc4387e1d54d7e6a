import { definePlugin, Type } from '../../core/pipeline/plugin.ts';
import { compileRedaction, redactionFaults } from '../../core/redaction/redaction.ts';
import { redactionRules } from '../../core/redaction/redaction-options.ts';
import { apiKeyRoutes } from './api-keys.ts';
import { auditLogsRoute } from './audit-logs.ts';
import { cacheSummaryRoute } from './cache-summary.ts';
import { configRoutes } from './configs.ts';
import { collectionRoutes } from './collections.ts';
import { DeniedAttempts } from './denied-attempts.ts';
import { deploymentRoutes } from './deployments.ts';
import { exportRoutes } from './exports.ts';
import { feedbackRoutes } from './feedback.ts';
import { getLogRoute } from './get-log.ts';
import { graphRoutes } from './graph-routes.ts';
import { groupMappingRoutes } from './group-mappings.ts';
import { groupRoutes } from './groups.ts';
import { guardrailRoutes } from './guardrails.ts';
import { insertLogsRoute } from './insert-logs.ts';
import { invalidateCacheRoute } from './invalidate-cache.ts';
import { integrationRoutes } from './integrations.ts';
import { inviteRoutes } from './invites.ts';
import { labelRoutes } from './labels.ts';
import { listLogsRoute } from './list-logs.ts';
import { mcpRoutes } from './mcp-routes.ts';
import { memberRoutes } from './members.ts';
import { modelPricingRoute } from './model-pricing.ts';
import { namedGroupRoutes } from './named-groups.ts';
import { otelRoutes } from './otel-traces.ts';
import { promptPartialRoutes } from './prompt-partials.ts';
import { promptVersionRoutes } from './prompt-versions.ts';
import { promptRoutes } from './prompts.ts';
import { renderPromptRoute } from './render-prompt.ts';
import { settingsRoutes } from './organisation-settings.ts';
import { secretReferenceRoutes } from './secret-references.ts';
import { rateLimitPolicyRoutes } from './rate-limit-policies.ts';
import { LogStreams } from './stream-logs.ts';
import { traceRoutes } from './traces.ts';
import { usageLimitPolicyRoutes } from './usage-limit-policies.ts';
import { providerRoutes } from './providers.ts';
import { userRoutes } from './users.ts';
import { virtualKeyRoutes } from './virtual-keys.ts';
import { workspaceRoutes } from './workspaces.ts';

/** The administration API: contributes its routes to a pipeline that matches `routes: contributed`. */
export default definePlugin({
  name: 'management',
  description:
    'Serves the administration API: workspaces, people, service keys and the audit trail; log entries and analytics of what the key may see; the invalidation of cached answers.',
  schema: Type.Object(
    {
      redact: Type.Optional(
        redactionRules('requests, answers and spans that are reported by `POST /logs` or over OTLP'),
      ),
    },
    { additionalProperties: false },
  ),
  capabilities: { needs: ['key'], routes: true },
  check: ({ redact }) => redactionFaults(redact, '/redact'),
  async create({ redact = [] }, scope) {
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
      auditLogsRoute(),
      ...rateLimitPolicyRoutes(scope),
      ...usageLimitPolicyRoutes(scope),
      ...guardrailRoutes(scope),
      ...deploymentRoutes(scope),
      ...feedbackRoutes(scope),
      ...otelRoutes(scope, redaction),
      modelPricingRoute(scope),
      ...collectionRoutes(scope),
      ...labelRoutes(scope),
      ...promptPartialRoutes(scope),
      ...promptRoutes(scope),
      ...promptVersionRoutes(scope),
      renderPromptRoute(scope),
      ...mcpRoutes(scope),
    ];
    const retiring = (): void => streams.end();
    if (scope.resources === undefined || !scope.features.isOn('audit_logs')) return { routes, retiring };
    const denied = new DeniedAttempts(scope, scope.resources);
    return { routes, retiring, settled: (context, outcome) => denied.settled(context, outcome) };
  },
});
