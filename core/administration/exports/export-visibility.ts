import type { Visibility } from '../../ports/analytics.ts';
import type { Directory, KeyRecord } from '../../ports/directory.ts';
import type { ExportCreator } from '../../ports/record-kinds.ts';
import type { StoredRecord } from '../../ports/records.ts';

/** The scope that exports need. */
export const exportScope = 'logs.export';

/** Whose rows an export is about. Whoever may not read all of them does not see the export. */
export function exportVisibility({
  organisationId,
  workspaceId = '',
  data: { visibleUserId, visibleKeyId },
}: Pick<StoredRecord<'log_export'>, 'organisationId' | 'workspaceId' | 'data'>): Visibility {
  return {
    ...{ organisationId, workspaceId },
    ...(visibleUserId !== undefined && { userId: visibleUserId }),
    ...(visibleKeyId !== undefined && { apiKeyId: visibleKeyId }),
  };
}

/** Whether whoever sees the one sees all of the other. */
export function covers(wide: Visibility, narrow: Visibility): boolean {
  const { organisationId, workspaceId, userId, apiKeyId } = wide;
  return (
    organisationId === narrow.organisationId &&
    (workspaceId === undefined || workspaceId === narrow.workspaceId) &&
    (userId === undefined || userId === narrow.userId) &&
    (apiKeyId === undefined || apiKeyId === narrow.apiKeyId)
  );
}

/** What the maker of an export is, for its record. */
export function creatorOf(key: KeyRecord, directory: Pick<Directory, 'keyById' | 'user'>): ExportCreator {
  const { id, name, kind, organisationId, workspaceId, userId } = key;
  return {
    ...{ keyId: id, keyName: name, kind, workspaceId, userId },
    isKnownKey: key.isToken !== true && directory.keyById(id) !== undefined,
    isKnownUser: userId !== '' && directory.user(organisationId, userId) !== undefined,
  };
}
