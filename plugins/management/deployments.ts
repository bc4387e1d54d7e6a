import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { DeploymentData } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { changedRecord, newSlug, noSuchRecord, staleVersion } from './shared/records.ts';
import { listReply, pageOf, pageQuery } from './shared/replies.ts';
import {
  type BodyMistake,
  Identifier,
  ManagedBy,
  Name,
  plainObject,
  refusedBody,
  strict,
} from './shared/fields.ts';

const path = '/deployments';
const onePath = `${path}/{deploymentId}`;
const Params = Type.Object({ deploymentId: Identifier });
const object = Type.Literal('deployment');
const Kind = Type.Union([Type.Literal('production'), Type.Literal('non-production')]);
const Config = Type.Record(Type.String(), Type.Unknown(), {
  examples: [{ region: 'eu' }],
  description: 'What the deployment runs with.',
});

const fields = {
  config: Type.Optional(Config),
  allow_all_workspaces: Type.Optional(
    Type.Boolean({ description: 'Default true, or false where `allowed_workspaces` is given.' }),
  ),
  allowed_workspaces: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
      maxItems: 1000,
      examples: [[]],
      description: 'Ids or slugs of the workspaces that may use it, when not all may.',
    }),
  ),
};

const Create = Type.Object(
  {
    name: Name('For people.'),
    slug: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        pattern: '^[a-zA-Z0-9_-]+$',
        examples: ['europe'],
        description: 'Unique in the organisation. Default: made of the name.',
      }),
    ),
    type: Kind,
    ...fields,
  },
  strict,
);

const Update = Type.Object(
  { name: Type.Optional(Name('For people.')), type: Type.Optional(Kind), ...fields },
  strict,
);

const Reply = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  type: Kind,
  config: Config,
  allow_all_workspaces: Type.Boolean(),
  allowed_workspaces: Type.Array(Type.String()),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  organisation_id: Type.String(),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  managed_by: ManagedBy,
  object,
});

/** The routes of deployments: the gateways of an organisation, and which workspaces may use them. */
export function deploymentRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(), getRoute(), updateRoute(scope), deleteRoute()];
}

function createRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'deployments.create',
    method: 'POST',
    path,
    summary: 'Creates a deployment',
    scope: 'deployments.create',
    audit: 'create',
    body: Create,
    reply: Type.Object({ id: Type.String(), slug: Type.String(), object }),
    async handle({ body, key, write, sendVersion }) {
      const { name, type } = body;
      const { organisationId } = key;
      const id = randomUUID();
      const slug = body.slug ?? newSlug('dp-', name);
      const by = key.userId || key.id;
      const now = clock.now();
      await write(async (writer) => {
        const before = { type, config: {}, allowAllWorkspaces: true, allowedWorkspaces: [] };
        const data = await changedData(writer, organisationId, body, before);
        await writer.records.insert({
          ...{ kind: 'deployment', id, organisationId, workspaceId: undefined, slug, name },
          ...{ status: 'active', parentId: '', data, secrets: {}, createdBy: by, updatedBy: by },
          ...{ createdAt: now, updatedAt: now, version: 1 },
        });
        return { id, result: undefined };
      });
      sendVersion(1);
      return { id, slug, object: 'deployment' as const };
    },
  });
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'deployments.list',
    method: 'GET',
    path,
    summary: 'The deployments of the organisation, oldest first',
    scope: 'deployments.list',
    // Reads only.
    audit: null,
    query: Type.Object(pageQuery, strict),
    reply: Type.Object({ ...listReply, data: Type.Array(Reply) }),
    async handle({ query, key, read }) {
      const page = pageOf(query);
      const { total, data } = await read((reader) =>
        reader.records.list('deployment', key.organisationId, {}, page),
      );
      return { object: 'list' as const, total, data: data.map((record) => show(record)) };
    },
  });
}

function getRoute(): RouteDefinition {
  return defineRoute({
    id: 'deployments.get',
    method: 'GET',
    path: onePath,
    summary: 'One deployment, by its id or slug',
    scope: 'deployments.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: Reply,
    async handle({ params, key, read, sendVersion }) {
      const record = await read((reader) => found(reader, key.organisationId, params.deploymentId));
      sendVersion(record.version);
      return show(record);
    },
  });
}

function updateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'deployments.update',
    method: 'PUT',
    path: onePath,
    summary: 'Changes a deployment; what is not given stays',
    scope: 'deployments.update',
    audit: 'update',
    params: Params,
    body: Update,
    reply: Reply,
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const record = await write(async (writer) => {
        const before = await found(writer, key.organisationId, params.deploymentId);
        requireVersion(before.version);
        const data = await changedData(writer, key.organisationId, body, before.data);
        const after = changedRecord(before, { name: body.name ?? before.name, data }, key, clock.now());
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, result: after };
      });
      sendVersion(record.version);
      return show(record);
    },
  });
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'deployments.delete',
    method: 'DELETE',
    path: onePath,
    summary: 'Deletes a deployment',
    scope: 'deployments.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    async handle({ params, key, write, requireVersion }) {
      await write(async (writer) => {
        const record = await found(writer, key.organisationId, params.deploymentId);
        requireVersion(record.version);
        await writer.records.remove('deployment', record.organisationId, record.id);
        return { id: record.id, result: undefined };
      });
      return {};
    },
  });
}

async function found(
  { records }: Pick<ResourcesReader, 'records'>,
  organisationId: string,
  idOrSlug: string,
): Promise<StoredRecord<'deployment'>> {
  const record = await records.find('deployment', { organisationId }, idOrSlug);
  if (record !== undefined) return record;
  throw noSuchRecord('deployment', idOrSlug);
}

/** The data after the change, with ids of the workspaces. Throws `invalid_request` for those that there are not. */
async function changedData(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  organisationId: string,
  body: Static<typeof Update>,
  before: DeploymentData,
): Promise<DeploymentData> {
  const named = body.allowed_workspaces;
  const allowAll =
    body.allow_all_workspaces ?? (named === undefined ? before.allowAllWorkspaces : named.length === 0);
  const mistakes: BodyMistake[] = [];
  const ids: string[] = [];
  for (const [index, one] of (named ?? []).entries()) {
    const workspace = await workspaces.find(organisationId, one);
    if (workspace !== undefined) ids.push(workspace.id);
    else
      mistakes.push({
        path: `/allowed_workspaces/${index}`,
        message: `names no workspace: "${one.slice(0, 64)}"`,
      });
  }
  const allowedWorkspaces =
    named === undefined ? (allowAll ? [] : before.allowedWorkspaces) : [...new Set(ids)];
  if (allowAll && allowedWorkspaces.length > 0)
    mistakes.push({ path: '/allowed_workspaces', message: 'cannot stand beside allow_all_workspaces: true' });
  if (!allowAll && allowedWorkspaces.length === 0 && mistakes.length === 0)
    mistakes.push({ path: '/allowed_workspaces', message: 'is needed when not all workspaces may use it' });
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return {
    type: body.type ?? before.type,
    config: body.config === undefined ? before.config : plainObject(body.config, '/config'),
    ...{ allowAllWorkspaces: allowAll, allowedWorkspaces },
  };
}

function show(record: StoredRecord<'deployment'>): Static<typeof Reply> {
  const { type, config, allowAllWorkspaces, allowedWorkspaces } = record.data;
  return {
    ...{ id: record.id, slug: record.slug, name: record.name, type, config: { ...config } },
    allow_all_workspaces: allowAllWorkspaces,
    allowed_workspaces: [...allowedWorkspaces],
    ...{ status: record.status, organisation_id: record.organisationId },
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    managed_by: record.managedBy ?? 'api',
    object: 'deployment',
  };
}
