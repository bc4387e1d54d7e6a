import { randomUUID } from 'node:crypto';
import { holds } from '../../../core/access/scopes.ts';
import { notEnforcedFields, notEnforcedMarks } from '../../../core/organisation/not-enforced.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesWriter } from '../../../core/ports/resources.ts';
import {
  changedRecord,
  newSlug,
  placeOfList,
  placeOfNew,
  requireOrganisation,
  requireOwn,
  staleVersion,
  visibleRecord,
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
import { listReply, pageOf, pageQuery } from '../shared/replies.ts';
import { Identifier, Name, strict } from '../shared/fields.ts';

const path = '/guardrails';
const onePath = `${path}/{guardrailId}`;
const noun = 'guardrail';
const Params = Type.Object({ guardrailId: Identifier });
const workspaceQuery = { workspace_id: Type.Optional(Name('Id or slug of the workspace of the guardrail.')) };
const Changed = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  version_id: Type.String(),
  object: Type.Literal('guardrail'),
  ...notEnforcedFields,
});

type Action = 'create' | 'read' | 'update' | 'delete' | 'list';

/** Any of them lets a key in; what belongs to the organisation asks for the second. */
const scopesFor = (action: Action) => [`guardrails.${action}`, `organisation_guardrails.${action}`];

/** The routes of stored guardrails. */
export function guardrailRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(), getRoute(), updateRoute(scope), deleteRoute()];
}

function createRoute({ clock, guards }: Scope): RouteDefinition {
  return defineRoute({
    id: 'guardrails.create',
    method: 'POST',
    path,
    summary: 'Creates a guardrail: checks, and what happens when they have spoken',
    scope: scopesFor('create'),
    feature: 'guardrails',
    audit: 'create',
    body: CreateGuardrail,
    reply: Changed,
    async handle({ body, key, write, sendVersion }) {
      const { name } = body;
      const data = { checks: readChecks(body.checks, guards), actions: readActions(body.actions) };
      const id = randomUUID();
      const slug = newSlug('guard_', name);
      const by = key.userId || key.id;
      const now = clock.now();
      const versionId = await write(async (writer) => {
        const workspaceId = (await placeOfNew(writer, key, body))?.id;
        requireRight(key, 'create', workspaceId);
        const record: StoredRecord<'guardrail'> = {
          ...{ kind: 'guardrail', id, organisationId: key.organisationId, workspaceId, slug, name },
          ...{ status: 'active', parentId: '', data, secrets: {}, createdBy: by, updatedBy: by },
          ...{ createdAt: now, updatedAt: now, version: 1 },
        };
        await writer.records.insert(record);
        return { id, workspaceId, result: await addVersion(writer, record) };
      });
      sendVersion(1);
      return changed({ id, slug, version_id: versionId });
    },
  });
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'guardrails.list',
    method: 'GET',
    path,
    summary: 'The guardrails that the key may see, oldest first',
    scope: scopesFor('list'),
    feature: 'guardrails',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...pageQuery,
        ...workspaceQuery,
        organisation_id: Type.Optional(Name('Without `workspace_id`: only those of the whole organisation.')),
      },
      strict,
    ),
    reply: Type.Object({ ...listReply, data: Type.Array(GuardrailReply) }),
    async handle({ query, key, read }) {
      const page = pageOf(query);
      const { workspace_id: named, organisation_id: organisation } = query;
      requireOrganisation(key, organisation);
      const { total, data } = await read(async (reader) => {
        const ofOrganisation = named === undefined && organisation !== undefined;
        const { organisationId, workspaceId } = await placeOfList(reader, key, named);
        const filter = ofOrganisation
          ? ({ ofOrganisation } as const)
          : { ...(workspaceId !== undefined && { workspaceId }) };
        return reader.records.list('guardrail', organisationId, { status: 'active', ...filter }, page);
      });
      return { object: 'list' as const, total, data: data.map((record) => showGuardrail(record)) };
    },
  });
}

function getRoute(): RouteDefinition {
  return defineRoute({
    id: 'guardrails.get',
    method: 'GET',
    path: onePath,
    summary: 'One guardrail, by its id or slug, with what it checks',
    scope: scopesFor('read'),
    feature: 'guardrails',
    // Reads only.
    audit: null,
    params: Params,
    query: Type.Object(workspaceQuery, strict),
    reply: WholeGuardrail,
    async handle({ params, query, key, read, sendVersion }) {
      const named = { kind: 'guardrail', noun, idOrSlug: params.guardrailId } as const;
      const record = await read((reader) =>
        visibleRecord(reader, key, { ...named, workspace: query.workspace_id }),
      );
      sendVersion(record.version);
      return showWholeGuardrail(record);
    },
  });
}

function updateRoute({ clock, guards }: Scope): RouteDefinition {
  return defineRoute({
    id: 'guardrails.update',
    method: 'PUT',
    path: onePath,
    summary: 'Changes a guardrail; what is not given stays, and what it was remains as a version',
    scope: scopesFor('update'),
    feature: 'guardrails',
    audit: 'update',
    params: Params,
    body: UpdateGuardrail,
    reply: Changed,
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const checks = body.checks && readChecks(body.checks, guards);
      const actions = body.actions && readActions(body.actions);
      const { record, versionId } = await write(async (writer) => {
        const named = { kind: 'guardrail', noun, idOrSlug: params.guardrailId } as const;
        const before = await visibleRecord(writer, key, { ...named, workspace: body.workspace_id });
        requireOwn(key, before, noun);
        requireRight(key, 'update', before.workspaceId);
        requireVersion(before.version);
        const data = { checks: checks ?? before.data.checks, actions: actions ?? before.data.actions };
        const after = changedRecord(before, { name: body.name ?? before.name, data }, key, clock.now());
        if (!(await writer.records.replace(after))) throw staleVersion();
        const result = { record: after, versionId: await addVersion(writer, after) };
        return { id: after.id, workspaceId: after.workspaceId, result };
      });
      sendVersion(record.version);
      const { id, slug } = record;
      return changed({ id, slug, version_id: versionId });
    },
  });
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'guardrails.delete',
    method: 'DELETE',
    path: onePath,
    summary: 'Deletes a guardrail with its versions',
    scope: scopesFor('delete'),
    feature: 'guardrails',
    audit: 'delete',
    params: Params,
    query: Type.Object(workspaceQuery, strict),
    reply: Type.Object({}),
    async handle({ params, query, key, write, requireVersion }) {
      await write(async (writer) => {
        const named = { kind: 'guardrail', noun, idOrSlug: params.guardrailId } as const;
        const record = await visibleRecord(writer, key, { ...named, workspace: query.workspace_id });
        requireOwn(key, record, noun);
        requireRight(key, 'delete', record.workspaceId);
        requireVersion(record.version);
        await writer.records.remove('guardrail', record.organisationId, record.id);
        return { id: record.id, workspaceId: record.workspaceId, result: undefined };
      });
      return {};
    },
  });
}

function changed(record: Omit<Static<typeof Changed>, 'object' | 'status' | 'warning'>) {
  return { ...record, object: 'guardrail' as const, ...notEnforcedMarks('guardrails') };
}

/** Throws `scope_missing` when the key may not do this to what belongs to the organisation. */
function requireRight(key: KeyRecord, action: Action, workspaceId: string | undefined): void {
  const scope = `organisation_guardrails.${action}`;
  if (workspaceId !== undefined || holds(key, scope)) return;
  throw new GatewayError(
    'scope_missing',
    `The key "${key.name}" lacks the scope "${scope}", which guardrails of the whole organisation ask for. Name a workspace (workspace_id), or use a key that has it.`,
  );
}

async function addVersion(
  { records }: Pick<ResourcesWriter, 'records'>,
  { id, organisationId, name, data, updatedBy, updatedAt }: StoredRecord<'guardrail'>,
): Promise<string> {
  const version = await records.addVersion('guardrail', organisationId, {
    ...{ id: randomUUID(), recordId: id, name, data, description: '', labelId: '' },
    ...{ createdBy: updatedBy, createdAt: updatedAt },
  });
  return version.id;
}
