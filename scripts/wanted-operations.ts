import type { RouteDefinition } from '../core/pipeline/define-route.ts';

/** One operation of the table. */
export interface Operation {
  readonly method: string;
  readonly path: string;
}

/** API operations known to clients of this interface, by topic: `METHOD,METHOD /path`. */
export const wantedOperations: Readonly<Record<string, readonly string[]>> = {
  Chat: ['POST /chat/completions'],
  Realtime: ['GET /realtime'],
  Completions: ['POST /completions'],
  Images: ['POST /images/generations', 'POST /images/edits', 'POST /images/variations'],
  Embeddings: ['POST /embeddings'],
  Rerank: ['POST /rerank'],
  Audio: ['POST /audio/speech', 'POST /audio/transcriptions', 'POST /audio/translations'],
  Files: ['GET,POST /files', 'GET,DELETE /files/{file_id}', 'GET /files/{file_id}/content'],
  'Fine-tuning': [
    'GET,POST /fine_tuning/jobs',
    'GET /fine_tuning/jobs/{fine_tuning_job_id}',
    'GET /fine_tuning/jobs/{fine_tuning_job_id}/events',
    'POST /fine_tuning/jobs/{fine_tuning_job_id}/cancel',
    'GET /fine_tuning/jobs/{fine_tuning_job_id}/checkpoints',
  ],
  Models: ['GET /models', 'GET,DELETE /models/{model}'],
  Moderations: ['POST /moderations'],
  Assistants: [
    'GET,POST /assistants',
    'GET,POST,DELETE /assistants/{assistant_id}',
    'POST /threads',
    'GET,POST,DELETE /threads/{thread_id}',
    'GET,POST /threads/{thread_id}/messages',
    'GET,POST,DELETE /threads/{thread_id}/messages/{message_id}',
    'POST /threads/runs',
    'GET,POST /threads/{thread_id}/runs',
    'GET,POST /threads/{thread_id}/runs/{run_id}',
    'POST /threads/{thread_id}/runs/{run_id}/submit_tool_outputs',
    'POST /threads/{thread_id}/runs/{run_id}/cancel',
    'GET /threads/{thread_id}/runs/{run_id}/steps',
    'GET /threads/{thread_id}/runs/{run_id}/steps/{step_id}',
  ],
  Responses: [
    'POST /responses',
    'GET,DELETE /responses/{response_id}',
    'GET /responses/{response_id}/input_items',
  ],
  'Vector stores': [
    'GET,POST /vector_stores',
    'GET,POST,DELETE /vector_stores/{vector_store_id}',
    'GET,POST /vector_stores/{vector_store_id}/files',
    'GET,DELETE /vector_stores/{vector_store_id}/files/{file_id}',
    'POST /vector_stores/{vector_store_id}/file_batches',
    'GET /vector_stores/{vector_store_id}/file_batches/{batch_id}',
    'POST /vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel',
    'GET /vector_stores/{vector_store_id}/file_batches/{batch_id}/files',
  ],
  Batches: [
    'GET,POST /batches',
    'GET /batches/{batch_id}',
    'GET /batches/{batch_id}/output',
    'POST /batches/{batch_id}/cancel',
  ],
  Collections: ['GET,POST /collections', 'GET,PUT,DELETE /collections/{collectionId}'],
  Labels: ['GET,POST /labels', 'GET,PUT,DELETE /labels/{labelId}'],
  Prompts: [
    'GET,POST /prompts',
    'GET,PUT,DELETE /prompts/{promptId}',
    'GET /prompts/{promptId}/versions',
    'GET,PUT /prompts/{promptId}/versions/{versionId}',
    'PUT /prompts/{promptId}/makeDefault',
    'POST /prompts/{promptId}/completions',
    'POST /prompts/{promptId}/render',
  ],
  'Prompt partials': [
    'GET,POST /prompts/partials',
    'GET,PUT,DELETE /prompts/partials/{promptPartialId}',
    'GET /prompts/partials/{promptPartialId}/versions',
    'PUT /prompts/partials/{promptPartialId}/makeDefault',
  ],
  Guardrails: ['GET,POST /guardrails', 'GET,PUT,DELETE /guardrails/{guardrailId}'],
  Configs: ['GET,POST /configs', 'GET,PUT,DELETE /configs/{slug}', 'GET /configs/{slug}/versions'],
  Feedback: ['POST /feedback', 'PUT /feedback/{id}'],
  Integrations: [
    'GET,POST /integrations',
    'GET,PUT,DELETE /integrations/{slug}',
    'GET,PUT,DELETE /integrations/{slug}/models',
    'GET,PUT /integrations/{slug}/workspaces',
  ],
  Providers: ['GET,POST /providers', 'GET,PUT,DELETE /providers/{slug}'],
  'Virtual keys': ['GET,POST /virtual-keys', 'GET,PUT,DELETE /virtual-keys/{slug}'],
  Invites: [
    'GET,POST /admin/users/invites',
    'GET,DELETE /admin/users/invites/{inviteId}',
    'POST /admin/users/invites/{inviteId}/resend',
  ],
  Users: ['GET /admin/users', 'GET,PUT,DELETE /admin/users/{userId}'],
  Members: [
    'GET,POST /admin/workspaces/{workspaceId}/users',
    'GET,PUT,DELETE /admin/workspaces/{workspaceId}/users/{userId}',
  ],
  Workspaces: [
    'GET,POST /admin/workspaces',
    'GET,PUT,DELETE /admin/workspaces/{workspaceId}',
    'GET,POST /scim/workspaces',
    'DELETE /scim/workspaces/{scimWorkspaceGroupId}',
  ],
  'MCP integrations': [
    'GET,POST /mcp-integrations',
    'GET,PUT,DELETE /mcp-integrations/{mcpIntegrationId}',
    'GET,PUT /mcp-integrations/{mcpIntegrationId}/workspaces',
    'GET,PUT /mcp-integrations/{mcpIntegrationId}/capabilities',
    'GET /mcp-integrations/{mcpIntegrationId}/metadata',
  ],
  'MCP servers': [
    'GET,POST /mcp-servers',
    'GET,PUT,DELETE /mcp-servers/{mcpServerId}',
    'POST /mcp-servers/{mcpServerId}/test',
    'GET,PUT /mcp-servers/{mcpServerId}/capabilities',
    'GET,PUT /mcp-servers/{mcpServerId}/user-access',
    'GET,DELETE /mcp-servers/{mcpServerId}/connections',
    'GET /mcp-servers/{mcpServerId}/metadata',
    'GET,POST /mcp-virtual-servers',
    'GET,PUT,DELETE /mcp-virtual-servers/{mcpVirtualServerId}',
  ],
  'Audit trail': ['GET /audit-logs'],
  'API keys': [
    'POST /api-keys/{type}/{sub-type}',
    'GET /api-keys',
    'GET,PUT,DELETE /api-keys/{id}',
    'POST /api-keys/{id}/rotate',
  ],
  'Usage-limit policies': [
    'GET,POST /policies/usage-limits',
    'GET,PUT,DELETE /policies/usage-limits/{policyUsageLimitsId}',
    'GET /policies/usage-limits/{policyUsageLimitsId}/entities',
    'PUT /policies/usage-limits/{policyUsageLimitsId}/entities/{entityId}/reset',
  ],
  'Rate-limit policies': [
    'GET,POST /policies/rate-limits',
    'GET,PUT,DELETE /policies/rate-limits/{rateLimitsPolicyId}',
  ],
  'Model pricing': ['GET /model-configs/pricing/{provider}/{model}'],
  'Secret references': [
    'GET,POST /secret-references',
    'GET,PUT,DELETE /secret-references/{secretReferenceId}',
  ],
};

/** Operations forwarded to a provider; the gateway itself answers all others. */
export const ofProviders: ReadonlySet<string> = new Set([
  ...['Chat', 'Realtime', 'Completions', 'Images', 'Embeddings', 'Rerank', 'Audio', 'Files', 'Fine-tuning'],
  ...['Models', 'Moderations', 'Assistants', 'Responses', 'Vector stores', 'Batches'],
]);

/** Paths served by a plugin in the request pipeline, not by a route, with the required scope. */
export const takenByPlugins: Readonly<Record<string, string>> = {
  '/prompts/{promptId}/completions': 'completions.write',
};

/** `METHOD,METHOD /path` as operations. */
export function operationsOf(text: string): readonly Operation[] {
  const [methods = '', path = ''] = text.split(' ');
  return methods.split(',').map((method) => ({ method, path }));
}

/**
 * The routes of a wanted operation: parameter names may differ, and one operation may correspond to several routes with
 * literal segments instead of a parameter.
 */
export function routesFor(
  { method, path }: Operation,
  routes: readonly RouteDefinition[],
): RouteDefinition[] {
  const wanted = path.split('/');
  return routes
    .filter((route) => {
      const given = route.path.split('/');
      if (route.method !== method || given.length !== wanted.length) return false;
      return wanted.every((segment, index) => segment.startsWith('{') || segment === given[index]);
    })
    .filter((route, _, all) => {
      const exact = (one: RouteDefinition): boolean => shape(one.path) === shape(path);
      return exact(route) || !all.some((one) => exact(one));
    });
}

/** `METHOD /path` without parameter names. */
export function operationKey({ method, path }: Operation): string {
  return `${method} ${shape(path)}`;
}

function shape(path: string): string {
  return path.replaceAll(/\{[^}]+\}/g, '{}');
}
