import { definePlugin, Type } from '../../core/pipeline/plugin.ts';
import { getLogRoute } from './get-log.ts';
import { groupRoutes } from './groups.ts';
import { invalidateCacheRoute } from './invalidate-cache.ts';

/** The administration API: contributes its routes to a pipeline that matches `routes: contributed`. */
export default definePlugin({
  name: 'management',
  description:
    'Serves the administration API: log entries and analytics of what the key may see, and the invalidation of cached answers.',
  schema: Type.Object({}, { additionalProperties: false }),
  capabilities: { needs: ['key'] },
  create(_, scope) {
    return { routes: [getLogRoute(scope), ...groupRoutes(scope), invalidateCacheRoute(scope)] };
  },
});
