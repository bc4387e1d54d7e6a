import { randomUUID } from 'node:crypto';
import { rowTime } from '../base/row-time.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { FeedbackRow } from '../ports/request-row.ts';

/** First feedback row of a caller. `at` in milliseconds since the epoch. */
export function newFeedback(
  { organisationId, workspaceId, id: keyId, userId }: KeyRecord,
  given: Pick<FeedbackRow, 'trace_id' | 'value' | 'weight' | 'metadata'>,
  at: number,
): FeedbackRow {
  const id = randomUUID();
  return {
    id,
    created_at: rowTime(at),
    feedback_id: id,
    revision: 1,
    organisation_id: organisationId,
    workspace_id: workspaceId,
    api_key_id: keyId,
    user_id: userId,
    ...given,
  };
}
