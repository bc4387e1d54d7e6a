import { randomUUID } from 'node:crypto';
import { reachOf } from '../../core/access/access.ts';
import type { ApiKeyType } from '../../core/access/scopes.ts';
import type { RouteDefinition } from '../../core/http/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { ApiKeyRecord, ResourcesReader } from '../../core/ports/resources.ts';
import { keyScope, readScopes, requireManager } from './api-key-access.ts';
import { changedKey, CreateOrganisationKey, CreateServiceKey, CreateUserKey } from './api-key-body.ts';
import { newSecret } from './key-secret.ts';
import { visibleWorkspace } from './visible-workspace.ts';

const kinds = [
  { type: 'organisation-service', path: '/api-keys/organisation/service', body: CreateOrganisationKey },
  { type: 'workspace-service', path: '/api-keys/workspace/service', body: CreateServiceKey },
  { type: 'workspace-user', path: '/api-keys/workspace/user', body: CreateUserKey },
] as const;

const Reply = Type.Object({
  id: Type.String(),
  key: Type.String({ description: 'The secret. It is shown now and never again.' }),
  object: Type.Literal('api-key'),
});

const empty = {
  ...{ description: '', rateLimits: [], usageLimits: undefined, defaults: {} },
  ...{ alertEmails: [], expiresAt: undefined },
};

/** `POST /api-keys/{type}/{sub-type}`: one route for each type of key, as each has a scope of its own. */
export function createApiKeyRoutes(scope: Scope): readonly RouteDefinition[] {
  return kinds.map(({ type, path, body: schema }) =>
    defineRoute({
      id: `api_keys.create_${type.replaceAll('-', '_')}`,
      method: 'POST',
      path,
      summary: `Creates a key of the type ${type}; its secret is in the answer, once`,
      scope: keyScope(type, 'create'),
      audit: 'create',
      body: schema,
      reply: Reply,
      async handle({ body, key, role, write }) {
        requireManager({ key, role }, type);
        requireOrganisation(key, body.organisation_id);
        const secret = newSecret(scope.keyPrefix);
        const now = scope.clock.now();
        const record: Omit<ApiKeyRecord, 'workspaceId'> = {
          id: randomUUID(),
          organisationId: key.organisationId,
          userId: ('user_id' in body ? body.user_id : undefined) ?? userOf(type, key),
          type,
          status: 'active',
          scopes: readScopes(key, type, body.scopes),
          ...changedKey(body, { ...empty, name: body.name }, scope),
          masked: secret.masked,
          secrets: [{ hash: secret.hash, expiresAt: undefined }],
          creationMode: 'api',
          ...{ createdAt: now, updatedAt: now, version: 1 },
        };
        await write(async (writer) => {
          const named = 'workspace_id' in body ? body.workspace_id : undefined;
          const workspaceId = await workspaceFor(writer, key, type, named);
          await writer.apiKeys.insert({ ...record, workspaceId });
          return { id: record.id, workspaceId, result: undefined };
        });
        return { id: record.id, key: secret.text, object: 'api-key' as const };
      },
    }),
  );
}

function userOf(type: ApiKeyType, key: KeyRecord): string {
  return type === 'workspace-user' ? key.userId : '';
}

function requireOrganisation({ organisationId }: KeyRecord, named: string | undefined): void {
  if (named === undefined || named === organisationId) return;
  throw new GatewayError(
    'invalid_request',
    'A key creates keys of its own organisation alone. Leave organisation_id out.',
    { param: '/organisation_id' },
  );
}

/** The id of the workspace that the new key is for; undefined for a key of the organisation. */
async function workspaceFor(
  reader: Pick<ResourcesReader, 'workspaces'>,
  actor: KeyRecord,
  type: ApiKeyType,
  named: string | undefined,
): Promise<string | undefined> {
  if (type === 'organisation-service') return undefined;
  const wanted = named ?? reachOf(actor).workspaceId;
  if (wanted === undefined) {
    throw new GatewayError('invalid_request', 'For which workspace? Give "workspace_id", an id or a slug.', {
      param: '/workspace_id',
    });
  }
  const workspace = await visibleWorkspace(reader, actor, wanted);
  if (workspace.status === 'active') return workspace.id;
  throw new GatewayError(
    'resource_conflict',
    `The workspace "${workspace.name}" is archived: a key of it would be refused.`,
  );
}
