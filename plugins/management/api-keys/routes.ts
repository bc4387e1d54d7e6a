import {
  type ApiKeyType,
  canonicalScope,
  hasScope,
  reachOf,
  refuseScopes,
} from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type {
  ApiKeyFilter,
  ApiKeyRecord,
  KeyRotation,
  ResourcesReader,
  ResourcesWriter,
} from '../../../core/ports/resources.ts';
import { type Actor, keyAccess, newKeys } from './access.ts';
import { type KeyContent, keyExamples, keyRecord, keySchemas } from './record.ts';
import { configUses } from '../configs/uses.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { settingsInForce } from '../settings/routes.ts';
import { places, storedRecords } from '../shared/records.ts';
import { Identifier, refusedBody, shownMistakes, strict } from '../shared/fields.ts';
import { requireGrant, requireSamePath } from '../users/record.ts';
import { randomUUID } from 'node:crypto';
import { rotatesWithin, rotationBehind, transition } from '../../../core/organisation/key-rotation.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { withFullStop } from '../../../core/errors/gateway-error.ts';
import type { UserKeyRules } from '../../../core/ports/organisation-settings.ts';

const Body = Type.Object(
  {
    key_transition_period_ms: Type.Optional(
      Type.Integer({
        minimum: transition.shortestMs,
        maximum: transition.longestMs,
        description:
          'Time for which the current secret is also accepted, in milliseconds: 30 minutes (the default) to 90 days. If a rotation by policy was due, the default is the end that it set.',
      }),
    ),
  },
  strict,
);

/** `POST /api-keys/{id}/rotate`: a new secret; the previous one stays valid for a transition period. */
function rotateApiKeyRoute({ clock, keyPrefix }: Scope): RouteDefinition {
  return defineRoute({
    id: 'api_keys.rotate',
    method: 'POST',
    path: '/api-keys/{id}/rotate',
    summary:
      'Rotates the secret of a key, also if a rotation by policy is due; the previous secret stays valid for a limited time',
    scope: keyAccess.scopes('rotate'),
    audit: 'rotate',
    params: Type.Object({ id: Identifier }),
    body: Body,
    reply: Type.Object({
      id: Type.String(),
      key: Type.String({ description: 'New secret, shown only in this answer.' }),
      key_transition_expires_at: Type.String({
        description: 'End of the time in which the previous secret is accepted.',
      }),
    }),
    examples: {
      request: { key_transition_period_ms: 3_600_000 },
      response: {
        id: keyExamples.key.id,
        key: keyExamples.secret,
        key_transition_expires_at: '2026-11-21T10:00:00.000Z',
      },
    },
    async handle({ params, body, key, role, write, requireVersion }) {
      const now = clock.now();
      const secret = newKeys.secret(keyPrefix);
      const until = await write(async (writer) => {
        const before = await keyAccess.visibleKey(writer, { key, role }, params.id, 'rotate');
        requireVersion(before.version);
        // The caller receives the new secret, and with it the key's scopes.
        readScopes(key, before.type, before.scopes);
        await requireNotAbove(writer, { key, role }, before);
        const [present, ...others] = before.secrets.filter(
          ({ expiresAt }) => expiresAt === undefined || expiresAt > now,
        );
        // A scheduled rotation: its new secret is made now.
        const due = before.secrets[0]?.expiresAt;
        const period = body.key_transition_period_ms;
        const until = period === undefined && due !== undefined ? due : now + (period ?? transition.usualMs);
        if (others.length > 0) {
          throw new GatewayError(
            'resource_conflict',
            'The key is being rotated already: two of its secrets are taken. Wait until the older one ends (key_transition_expires_at).',
          );
        }
        const isReplaced = await writer.apiKeys.replace({
          ...before,
          masked: secret.masked,
          secrets: [
            { hash: secret.hash, expiresAt: undefined },
            ...(present === undefined ? [] : [{ hash: present.hash, expiresAt: until }]),
          ],
          rotation:
            due === undefined && before.rotation !== undefined
              ? rotationBehind(before.rotation, now, until)
              : before.rotation,
          updatedAt: now,
          version: before.version + 1,
        });
        if (!isReplaced) throw storedRecords.stale();
        return { id: before.id, workspaceId: before.workspaceId, result: until };
      });
      return { id: params.id, key: secret.text, key_transition_expires_at: new Date(until).toISOString() };
    },
  });
}

const kinds = [
  {
    type: 'organisation-service',
    path: '/api-keys/organisation/service',
    body: keySchemas.CreateOrganisation,
  },
  { type: 'workspace-service', path: '/api-keys/workspace/service', body: keySchemas.CreateService },
  { type: 'workspace-user', path: '/api-keys/workspace/user', body: keySchemas.CreateUser },
] as const;

const Reply = Type.Object({
  id: Type.String(),
  key: Type.String({ description: 'Secret, shown only in this answer.' }),
  object: Type.Literal('api-key'),
});

const empty = {
  description: '',
  rateLimits: [],
  usageLimits: undefined,
  defaults: {},
  alertEmails: [],
  expiresAt: undefined,
  rotation: undefined,
};

/** `POST /api-keys/{type}/{sub-type}`: one route per type of key, because each has its own scope. */
function createApiKeyRoutes(scope: Scope): readonly RouteDefinition[] {
  return kinds.map(({ type, path, body: schema }) =>
    defineRoute({
      id: `api_keys.create_${type.replaceAll('-', '_')}`,
      method: 'POST',
      path,
      summary: `Creates a key of the type ${type}; only this answer contains its secret`,
      scope: keyAccess.scope(type, 'create'),
      audit: 'create',
      body: schema,
      reply: Reply,
      examples: {
        request: {
          name: 'batch',
          scopes: keyExamples.scopes[type],
          expires_at: '2030-01-01T00:00:00Z',
          ...(type !== 'organisation-service' && { workspace_id: 'ws-laboratory-abcdef' }),
        },
        response: { id: keyExamples.key.id, key: keyExamples.secret, object: 'api-key' },
      },
      async handle({ body, key, role, write }) {
        keyAccess.requireManager({ key, role }, type);
        requireOrganisation(key, body.organisation_id);
        const secret = newKeys.secret(scope.keyPrefix);
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
          createdAt: now,
          updatedAt: now,
          version: 1,
        };
        await write(async (writer) => {
          const named = 'workspace_id' in body ? body.workspace_id : undefined;
          const workspaceId = await workspaceFor(writer, key, type, named);
          const router = configUses.namesIn(scope.router, { organisationId, workspaceId: workspaceId ?? '' });
          const content = keyRecord.changed(
            body,
            { ...empty, name: body.name },
            { clock: scope.clock, router },
          );
          const placed = { ...record, ...content, workspaceId };
          const made =
            type === 'workspace-user' ? await withUserAndExpiry(writer, { key, role }, placed, body) : placed;
          await writer.apiKeys.insert(made);
          return { id: record.id, workspaceId, result: undefined };
        });
        return {
          ...{ id: record.id, key: secret.text, object: 'api-key' as const },
        };
      },
    }),
  );
}

/** The key with its user and its expiry, within the settings of its workspace. */
async function withUserAndExpiry(
  writer: ResourcesWriter,
  actor: Actor,
  record: ApiKeyRecord,
  body: Pick<Static<typeof keySchemas.CreateUser>, 'user_id' | 'expires_at' | 'rotation_policy'>,
): Promise<ApiKeyRecord> {
  const { organisationId, workspaceId = '', createdAt, expiresAt, rotation } = record;
  const { user_api_keys: rules } = await settingsInForce(writer, organisationId, workspaceId);
  const userId = await keyAccess.ownerOf(writer, actor, workspaceId, body.user_id);
  await keyAccess.requireRoom(writer, { organisationId, workspaceId }, rules, createdAt);
  const wanted = body.expires_at === undefined ? undefined : (expiresAt ?? null);
  const usual = keyAccess.firstRotationOf(rules, createdAt);
  const wantedRotation = body.rotation_policy === undefined ? undefined : (rotation ?? null);
  return {
    ...record,
    userId,
    expiresAt: keyAccess.endOf(wanted, rules, createdAt),
    rotation: rotationOfKey(wantedRotation, usual, rules),
  };
}

function requireOrganisation({ organisationId }: KeyRecord, named: string | undefined): void {
  if (named === undefined || named === organisationId) return;
  const message = 'is not your organisation, and a key creates keys of its own alone; leave it out';
  throw refusedBody([{ path: '/organisation_id', message }]);
}

/** Id of the new key's workspace; undefined for a key of the organisation. */
async function workspaceFor(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  actor: KeyRecord,
  type: ApiKeyType,
  named: string | undefined,
): Promise<string | undefined> {
  if (type === 'organisation-service') return undefined;
  const { organisationId, workspaceId: reach } = reachOf(actor);
  const wanted = named ?? reach;
  if (wanted === undefined) throw workspaceError('is needed: the id or slug of the workspace of the key');
  const workspace = await workspaces.find(organisationId, wanted);
  if (workspace === undefined || (reach !== undefined && workspace.id !== reach))
    throw workspaceError(`names "${wanted.slice(0, 64)}", and no such workspace is visible to this key`);
  if (workspace.status === 'active') return workspace.id;
  throw new GatewayError(
    'resource_conflict',
    `The workspace "${workspace.name}" is archived: a key of it would be refused.`,
  );
}

function workspaceError(message: string): GatewayError {
  return refusedBody([{ path: '/workspace_id', message }]);
}

const Params = Type.Object({ id: Identifier });
const maxIds = 100;

/** The routes of service keys. */
export function apiKeyRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    ...createApiKeyRoutes(scope),
    listRoute(scope),
    getRoute(scope),
    updateRoute(scope),
    deleteRoute(),
    rotateApiKeyRoute(scope),
  ];
}

function listRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'api_keys.list',
    method: 'GET',
    path: '/api-keys',
    summary: 'Keys that the caller may see, oldest first, with masked secrets',
    scope: keyAccess.scopes('list'),
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...paging.query,
        workspace_id: Type.Optional(Identifier),
        ids: Type.Optional(
          Type.String({
            maxLength: 8192,
            description: `Comma-separated ids of the keys to list: at most ${maxIds}.`,
          }),
        ),
      },
      strict,
    ),
    reply: Type.Object({ ...listReplies.of, data: Type.Array(keySchemas.Reply) }),
    examples: { response: { object: 'list', total: 1, data: [keyExamples.key] } },
    async handle({ query, key, role, read }) {
      const page = paging.of(query);
      const { workspaceId: reach, ...visible } = keyAccess.visibleKeys({ key, role });
      const wanted = query.ids === undefined ? undefined : idsOf(query.ids);
      const types = keyAccess.types.filter((type) => hasScope(key, keyAccess.scope(type, 'list')));
      const { total, data } = await read(async (reader) => {
        const named = query.workspace_id;
        const workspaceId = named === undefined ? reach : (await places.visible(reader, key, named)).id;
        const filter: ApiKeyFilter = {
          types,
          ...visible,
          ...(workspaceId !== undefined && { workspaceId }),
          ...(wanted !== undefined && { ids: wanted.filter((id) => visible.ids?.includes(id) ?? true) }),
        };
        return reader.apiKeys.list(key.organisationId, filter, page);
      });
      return { object: 'list' as const, total, data: data.map((record) => keyRecord.show(record, scope)) };
    },
  });
}

function idsOf(list: string): readonly string[] {
  const ids = [...new Set(list.split(','))];
  if (ids.length <= maxIds) return ids;
  throw new GatewayError(
    'invalid_request',
    `"ids" names ${ids.length} keys, and ${maxIds} is the most. Ask for them in parts.`,
    { param: 'ids' },
  );
}

function getRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'api_keys.get',
    method: 'GET',
    path: '/api-keys/{id}',
    summary: 'One key, with a masked secret',
    scope: keyAccess.scopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    reply: keySchemas.Reply,
    examples: { response: keyExamples.key },
    async handle({ params, key, role, read, sendVersion }) {
      const record = await read((reader) => keyAccess.visibleKey(reader, { key, role }, params.id, 'read'));
      sendVersion(record.version);
      return keyRecord.show(record, scope);
    },
  });
}

function updateRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'api_keys.update',
    method: 'PUT',
    path: '/api-keys/{id}',
    summary: 'Updates a key; omitted fields stay unchanged',
    scope: keyAccess.scopes('update'),
    audit: 'update',
    params: Params,
    body: keySchemas.Update,
    reply: keySchemas.Reply,
    examples: { request: { name: 'nightly', scopes: ['logs.view'] }, response: keyExamples.key },
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      const now = scope.clock.now();
      const record = await write(async (writer) => {
        requireSamePath(body, params);
        const before = await keyAccess.visibleKey(writer, { key, role }, params.id, 'update');
        // As with rotation, the caller may not change a key with more rights than its own.
        readScopes(key, before.type, before.scopes);
        await requireNotAbove(writer, { key, role }, before);
        requireVersion(before.version);
        const { organisationId, workspaceId = '' } = before;
        const router = configUses.namesIn(scope.router, { organisationId, workspaceId });
        const content = keyRecord.changed(body, before, { clock: scope.clock, router });
        const after = {
          ...before,
          ...content,
          ...(await boundsFor(writer, before, body, content)),
          scopes: body.scopes === undefined ? before.scopes : readScopes(key, before.type, body.scopes),
          updatedAt: now,
          version: before.version + 1,
        };
        if (!(await writer.apiKeys.replace(after))) throw storedRecords.stale();
        return { id: after.id, workspaceId: after.workspaceId, result: after };
      });
      if (body.reset_usage === true) await keyRecord.resetUsage(record, scope);
      sendVersion(record.version);
      return keyRecord.show(record, scope);
    },
  });
}

/** When the changed key ends and rotates: what the body says, within what the settings want of keys of people. */
async function boundsFor(
  reader: Pick<ResourcesReader, 'settings'>,
  before: ApiKeyRecord,
  { expires_at: end, rotation_policy: policy }: Static<typeof keySchemas.Update>,
  { expiresAt, rotation }: KeyContent,
): Promise<Pick<ApiKeyRecord, 'expiresAt' | 'rotation'>> {
  const { type, organisationId, workspaceId = '', createdAt } = before;
  if ((end === undefined && policy === undefined) || type !== 'workspace-user')
    return { expiresAt, rotation };
  const { user_api_keys: rules } = await settingsInForce(reader, organisationId, workspaceId);
  const wanted = policy === undefined ? undefined : (rotation ?? null);
  return {
    expiresAt: end === undefined ? expiresAt : keyAccess.endOf(expiresAt ?? null, rules, createdAt),
    rotation: rotationOfKey(wanted, before.rotation, rules),
  };
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'api_keys.delete',
    method: 'DELETE',
    path: '/api-keys/{id}',
    summary: 'Deletes a key; requests with it are refused from then on',
    scope: keyAccess.scopes('delete'),
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, key, role, write, requireVersion }) {
      await write(async (writer) => {
        const before = await keyAccess.visibleKey(writer, { key, role }, params.id, 'delete');
        requireVersion(before.version);
        if (!(await writer.apiKeys.remove(before.organisationId, before.id))) throw storedRecords.stale();
        return { id: before.id, workspaceId: before.workspaceId, result: undefined };
      });
      return {};
    },
  });
}

/**
 * The scopes of a body, in canonical spelling and without duplicates. Throws `invalid_request` for unknown scopes and
 * for those that keys of this type cannot hold, `scope_missing` for those that the actor cannot grant.
 */
function readScopes(actor: KeyRecord, type: ApiKeyType, scopes: readonly string[]): readonly string[] {
  const issues = refuseScopes(actor, type, scopes);
  if (issues.length === 0) return [...new Set(scopes.map((scope) => canonicalScope(scope)))];
  const errors = issues.map(({ path, message }) => ({ path: `/scopes${path}`, message }));
  if (issues.some(({ kind }) => kind !== 'escalation')) throw refusedBody(errors);
  throw new GatewayError(
    'scope_missing',
    withFullStop(`A key gives no more than it has: ${shownMistakes(errors)}`),
    { param: errors[0]?.path ?? null, extra: { errors } },
  );
}

/** Throws `scope_missing` for a key of a user above the caller: the caller would receive its new secret. */
async function requireNotAbove(
  { users }: Pick<ResourcesReader, 'users'>,
  { key, role }: Actor,
  { organisationId, userId }: ApiKeyRecord,
): Promise<void> {
  if (userId === '' || userId === key.userId) return;
  const user = await users.find(organisationId, userId);
  if (user !== undefined) requireGrant(role, user.role);
}

/**
 * When the secret of a key of somebody is replaced. `wanted`: what its maker said, null for never and undefined for
 * nothing, with `before` as it was. Throws `invalid_request` where the settings want it more often.
 */
function rotationOfKey(
  wanted: KeyRotation | null | undefined,
  before: KeyRotation | undefined,
  { rotationDays }: UserKeyRules,
): KeyRotation | undefined {
  if (wanted === undefined) return before;
  if (rotationDays === undefined || (wanted !== null && rotatesWithin(wanted, rotationDays)))
    return wanted ?? undefined;
  const message = `must replace the secret every ${rotationDays} days or more often, as the settings want it of keys of people; give rotation_period_days of ${rotationDays} at the most, or leave it out`;
  throw refusedBody([{ path: '/rotation_policy', message }]);
}
