import { holds } from '../../../core/access/scopes.ts';
import { notEnforcedFields, guardrailNotEnforced } from '../../../core/organisation/not-enforced.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { GatewayError, Type, type Scope, type Static } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesWriter } from '../../../core/ports/resources.ts';
import {
  keepVersion,
  newSlug,
  placeOfList,
  placeOfNew,
  requireOrganisation,
  requireOwn,
} from '../shared/records.ts';
import {
  CreateGuardrail,
  GuardrailReply,
  readActions,
  readChecks,
  showGuardrail,
  showWholeGuardrail,
  UpdateGuardrail,
  WholeGuardrail,
} from './record.ts';
import { isReading, type RecordAction, RecordResource } from '../shared/record-resource.ts';
import { Name, strict } from '../shared/fields.ts';

const noun = 'guardrail';
const workspaceQuery = { workspace_id: Type.Optional(Name('Id or slug of the workspace of the guardrail.')) };
const Changed = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  version_id: Type.String(),
  object: Type.Literal('guardrail'),
  ...notEnforcedFields,
});

/** The routes of stored guardrails. */
export function guardrailRoutes(scope: Scope): readonly RouteDefinition[] {
  const { guards } = scope;
  const guardrails = new RecordResource(scope, {
    kind: 'guardrail',
    noun,
    operations: 'guardrails',
    path: '/guardrails',
    parameter: 'guardrailId',
    // Any of them lets a key in; what belongs to the organisation asks for the second.
    scopes: (action) => [`guardrails.${action}`, `organisation_guardrails.${action}`],
    feature: 'guardrails',
    allow(key, record, action) {
      if (isReading(action)) return;
      requireOwn(key, record, noun);
      requireRight(key, action, record.workspaceId);
    },
  });
  return [
    guardrails.create({
      summary: 'Creates a guardrail: checks, and what happens when they have spoken',
      body: CreateGuardrail,
      reply: Changed,
      prepare: ({ body }) => ({
        checks: readChecks(body.checks, guards),
        actions: readActions(body.actions),
      }),
      async make(writer, { key, body, prepared: data }) {
        const workspaceId = (await placeOfNew(writer, key, body))?.id;
        requireRight(key, 'create', workspaceId);
        return { workspaceId, slug: newSlug('guard_', body.name), name: body.name, data };
      },
      show: changed,
    }),
    guardrails.list({
      summary: 'The guardrails that the key may see, oldest first',
      query: {
        ...workspaceQuery,
        organisation_id: Type.Optional(Name('Without `workspace_id`: only those of the whole organisation.')),
      },
      entry: GuardrailReply,
      prepare: ({ key, query }) => requireOrganisation(key, query.organisation_id),
      async rows(reader, { key, query }, page) {
        const { workspace_id: named, organisation_id: organisation } = query;
        const ofOrganisation = named === undefined && organisation !== undefined;
        const { organisationId, workspaceId } = await placeOfList(reader, key, named);
        const filter = ofOrganisation
          ? ({ ofOrganisation } as const)
          : { ...(workspaceId !== undefined && { workspaceId }) };
        return reader.records.list('guardrail', organisationId, { status: 'active', ...filter }, page);
      },
      show: showGuardrail,
    }),
    guardrails.get({
      summary: 'One guardrail, by its id or slug, with what it checks',
      query: Type.Object(workspaceQuery, strict),
      reply: WholeGuardrail,
      show: showWholeGuardrail,
    }),
    guardrails.update({
      summary: 'Changes a guardrail; what is not given stays, and what it was remains as a version',
      body: UpdateGuardrail,
      reply: Changed,
      prepare: ({ body }) => ({
        checks: body.checks && readChecks(body.checks, guards),
        actions: body.actions && readActions(body.actions),
      }),
      change({ name, data }, _writer, { body, prepared: { checks, actions } }) {
        return {
          name: body.name ?? name,
          data: { checks: checks ?? data.checks, actions: actions ?? data.actions },
        };
      },
      show: changed,
    }),
    guardrails.remove({
      summary: 'Deletes a guardrail with its versions',
      query: Type.Object(workspaceQuery, strict),
    }),
  ];
}

/** Keeps what the guardrail says now as its newest version, and answers with the id of that. */
async function changed(
  record: StoredRecord<'guardrail'>,
  writer: Pick<ResourcesWriter, 'records'>,
): Promise<Static<typeof Changed>> {
  const { id, slug } = record;
  const version = await keepVersion(writer, record);
  return { id, slug, version_id: version.id, object: 'guardrail', ...guardrailNotEnforced };
}

/** Throws `scope_missing` when the key may not do this to what belongs to the organisation. */
function requireRight(key: KeyRecord, action: RecordAction, workspaceId: string | undefined): void {
  const scope = `organisation_guardrails.${action}`;
  if (workspaceId !== undefined || holds(key, scope)) return;
  throw new GatewayError(
    'scope_missing',
    `The key "${key.name}" lacks the scope "${scope}", which guardrails of the whole organisation ask for. Name a workspace (workspace_id), or use a key that has it.`,
  );
}
