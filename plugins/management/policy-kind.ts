import { Type } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { ManagedBy, orNull } from './text-schema.ts';

/** The kinds of records that are policies. */
export type PolicyRecordKind = 'rate_limit_policy' | 'usage_limit_policy';

type Schema = ReturnType<typeof Type.Object>;

/** What tells the two kinds of policies apart. */
export interface PolicyKind<K extends PolicyRecordKind> {
  readonly kind: K;
  /** The first part of the operation ids. */
  readonly routes: string;
  readonly path: string;
  /** The name of the path's parameter. */
  readonly parameter: string;
  /** For people: `rate-limit policy`. */
  readonly words: string;
  /** Filters of the list that the store does not know: fields of the record's data. */
  readonly filters: Parameters<typeof Type.Object>[0];
  /** What `GET` of one takes beside `status`. */
  readonly readQuery: Parameters<typeof Type.Object>[0];
  readonly reply: Schema;
  /** Puts a stored policy into the shape of `reply`. */
  show(record: StoredRecord<K>): Record<string, unknown>;
}

/** What a policy answers with, of either kind. */
export const policyReplyFields = {
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  workspace_id: orNull(Type.String({ description: 'Null for a policy of the whole organisation.' })),
  organisation_id: Type.String(),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  managed_by: ManagedBy,
};

/** What `policyReplyFields` show. */
export function showPolicy(record: StoredRecord<PolicyRecordKind>) {
  return {
    status: record.status,
    workspace_id: record.workspaceId ?? null,
    organisation_id: record.organisationId,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    managed_by: record.managedBy ?? ('api' as const),
  };
}
