import type { Features } from '../../access/features.ts';
import { hasScope, isOfWorkspace, type Role, roleOf } from '../../access/scopes.ts';
import type { Visibility, Analytics } from '../../ports/analytics.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Directory, KeyRecord } from '../../ports/directory.ts';
import type { Blobs, FileFormats } from '../../ports/exports.ts';
import type { Jobs } from '../../ports/jobs.ts';
import type { Log } from '../../ports/log.ts';
import type { ExportCreator } from '../../ports/record-kinds.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { ExportSettings } from '../../ports/request-row.ts';
import type { Resources } from '../../ports/resources.ts';
import type { SecretBox } from '../../ports/secret-managers.ts';
import { ExportFailure } from './manifest.ts';

/** Scope that exports require. */
export const exportScope = 'logs.export';

/** Owners of an export's rows. Only a caller who may read all of these rows sees the export. */
export function exportVisibility({
  organisationId,
  workspaceId = '',
  data: { visibleUserId, visibleKeyId },
}: Pick<StoredRecord<'log_export'>, 'organisationId' | 'workspaceId' | 'data'>): Visibility {
  return {
    organisationId,
    workspaceId,
    ...(visibleUserId !== undefined && { userId: visibleUserId }),
    ...(visibleKeyId !== undefined && { apiKeyId: visibleKeyId }),
  };
}

/** Whether `wide` includes every row of `narrow`. */
export function covers(wide: Visibility, narrow: Visibility): boolean {
  const { organisationId, workspaceId, userId, apiKeyId } = wide;
  return (
    organisationId === narrow.organisationId &&
    (workspaceId === undefined || workspaceId === narrow.workspaceId) &&
    (userId === undefined || userId === narrow.userId) &&
    (apiKeyId === undefined || apiKeyId === narrow.apiKeyId)
  );
}

/** Maker of an export, for its record. */
export function creatorOf(key: KeyRecord, directory: Pick<Directory, 'keyById' | 'user'>): ExportCreator {
  const { id, name, kind, organisationId, workspaceId, userId } = key;
  return {
    keyId: id,
    keyName: name,
    kind,
    workspaceId,
    userId,
    isKnownKey: key.isToken !== true && directory.keyById(id) !== undefined,
    isKnownUser: userId !== '' && directory.user(organisationId, userId) !== undefined,
  };
}

/** Visibility of log rows for an actor: the rule of every route. */
type VisibilityRule = (
  actor: { readonly key: KeyRecord; readonly role: Role },
  directory: Directory,
) => Visibility;

/**
 * Throws `ExportFailure`, with a sentence, when the maker of the export may no longer read its rows: their key is gone,
 * has expired or lacks the scope, their user is gone, their workspace is archived, or their visibility has shrunk.
 */
export function requireRights(
  record: StoredRecord<'log_export'>,
  directory: Directory,
  { rule, now }: { readonly rule: VisibilityRule; readonly now: number },
): void {
  const { creator } = record.data;
  const key = presentKey(creator, record.organisationId, directory);
  if (key === undefined)
    throw rightsLostError(`the key "${creator.keyName}", with which it was made, is gone`);
  if (key.expiresAt !== null && key.expiresAt <= now)
    throw rightsLostError(`the key "${key.name}", with which it was made, has expired`);
  if (!hasScope(key, exportScope))
    throw rightsLostError(
      `the key "${key.name}", with which it was made, lacks the scope "${exportScope}" now`,
    );
  if (creator.isKnownUser && directory.user(record.organisationId, creator.userId) === undefined)
    throw rightsLostError('the user who made it is gone');
  if (isOfWorkspace(key) && directory.isArchived(key.workspaceId))
    throw rightsLostError('the workspace of the key with which it was made is archived');
  const visibility = rule({ key, role: roleOf(key, directory) }, directory);
  if (!covers(visibility, exportVisibility(record)))
    throw rightsLostError('its creator may not read all of these logs any more');
}

/**
 * The key as the directory knows it now; for one that the directory never knew (a token, a key of a plugin's options),
 * as recorded at creation.
 */
function presentKey(
  creator: ExportCreator,
  organisationId: string,
  directory: Directory,
): KeyRecord | undefined {
  const { keyId, keyName, kind, workspaceId, userId, isKnownKey } = creator;
  if (isKnownKey) return directory.keyById(keyId);
  return {
    id: keyId,
    name: keyName,
    kind,
    organisationId,
    workspaceId,
    userId,
    scopes: [exportScope],
    expiresAt: null,
  };
}

function rightsLostError(why: string): ExportFailure {
  return new ExportFailure(
    `The export cannot continue: ${why}. Start the export again with a key that may read these logs.`,
  );
}

/** Dependencies of exports. */
export interface ExportPlace {
  readonly resources: Resources;
  readonly directory: Directory;
  readonly analytics: Pick<Analytics, 'logs'>;
  readonly blobs: Blobs;
  readonly jobs: Pick<Jobs, 'define' | 'repeat' | 'add'>;
  readonly formats: FileFormats;
  /** Seals links, so that they cannot be forged. */
  readonly secrets: SecretBox;
  readonly features: Pick<Features, 'isOn'>;
  readonly settings: Pick<ExportSettings, 'expires_days' | 'max_rows' | 'link_minutes' | 'denied_fields'>;
  /** Visibility rule of log rows. */
  readonly rule: VisibilityRule;
  readonly clock: Clock;
  readonly log: Log;
  /** How long one attempt collects rows before another job may run. Default 10,000 ms. */
  readonly sliceMs?: number;
}
