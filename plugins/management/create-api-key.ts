import { randomUUID } from 'node:crypto';
import { reachOf } from '../../core/access/access.ts';
import type { ApiKeyType } from '../../core/access/scopes.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { ApiKeyRecord, ResourcesReader, ResourcesWriter } from '../../core/ports/resources.ts';
import { keyScope, readScopes, requireManager, type Actor } from './api-key-access.ts';
import { configNamesIn } from './config-names.ts';
import {
  changedKey,
  type KeyContent,
  CreateOrganisationKey,
  CreateServiceKey,
  CreateUserKey,
} from './api-key-body.ts';
import { apiKeyExample, scopesExample, secretExample } from './api-key-examples.ts';
import { newSecret } from './key-secret.ts';
import { limitWarning, limitWarningField } from './limits-schema.ts';
import { refusedBody } from './refused-body.ts';
import { settingsInForce } from './settings-in-force.ts';
import { ownerOfKey, endOfKey, requireRoom } from './user-key-rules.ts';

const kinds = [
  { type: 'organisation-service', path: '/api-keys/organisation/service', body: CreateOrganisationKey },
  { type: 'workspace-service', path: '/api-keys/workspace/service', body: CreateServiceKey },
  { type: 'workspace-user', path: '/api-keys/workspace/user', body: CreateUserKey },
] as const;

const Reply = Type.Object({
  id: Type.String(),
  key: Type.String({ description: 'The secret. It is shown now and never again.' }),
  object: Type.Literal('api-key'),
  ...limitWarningField,
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
      examples: {
        request: {
          ...{ name: 'batch', scopes: scopesExample[type], expires_at: '2030-01-01T00:00:00Z' },
          ...(type !== 'organisation-service' && { workspace_id: 'ws-laboratory-abcdef' }),
        },
        response: { id: apiKeyExample.id, key: secretExample, object: 'api-key' },
      },
      async handle({ body, key, role, write }) {
        requireManager({ key, role }, type);
        requireOrganisation(key, body.organisation_id);
        const secret = newSecret(scope.keyPrefix);
        const now = scope.clock.now();
        const { organisationId } = key;
        const record: Omit<ApiKeyRecord, 'workspaceId' | keyof KeyContent> = {
          id: randomUUID(),
          organisationId,
          userId: '',
          type,
          status: 'active',
          scopes: readScopes(key, type, body.scopes),
          masked: secret.masked,
          secrets: [{ hash: secret.hash, expiresAt: undefined }],
          creationMode: 'api',
          ...{ createdAt: now, updatedAt: now, version: 1 },
        };
        await write(async (writer) => {
          const named = 'workspace_id' in body ? body.workspace_id : undefined;
          const workspaceId = await workspaceFor(writer, key, type, named);
          const router = configNamesIn(scope.router, { organisationId, workspaceId: workspaceId ?? '' });
          const content = changedKey(body, { ...empty, name: body.name }, { clock: scope.clock, router });
          const placed = { ...record, ...content, workspaceId };
          const made =
            type === 'workspace-user' ? await forSomebody(writer, { key, role }, placed, body) : placed;
          await writer.apiKeys.insert(made);
          return { id: record.id, workspaceId, result: undefined };
        });
        return {
          ...{ id: record.id, key: secret.text, object: 'api-key' as const },
          ...limitWarning((body.usage_limits ?? undefined) !== undefined),
        };
      },
    }),
  );
}

/** The key with whose it is and when it ends, as the settings in force in its workspace allow. */
async function forSomebody(
  writer: ResourcesWriter,
  actor: Actor,
  record: ApiKeyRecord,
  body: Pick<Static<typeof CreateUserKey>, 'user_id' | 'expires_at'>,
): Promise<ApiKeyRecord> {
  const { organisationId, workspaceId = '', createdAt, expiresAt } = record;
  const { user_api_keys: rules } = await settingsInForce(writer, organisationId, workspaceId);
  const userId = await ownerOfKey(writer, actor, workspaceId, body.user_id);
  await requireRoom(writer, { organisationId, workspaceId }, rules, createdAt);
  const wanted = body.expires_at === undefined ? undefined : (expiresAt ?? null);
  return { ...record, userId, expiresAt: endOfKey(wanted, rules, createdAt) };
}

function requireOrganisation({ organisationId }: KeyRecord, named: string | undefined): void {
  if (named === undefined || named === organisationId) return;
  const message = 'is not your organisation, and a key creates keys of its own alone; leave it out';
  throw refusedBody([{ path: '/organisation_id', message }]);
}

/** The id of the workspace that the new key is for; undefined for a key of the organisation. */
async function workspaceFor(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  actor: KeyRecord,
  type: ApiKeyType,
  named: string | undefined,
): Promise<string | undefined> {
  if (type === 'organisation-service') return undefined;
  const { organisationId, workspaceId: reach } = reachOf(actor);
  const wanted = named ?? reach;
  if (wanted === undefined) throw refusedWorkspace('is needed: the id or slug of the workspace of the key');
  const workspace = await workspaces.find(organisationId, wanted);
  if (workspace === undefined || (reach !== undefined && workspace.id !== reach))
    throw refusedWorkspace(`names "${wanted.slice(0, 64)}", and no such workspace is visible to this key`);
  if (workspace.status === 'active') return workspace.id;
  throw new GatewayError(
    'resource_conflict',
    `The workspace "${workspace.name}" is archived: a key of it would be refused.`,
  );
}

function refusedWorkspace(message: string): GatewayError {
  return refusedBody([{ path: '/workspace_id', message }]);
}
