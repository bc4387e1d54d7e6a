import { reachOf } from '../../core/access/scopes.ts';
import { defineRoute, GatewayError, type Scope, Type } from '../../core/pipeline/plugin.ts';
import { type CacheArea, invalidationKeptMs, invalidationKey } from '../../core/base/cache-namespace.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';

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
