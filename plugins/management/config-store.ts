import { randomUUID } from 'node:crypto';
import { Type } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { RecordVersion, StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter } from '../../core/ports/resources.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, Name } from './text-schema.ts';
import { eachRecord, visibleRecord } from './visible-record.ts';

/** The path of a config. */
export const ConfigParams = Type.Object({ slug: Identifier });

/** The part of a query that says whose configs are meant. */
export const configQuery = {
  workspace_id: Type.Optional(Name('Id or slug of a workspace: its configs alone.')),
};

/** What names a config in a request. */
export interface ConfigPath {
  readonly params: { readonly slug: string };
  readonly query: { readonly workspace_id?: string };
}

/** The config that the path names. Throws `resource_not_found` when none is visible to the key. */
export function visibleConfig(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  { params, query }: ConfigPath,
): Promise<StoredRecord<'config'>> {
  const named = { kind: 'config', noun: 'config', idOrSlug: params.slug } as const;
  return visibleRecord(reader, key, { ...named, workspace: query.workspace_id });
}

/** Keeps what the config says now as its newest version. */
export function addConfigVersion(
  { records }: Pick<ResourcesWriter, 'records'>,
  { organisationId, id: recordId, name, data, updatedBy, updatedAt }: StoredRecord<'config'>,
): Promise<RecordVersion<'config'>> {
  return records.addVersion('config', organisationId, {
    ...{ id: randomUUID(), recordId, name, data, description: '', labelId: '' },
    ...{ createdBy: updatedBy, createdAt: updatedAt },
  });
}

/** Takes it from the configs of the workspace that `heir` is the default of now. */
export async function takeDefault(
  writer: Pick<ResourcesWriter, 'records'>,
  heir: StoredRecord<'config'>,
): Promise<void> {
  const { organisationId, workspaceId, updatedAt, updatedBy } = heir;
  const filter = workspaceId === undefined ? { ofOrganisation: true as const } : { workspaceId };
  for await (const record of eachRecord(writer, 'config', organisationId, filter)) {
    if (record.id === heir.id || !record.data.isDefault) continue;
    const data = { ...record.data, isDefault: false };
    const after = { ...record, data, updatedAt, updatedBy, version: record.version + 1 };
    if (!(await writer.records.replace(after))) throw staleVersion();
  }
}
