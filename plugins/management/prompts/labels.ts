import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { labelSlug } from '../../../core/administration/prompts/find-prompt.ts';
import {
  changedRecord,
  everyRecord,
  placeOfList,
  requireOrganisation,
  requireOwn,
  staleVersion,
  visibleRecord,
  workspaceOfBody,
} from '../shared/records.ts';
import { listReply, pageOf, pageQuery } from '../shared/replies.ts';
import { requirePrompts, requireUnusedLabel } from './templates.ts';
import { Description, Identifier, Instant, Name, orNull, strict } from '../shared/fields.ts';

const Params = Type.Object({ labelId: Identifier });

const place = {
  organisation_id: Type.Optional(Name('Id of the organisation; that of the key by default.')),
  workspace_id: Type.Optional(Name('Id or slug of the workspace.')),
};

const LabelName = Type.String({
  ...{ minLength: 1, maxLength: 100 },
  pattern: '^(?!latest$)(?!default$)(?!\\d+$)[a-zA-Z0-9_-]*[^@\\s]?[a-zA-Z0-9_-]*$',
  description: 'What references say behind the `@`; not `latest`, not `default`, not a number alone.',
});

const fields = {
  description: Type.Optional(orNull(Description)),
  color_code: Type.Optional(
    orNull(
      Type.String({
        pattern: '^(?:#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8}))?$',
        description: 'For people: `#` and 3, 6 or 8 hexadecimal digits, such as `#00AA55`; empty for none.',
        examples: ['#00AA55'],
      }),
    ),
  ),
};

const LabelReply = Type.Object({
  id: Type.String(),
  object: Type.Literal('label'),
  name: Type.String(),
  description: Type.String(),
  color_code: Type.String(),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  is_universal: Type.Boolean({ description: 'It belongs to the organisation, for all of its workspaces.' }),
  status: Type.String(),
  created_at: Instant('When it was made.'),
  last_updated_at: Instant('When it was changed last.'),
});

/** The routes of labels: names that move from one version of a prompt to another. */
export function labelRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(scope), getRoute(scope), updateRoute(scope), deleteRoute(scope)];
}

function createRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'labels.create',
    method: 'POST',
    path: '/labels',
    summary: 'Makes a label: of a workspace, or of the whole organisation when its key names none',
    scope: 'prompts.create',
    audit: 'create',
    body: Type.Object({ ...place, name: LabelName, ...fields }, strict),
    reply: LabelReply,
    async handle({ body, key, role, write, sendVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      requireOrganisation(key, body.organisation_id);
      const record = await write(async (writer) => {
        const workspaceId = (await workspaceOfBody(writer, key, body.workspace_id))?.id;
        const now = clock.now();
        const by = key.userId || key.id;
        const record: StoredRecord<'label'> = {
          ...{ kind: 'label', id: randomUUID(), organisationId: key.organisationId, workspaceId },
          ...{ slug: labelSlug(body.name), name: body.name, status: 'active', parentId: '', secrets: {} },
          data: {
            ...{ description: body.description ?? '', colourCode: body.color_code ?? '' },
            isUniversal: workspaceId === undefined,
          },
          ...{ createdBy: by, updatedBy: by, createdAt: now, updatedAt: now, version: 1 },
        };
        await writer.records.insert(record);
        return { id: record.id, workspaceId, result: record };
      });
      sendVersion(record.version);
      return showLabel(record);
    },
  });
}

function listRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'labels.list',
    method: 'GET',
    path: '/labels',
    summary: 'The labels of a workspace, oldest first, and those of the organisation behind them',
    scope: 'prompts.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      { ...pageQuery, ...place, search: Type.Optional(Name('Part of the name, in any case.')) },
      strict,
    ),
    reply: Type.Object({ ...listReply, data: Type.Array(LabelReply) }),
    async handle({ query, key, role, read }) {
      requirePrompts({ key, role }, directory, 'View');
      requireOrganisation(key, query.organisation_id);
      const { offset, limit } = pageOf(query);
      const found = await read(async (reader) => {
        const { organisationId, workspaceId } = await placeOfList(reader, key, query.workspace_id);
        const search = query.search === undefined ? {} : { search: query.search };
        if (workspaceId === undefined) return everyRecord(reader, 'label', organisationId, search);
        const own = await everyRecord(reader, 'label', organisationId, { ...search, workspaceId });
        const universal = { ...search, ofOrganisation: true as const };
        return [...own, ...(await everyRecord(reader, 'label', organisationId, universal))];
      });
      const data = found.slice(offset, offset + limit).map((record) => showLabel(record));
      return { object: 'list' as const, total: found.length, data };
    },
  });
}

function getRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'labels.get',
    method: 'GET',
    path: '/labels/{labelId}',
    summary: 'One label',
    scope: 'prompts.read',
    // Reads only.
    audit: null,
    params: Params,
    query: Type.Object(place, strict),
    reply: LabelReply,
    async handle({ params, query, key, role, read, sendVersion }) {
      requirePrompts({ key, role }, directory, 'View');
      requireOrganisation(key, query.organisation_id);
      const named = { kind: 'label', noun: 'label', idOrSlug: params.labelId } as const;
      const record = await read((reader) =>
        visibleRecord(reader, key, { ...named, workspace: query.workspace_id }),
      );
      sendVersion(record.version);
      return showLabel(record);
    },
  });
}

function updateRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'labels.update',
    method: 'PUT',
    path: '/labels/{labelId}',
    summary: 'Changes a label; what is not given stays',
    scope: 'prompts.update',
    audit: 'update',
    params: Params,
    body: Type.Object({ name: Type.Optional(LabelName), ...fields }, strict),
    reply: LabelReply,
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      const named = { kind: 'label', noun: 'label', idOrSlug: params.labelId } as const;
      const record = await write(async (writer) => {
        const before = await visibleRecord(writer, key, named);
        requireOwn(key, before, 'label');
        requireVersion(before.version);
        const { data } = before;
        const name = body.name ?? before.name;
        const changed = {
          ...data,
          ...(body.description !== undefined && { description: body.description ?? '' }),
          ...(body.color_code !== undefined && { colourCode: body.color_code ?? '' }),
        };
        const change = { name, slug: labelSlug(name), data: changed };
        const after = changedRecord(before, change, key, clock.now());
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: after };
      });
      sendVersion(record.version);
      return showLabel(record);
    },
  });
}

function deleteRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'labels.delete',
    method: 'DELETE',
    path: '/labels/{labelId}',
    summary: 'Removes a label that no version has',
    scope: 'prompts.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    async handle({ params, key, role, write, requireVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      const named = { kind: 'label', noun: 'label', idOrSlug: params.labelId } as const;
      await write(async (writer) => {
        const record = await visibleRecord(writer, key, named);
        const { id, organisationId, workspaceId } = record;
        requireOwn(key, record, 'label');
        requireVersion(record.version);
        await requireUnusedLabel(writer, record);
        if (!(await writer.records.remove('label', organisationId, id))) throw staleVersion();
        return { id, workspaceId, result: undefined };
      });
      return {};
    },
  });
}

function showLabel(record: StoredRecord<'label'>): Static<typeof LabelReply> {
  const { id, name, data, organisationId, workspaceId, status, createdAt, updatedAt } = record;
  return {
    ...{ id, object: 'label', name, description: data.description, color_code: data.colourCode },
    ...{ organisation_id: organisationId, workspace_id: workspaceId ?? null },
    ...{ is_universal: data.isUniversal, status },
    created_at: new Date(createdAt).toISOString(),
    last_updated_at: new Date(updatedAt).toISOString(),
  };
}
