import type { Visibility } from '../../core/ports/analytics.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';

/** Whose rows a key may read: owner and organisation keys their organisation's, workspace keys their workspace's alone. */
export function visibilityOf({ kind, organisationId, workspaceId }: KeyRecord): Visibility {
  if (kind === 'owner' || kind === 'organisation-service') return { organisationId };
  return { organisationId, workspaceId };
}
