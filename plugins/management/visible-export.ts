import { covers, exportVisibility } from '../../core/administration/exports/export-visibility.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import type { Actor } from './api-key-access.ts';
import { dataVisibility, type SettingsSource } from './data-visibility.ts';
import { noSuchRecord, visibleRecord } from './visible-record.ts';

/**
 * The export of this id, when the caller may read every row that it is about. Throws `resource_not_found` otherwise, in
 * the same words whether there is none or it is not within reach.
 */
export async function visibleExport(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  actor: Actor,
  { directory, id }: { readonly directory: SettingsSource; readonly id: string },
): Promise<StoredRecord<'log_export'>> {
  const named = { kind: 'log_export', noun: 'export', idOrSlug: id } as const;
  const record = await visibleRecord(reader, actor.key, named);
  if (covers(dataVisibility(actor, directory), exportVisibility(record))) return record;
  throw noSuchRecord('export', id);
}

/** Throws `resource_conflict`: the export is not in a state in which this can be done. */
export function wrongState({ data: { state } }: StoredRecord<'log_export'>, remedy: string): GatewayError {
  return new GatewayError('resource_conflict', `The export is "${state}". ${remedy}`);
}
