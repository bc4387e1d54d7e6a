import { notEnforcedFields, guardrailNotEnforced, Warning } from '../../../core/organisation/not-enforced.ts';
import { type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { ManagedBy, Name, orNull, plainObject, refusedBody, strict } from '../shared/fields.ts';
import {
  Actions,
  actionsOf,
  Check,
  checkIssues,
  checksOf,
  guardrailFields as fields,
} from '../../../core/organisation/guardrails.ts';
import type { GuardrailData } from '../../../core/ports/record-kinds.ts';

export { Actions, actionsOf as readActions, Check };

/** What makes a guardrail. */
export const CreateGuardrail = Type.Object(
  {
    ...fields,
    workspace_id: Type.Optional(Name('Id or slug. Default: the workspace of the key.')),
    organisation_id: Type.Optional(
      Name('Without `workspace_id`, for keys of organisations: a guardrail of the whole organisation.'),
    ),
  },
  strict,
);

/** What changes one; what is not given stays, and checks are replaced as a whole. */
export const UpdateGuardrail = Type.Object(
  {
    name: Type.Optional(fields.name),
    checks: Type.Optional(fields.checks),
    actions: Type.Optional(fields.actions),
    workspace_id: Type.Optional(Name('Of the guardrail, where its slug does not tell.')),
  },
  strict,
);

/** The checks as they are stored. Throws `invalid_request` with every mistake: there is no such check, or not so. */
export function readChecks(
  given: readonly Static<typeof Check>[],
  guards: Scope['guards'],
): GuardrailData['checks'] {
  const mistakes = checkIssues(given, guards);
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return checksOf(given, (parameters, index) => plainObject(parameters, `/checks/${index}/parameters`));
}

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
    id: record.id,
    name: record.name,
    slug: record.slug,
    ...(record.status === 'active' ? guardrailNotEnforced : { status: record.status }),
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    owner_id: record.createdBy,
    updated_by: record.updatedBy,
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
      id,
      name,
      parameters: { ...parameters },
      is_enabled: isEnabled,
    })),
    actions: { ...actions },
  };
}
