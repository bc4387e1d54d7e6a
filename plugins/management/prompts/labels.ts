import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { labelSlug } from '../../../core/administration/prompts/find-prompt.ts';
import { isReading, RecordResource } from '../shared/record-resource.ts';
import { places, storedRecords } from '../shared/records.ts';
import { promptTemplates } from './templates.ts';
import { Description, Instant, Name, orNull, strict } from '../shared/fields.ts';

const place = {
  organisation_id: Type.Optional(Name('Id of the organisation; that of the key by default.')),
  workspace_id: Type.Optional(Name('Id or slug of the workspace.')),
};

const LabelName = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: '^(?!latest$)(?!default$)(?!\\d+$)[a-zA-Z0-9_-]*[^@\\s]?[a-zA-Z0-9_-]*$',
  description: 'Name after the `@` in references; not `latest`, not `default`, not only a number.',
});

const fields = {
  description: Type.Optional(orNull(Description)),
  color_code: Type.Optional(
    orNull(
      Type.String({
        pattern: '^(?:#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8}))?$',
        description:
          'Display colour: `#` and 3, 6 or 8 hexadecimal digits, such as `#00AA55`; empty for none.',
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
  is_universal: Type.Boolean({
    description: 'Whether the label belongs to the organisation and so to all of its workspaces.',
  }),
  status: Type.String(),
  created_at: Instant('Time of creation.'),
  last_updated_at: Instant('Time of the last change.'),
});

/** The routes of labels: names that move from one version of a prompt to another. */
export function labelRoutes(scope: Scope): readonly RouteDefinition[] {
  const labels = new RecordResource(scope, {
    kind: 'label',
    noun: 'label',
    operations: 'labels',
    path: '/labels',
    parameter: 'labelId',
    scopes: (action) => `prompts.${action}`,
    admit: (caller, action) =>
      promptTemplates.requireAccess(caller, scope.directory, isReading(action) ? 'View' : 'Write'),
    allow: (key, record, action) => {
      if (!isReading(action)) places.requireOwn(key, record, 'label');
    },
  });
  return [
    labels.create({
      summary:
        'Creates a label of a workspace, or of the whole organisation if an organisation key names no workspace',
      body: Type.Object({ ...place, name: LabelName, ...fields }, strict),
      reply: LabelReply,
      prepare: ({ key, body }) => places.requireOrganisation(key, body.organisation_id),
      async make(writer, { key, body }) {
        const workspaceId = (await places.ofBody(writer, key, body.workspace_id))?.id;
        const data = {
          description: body.description ?? '',
          colourCode: body.color_code ?? '',
          isUniversal: workspaceId === undefined,
        };
        return { workspaceId, slug: labelSlug(body.name), name: body.name, data };
      },
      show: showLabel,
    }),
    labels.list({
      summary: 'Labels of a workspace, oldest first, followed by those of the organisation',
      query: { ...place, search: Type.Optional(Name('Part of the name, in any case.')) },
      entry: LabelReply,
      prepare: ({ key, query }) => places.requireOrganisation(key, query.organisation_id),
      async rows(reader, { key, query }, { offset, limit }) {
        const { organisationId, workspaceId } = await places.ofList(reader, key, query.workspace_id);
        const search = query.search === undefined ? {} : { search: query.search };
        const found =
          workspaceId === undefined
            ? await storedRecords.every(reader, 'label', organisationId, search)
            : [
                ...(await storedRecords.every(reader, 'label', organisationId, { ...search, workspaceId })),
                ...(await storedRecords.every(reader, 'label', organisationId, {
                  ...search,
                  ofOrganisation: true,
                })),
              ];
        return { total: found.length, data: found.slice(offset, offset + limit) };
      },
      show: showLabel,
    }),
    labels.get({
      summary: 'One label',
      query: Type.Object(place, strict),
      reply: LabelReply,
      prepare: ({ key, query }) => places.requireOrganisation(key, query.organisation_id),
      show: showLabel,
    }),
    labels.update({
      summary: 'Updates a label; omitted fields stay unchanged',
      body: Type.Object({ name: Type.Optional(LabelName), ...fields }, strict),
      reply: LabelReply,
      change({ name, data }, _writer, { body }) {
        const changed = {
          ...data,
          ...(body.description !== undefined && { description: body.description ?? '' }),
          ...(body.color_code !== undefined && { colourCode: body.color_code ?? '' }),
        };
        return { name: body.name ?? name, slug: labelSlug(body.name ?? name), data: changed };
      },
      show: showLabel,
    }),
    labels.remove({
      summary: 'Deletes a label that no version has',
      requireUnused: promptTemplates.requireUnusedLabel,
    }),
  ];
}

function showLabel(record: StoredRecord<'label'>): Static<typeof LabelReply> {
  const { id, name, data, organisationId, workspaceId, status, createdAt, updatedAt } = record;
  return {
    id,
    object: 'label',
    name,
    description: data.description,
    color_code: data.colourCode,
    organisation_id: organisationId,
    workspace_id: workspaceId ?? null,
    is_universal: data.isUniversal,
    status,
    created_at: new Date(createdAt).toISOString(),
    last_updated_at: new Date(updatedAt).toISOString(),
  };
}
