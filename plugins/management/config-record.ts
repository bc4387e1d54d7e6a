import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { RecordVersion, StoredRecord } from '../../core/ports/records.ts';
import { ManagedBy, orNull } from './text-schema.ts';

const own = {
  id: Type.String(),
  name: Type.String(),
  slug: Type.String({ description: 'What requests and defaults name it by.' }),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  is_default: Type.Integer({ description: '1 for the default of its workspace.' }),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  owner_id: Type.String({ description: 'The user, or the key, that made it.' }),
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

/** One config with what it says now. */
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

/** Puts a stored config into the shape of lists. */
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

/** The same with what it says; `versionId` names its newest version. */
export function showWholeConfig(
  record: StoredRecord<'config'>,
  versionId: string,
): Static<typeof ConfigDetail> {
  return { ...showConfig(record), config: { ...record.data.config }, ...saidBy(versionId) };
}

/** Puts a version of a config into the shape of the API: what belongs to no version is as it is now. */
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
    ...saidBy(version.id),
    version: version.number,
  };
}

function saidBy(versionId: string) {
  return { format: 'json' as const, type: 'WORKSPACE_CONFIG' as const, version_id: versionId };
}
