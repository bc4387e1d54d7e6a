import { definePlugin, Type } from '../../core/pipeline/plugin.ts';
import { apiKeyRoutes } from './api-keys.ts';
import { auditLogsRoute } from './audit-logs.ts';
import { DeniedAttempts } from './denied-attempts.ts';
import { getLogRoute } from './get-log.ts';
import { groupMappingRoutes } from './group-mappings.ts';
import { groupRoutes } from './groups.ts';
import { invalidateCacheRoute } from './invalidate-cache.ts';
import { inviteRoutes } from './invites.ts';
import { memberRoutes } from './members.ts';
import { settingsRoutes } from './organisation-settings.ts';
import { userRoutes } from './users.ts';
import { workspaceRoutes } from './workspaces.ts';

/** The administration API: contributes its routes to a pipeline that matches `routes: contributed`. */
export default definePlugin({
  name: 'management',
  description:
    'Serves the administration API: workspaces, people, service keys and the audit trail; log entries and analytics of what the key may see; the invalidation of cached answers.',
  schema: Type.Object({}, { additionalProperties: false }),
  capabilities: { needs: ['key'] },
  create(_, scope) {
    const routes = [
      getLogRoute(scope),
      ...groupRoutes(scope),
      invalidateCacheRoute(scope),
      ...settingsRoutes(scope),
      ...userRoutes(scope),
      ...workspaceRoutes(scope),
      ...memberRoutes(scope),
      ...inviteRoutes(scope),
      ...groupMappingRoutes(scope),
      ...apiKeyRoutes(scope),
      auditLogsRoute(),
    ];
    if (scope.resources === undefined || !scope.features.isOn('audit_logs')) return { routes };
    const denied = new DeniedAttempts(scope, scope.resources);
    return { routes, settled: (context, outcome) => denied.settled(context, outcome) };
  },
});
