import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { DeploymentData } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { RecordResource } from './shared/record-resource.ts';
import { storedRecords } from './shared/records.ts';
import { ManagedBy, Name, plainObject, refusedBody, strict } from './shared/fields.ts';
import type { Mistake } from '../../core/base/json.ts';

const object = Type.Literal('deployment');
const Kind = Type.Union([Type.Literal('production'), Type.Literal('non-production')]);
const Config = Type.Record(Type.String(), Type.Unknown(), {
  examples: [{ region: 'eu' }],
  description: 'Configuration of the deployment.',
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
      description: 'Ids or slugs of the workspaces that may use it, if not all may.',
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
        description: 'Unique in the organisation. Default: derived from the name.',
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
  const deployments = new RecordResource(scope, {
    kind: 'deployment',
    noun: 'deployment',
    operations: 'deployments',
    path: '/deployments',
    parameter: 'deploymentId',
    scopes: (action) => `deployments.${action}`,
    find: (reader, key, { idOrSlug }) => requireDeployment(reader, key.organisationId, idOrSlug),
  });
  return [
    deployments.create({
      summary: 'Creates a deployment',
      body: Create,
      reply: Type.Object({ id: Type.String(), slug: Type.String(), object }),
      async make(writer, { key, body }) {
        const { name, type } = body;
        const before = { type, config: {}, allowAllWorkspaces: true, allowedWorkspaces: [] };
        const data = await changedData(writer, key.organisationId, body, before);
        return { workspaceId: undefined, slug: body.slug ?? storedRecords.newSlug('dp-', name), name, data };
      },
      show: ({ id, slug }) => ({ id, slug, object: 'deployment' as const }),
    }),
    deployments.list({
      summary: 'Deployments of the organisation, oldest first',
      query: {},
      entry: Reply,
      rows: (reader, { key }, page) => reader.records.list('deployment', key.organisationId, {}, page),
      show,
    }),
    deployments.get({ summary: 'One deployment, by its id or slug', reply: Reply, show }),
    deployments.update({
      summary: 'Updates a deployment; omitted fields stay unchanged',
      body: Update,
      reply: Reply,
      async change({ name, data }, writer, { key, body }) {
        return {
          name: body.name ?? name,
          data: await changedData(writer, key.organisationId, body, data),
        };
      },
      show,
    }),
    deployments.remove({ summary: 'Deletes a deployment' }),
  ];
}

async function requireDeployment(
  { records }: Pick<ResourcesReader, 'records'>,
  organisationId: string,
  idOrSlug: string,
): Promise<StoredRecord<'deployment'>> {
  const record = await records.find('deployment', { organisationId }, idOrSlug);
  if (record !== undefined) return record;
  throw storedRecords.noSuch('deployment', idOrSlug);
}

/** The data after the change, with ids of the workspaces. Throws `invalid_request` for unknown workspaces. */
async function changedData(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  organisationId: string,
  body: Static<typeof Update>,
  before: DeploymentData,
): Promise<DeploymentData> {
  const named = body.allowed_workspaces;
  const allowAll =
    body.allow_all_workspaces ?? (named === undefined ? before.allowAllWorkspaces : named.length === 0);
  const mistakes: Mistake[] = [];
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
    allowAllWorkspaces: allowAll,
    allowedWorkspaces,
  };
}

function show(record: StoredRecord<'deployment'>): Static<typeof Reply> {
  const { type, config, allowAllWorkspaces, allowedWorkspaces } = record.data;
  return {
    id: record.id,
    slug: record.slug,
    name: record.name,
    type,
    config: { ...config },
    allow_all_workspaces: allowAllWorkspaces,
    allowed_workspaces: [...allowedWorkspaces],
    status: record.status,
    organisation_id: record.organisationId,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    managed_by: record.managedBy ?? 'api',
    object: 'deployment',
  };
}
