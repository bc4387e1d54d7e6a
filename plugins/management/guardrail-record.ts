import { notEnforcedFields, notEnforcedMarks, Warning } from '../../core/organisation/not-enforced.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { Actions, Check } from './guardrail-body.ts';
import { ManagedBy, orNull } from './text-schema.ts';

/** A guardrail as lists show it. */
export const GuardrailReply = Type.Object({
  id: Type.String(),
  name: Type.String(),
  slug: Type.String(),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String({ description: 'Null for a guardrail of the whole organisation.' })),
  status: Type.Union([notEnforcedFields.status, Type.Literal('archived')]),
  warning: Type.Optional(Warning),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  owner_id: Type.String(),
  updated_by: Type.String(),
  managed_by: ManagedBy,
  object: Type.Literal('guardrail'),
});

/** One guardrail with what it checks. */
export const WholeGuardrail = Type.Object({
  ...GuardrailReply.properties,
  checks: Type.Array(Check),
  actions: Actions,
});

/** Puts a stored guardrail into the shape of lists. */
export function showGuardrail(record: StoredRecord<'guardrail'>): Static<typeof GuardrailReply> {
  return {
    ...{ id: record.id, name: record.name, slug: record.slug },
    ...(record.status === 'active' ? notEnforcedMarks('guardrails') : { status: record.status }),
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    ...{ owner_id: record.createdBy, updated_by: record.updatedBy },
    managed_by: record.managedBy ?? 'api',
    object: 'guardrail',
  };
}

/** The same with what it checks. */
export function showWholeGuardrail(record: StoredRecord<'guardrail'>): Static<typeof WholeGuardrail> {
  const { checks, actions } = record.data;
  return {
    ...showGuardrail(record),
    checks: checks.map(({ id, name, isEnabled, parameters }) => ({
      ...{ id, name, parameters: { ...parameters } },
      is_enabled: isEnabled,
    })),
    actions: { ...actions },
  };
}
