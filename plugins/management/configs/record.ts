import { type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { RecordVersion, StoredRecord } from '../../../core/ports/records.ts';
import { ManagedBy, Name, orNull, refusedBody, strict } from '../shared/fields.ts';
import { writeJson } from '../../../core/base/json.ts';

export const Config = Type.Union(
  [Type.Record(Type.String(), Type.Unknown()), Type.String({ maxLength: 65_536 })],
  {
    description:
      'Config in the same form as in requests (see configs.md), as an object or as JSON in a text; 64 KiB at the most.',
    examples: [{ retry: { attempts: 2 } }],
  },
);
const IsDefault = Type.Optional(
  Type.Union([Type.Literal(0), Type.Literal(1), Type.Boolean()], {
    description:
      'Whether it is the default config for requests of the workspace. A workspace has at most one default config; a new one replaces the previous one.',
  }),
);
const ConfigName = Name('For people.');
/** Some clients write `isDefault` as `is_default`. */
const defaults = { isDefault: IsDefault, is_default: IsDefault };

/** Body that creates a config. */
export const CreateConfig = Type.Object(
  {
    name: ConfigName,
    config: Config,
    ...defaults,
    workspace_id: Type.Optional(
      Name(
        'Id or slug of its workspace. Needed with keys of the organisation; others make configs of their own.',
      ),
    ),
  },
  strict,
);

/** Body that changes a config; absent members stay unchanged. */
export const UpdateConfig = Type.Object(
  {
    slug: Type.Optional(Name('As in the path: some clients say it here as well.')),
    name: Type.Optional(ConfigName),
    config: Type.Optional(Config),
    ...defaults,
    status: Type.Optional(
      Type.Union([Type.Literal('active'), Type.Literal('archived')], {
        description: '`archived` has the effect of DELETE; `active` restores the config.',
      }),
    ),
  },
  strict,
);

/** The config of a body as JSON, for the router to check. */
export function configText(config: Static<typeof Config>): string {
  return typeof config === 'string' ? config : writeJson(config);
}

/** Default flag of the body; undefined when absent. Throws when its two spellings contradict each other. */
export function readDefaultFlag({
  isDefault,
  is_default: other,
}: Static<typeof UpdateConfig>): boolean | undefined {
  const said = isDefault ?? other;
  if (isDefault !== undefined && other !== undefined && Boolean(isDefault) !== Boolean(other))
    throw refusedBody([{ path: '/isDefault', message: 'is not what is_default says; give it once' }]);
  return said === undefined ? undefined : Boolean(said);
}

const own = {
  id: Type.String(),
  name: Type.String(),
  slug: Type.String({ description: 'Name in requests and defaults.' }),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  is_default: Type.Integer({ description: '1 for the default of its workspace.' }),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  owner_id: Type.String({ description: 'User or key that created it.' }),
  updated_by: Type.String(),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  managed_by: ManagedBy,
  object: Type.Literal('config'),
};
const said = {
  format: Type.Literal('json'),
  type: Type.Literal('WORKSPACE_CONFIG'),
  version_id: Type.String(),
};

/** A config in a list. */
export const ConfigReply = Type.Object(own);

/** One config with its current content. */
export const ConfigDetail = Type.Object({
  ...own,
  config: Type.Record(Type.String(), Type.Unknown()),
  ...said,
});

/** One version of a config. */
export const ConfigVersionReply = Type.Object({
  ...own,
  config: Type.String({ description: 'JSON.' }),
  ...said,
  version: Type.Integer({ description: 'From 1.' }),
});

/** Converts a stored config to its shape in lists. */
export function showConfig(record: StoredRecord<'config'>): Static<typeof ConfigReply> {
  return {
    id: record.id,
    name: record.name,
    slug: record.slug,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    is_default: record.data.isDefault ? 1 : 0,
    status: record.status,
    owner_id: record.createdBy,
    updated_by: record.updatedBy,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    managed_by: record.managedBy ?? 'api',
    object: 'config',
  };
}

/** The same with its content; `versionId` names its newest version. */
export function showWholeConfig(
  record: StoredRecord<'config'>,
  versionId: string,
): Static<typeof ConfigDetail> {
  return { ...showConfig(record), config: { ...record.data.config }, ...versionReply(versionId) };
}

/** Converts a version of a config to the API's shape; members that have no versions show their current values. */
export function showConfigVersion(
  record: StoredRecord<'config'>,
  version: RecordVersion<'config'>,
): Static<typeof ConfigVersionReply> {
  return {
    ...showConfig(record),
    name: version.name,
    is_default: version.data.isDefault ? 1 : 0,
    updated_by: version.createdBy,
    last_updated_at: new Date(version.createdAt).toISOString(),
    config: JSON.stringify(version.data.config),
    ...versionReply(version.id),
    version: version.number,
  };
}

function versionReply(versionId: string) {
  return { format: 'json' as const, type: 'WORKSPACE_CONFIG' as const, version_id: versionId };
}
