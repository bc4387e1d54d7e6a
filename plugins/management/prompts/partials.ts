import { randomUUID } from 'node:crypto';
import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { RecordVersion, StoredRecord } from '../../../core/ports/records.ts';
import { places, storedRecords } from '../shared/records.ts';
import { PromptReferenceParam, promptTemplates } from './templates.ts';
import { namedCollection } from './collections.ts';
import { promptRecord, promptSchemas } from './record.ts';
import { Description, Identifier, Name, orNull, strict } from '../shared/fields.ts';

/** A partial in a list. */
const PartialEntry = Type.Object({
  id: Type.String(),
  object: Type.Literal('partial'),
  slug: Type.String(),
  name: Type.String(),
  collection_id: Type.String(),
  status: promptSchemas.Status,
  created_at: Type.String(),
  last_updated_at: Type.String(),
});

/** A partial with one of its versions. */
const PartialReply = Type.Object({
  ...PartialEntry.properties,
  string: Type.String({ description: 'The template.' }),
  version: Type.Integer(),
  version_description: Type.String(),
  prompt_partial_version_id: Type.String(),
});

/** A version in the list of versions. */
const PartialVersionEntry = Type.Object({
  object: Type.Literal('partial'),
  prompt_partial_id: Type.String(),
  prompt_partial_version_id: Type.String(),
  slug: Type.String(),
  version: Type.String({ description: 'Its number.' }),
  string: Type.String(),
  description: Type.String(),
  created_at: Type.String(),
  prompt_version_status: promptSchemas.Status,
});

type Partial = StoredRecord<'prompt_partial'>;
type Version = RecordVersion<'prompt_partial'>;

/** Converts a partial to its shape in lists. */
function showPartialEntry(record: Partial): Static<typeof PartialEntry> {
  return {
    id: record.id,
    object: 'partial',
    slug: record.slug,
    name: record.name,
    collection_id: record.parentId,
    status: record.status,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
  };
}

/** Converts a partial with one of its versions to the API's shape. */
function showPartial(record: Partial, version: Version): Static<typeof PartialReply> {
  return {
    ...showPartialEntry(record),
    string: version.data.template,
    version: version.number,
    version_description: version.description,
    prompt_partial_version_id: version.id,
  };
}

/** Converts a version to its shape in lists; its number is a string there, as existing clients expect. */
function showPartialVersion(record: Partial, version: Version): Static<typeof PartialVersionEntry> {
  return {
    object: 'partial',
    prompt_partial_id: record.id,
    prompt_partial_version_id: version.id,
    slug: record.slug,
    version: String(version.number),
    string: version.data.template,
    description: version.description,
    created_at: new Date(version.createdAt).toISOString(),
    prompt_version_status: promptRecord.status(record, version),
  };
}

const Body = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    string: Type.Optional(promptSchemas.TemplateText('Mustache; makes a new version.')),
    description: Type.Optional(Description),
    status: Type.Optional(
      Type.Union([Type.Literal('active'), Type.Literal('archived')], {
        description: '`archived` has the effect of DELETE.',
      }),
    ),
  },
  strict,
);

/** `PUT /prompts/partials/{promptPartialId}`: renames the partial, and adds a version when the body has its text. */
function updatePartialRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompt_partials.update',
    method: 'PUT',
    path: '/prompts/partials/{promptPartialId}',
    summary: 'Adds a version to a partial, which does not become the default, or renames the partial',
    scope: 'prompts.update',
    audit: 'update',
    params: Type.Object({ promptPartialId: Identifier }),
    body: Body,
    reply: Type.Object({ prompt_partial_version_id: Type.String() }),
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      promptTemplates.requireAccess({ key, role }, directory, 'Write');
      const now = clock.now();
      const { record, versionId } = await write(async (writer) => {
        const before = await promptTemplates.visible(writer, key, 'prompt_partial', params.promptPartialId);
        requireVersion(before.version);
        const { id, slug, organisationId, workspaceId } = before;
        if (body.status === 'archived') await promptTemplates.requireUnusedPartial(writer, before);
        const change = { name: body.name ?? before.name, status: body.status ?? before.status };
        const after = await storedRecords.change(writer, before, change, key, now);
        const latest = await promptTemplates.latestVersion(writer, before);
        let versionId = latest?.id ?? '';
        // Versions never change: a description alone makes a new version with the latest text.
        const template = body.string ?? (body.description === undefined ? undefined : latest?.data.template);
        if (template !== undefined) {
          const place = { organisationId, workspaceId };
          await promptTemplates.check(writer, { template, place, partial: { id, slug } });
          const version = await storedRecords.keepVersion(writer, after, {
            data: { template, defaultVersion: before.data.defaultVersion },
            description: body.description ?? '',
          });
          versionId = version.id;
        }
        return { id, workspaceId, result: { record: after, versionId } };
      });
      sendVersion(record.version);
      return { prompt_partial_version_id: versionId };
    },
  });
}

const path = '/prompts/partials';

/** The routes of partials: templates that prompts include. */
export function promptPartialRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    listRoute(scope),
    getRoute(scope),
    updatePartialRoute(scope),
    ...promptTemplates.routes(scope, {
      kind: 'prompt_partial',
      operations: 'prompt_partials',
      onePath: `${path}/{promptPartialId}`,
      parameter: 'promptPartialId',
      summaries: {
        archive: 'Archives a partial that nothing includes',
        versions: 'All versions of a partial, newest first',
        publish: 'Makes a version of a partial the one that is used when none is named',
      },
      entry: PartialVersionEntry,
      show: showPartialVersion,
      requireUnused: promptTemplates.requireUnusedPartial,
    }),
  ];
}

function createRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompt_partials.create',
    method: 'POST',
    path,
    summary: 'Creates a partial with its first version',
    scope: 'prompts.create',
    audit: 'create',
    body: Type.Object(
      {
        name: Name('For people.'),
        string: promptSchemas.TemplateText('Mustache.'),
        workspace_id: Type.Optional(orNull(Name('Id or slug; keys of the organisation say it here.'))),
        collection_id: Type.Optional(Name('Id or slug of a collection; the default one by default.')),
        version_description: Type.Optional(Description),
      },
      strict,
    ),
    reply: Type.Object({
      id: Type.String(),
      slug: Type.String(),
      version_id: Type.String(),
      object: Type.Literal('partial'),
    }),
    async handle({ body, key, role, write, sendVersion }) {
      promptTemplates.requireAccess({ key, role }, directory, 'Write');
      const now = clock.now();
      const { record, version } = await write(async (writer) => {
        const workspace = await places.required(writer, key, body.workspace_id);
        const { id: workspaceId, organisationId } = workspace;
        const collection = await namedCollection(writer, body.collection_id, { workspace, key, now });
        const [id, slug] = [randomUUID(), storedRecords.newSlug('', body.name)];
        const place = { organisationId, workspaceId };
        await promptTemplates.check(writer, { template: body.string, place, partial: { id, slug } });
        const record: StoredRecord<'prompt_partial'> = storedRecords.create(
          {
            kind: 'prompt_partial',
            id,
            organisationId,
            workspaceId,
            slug,
            name: body.name,
            parentId: collection.id,
            data: { template: body.string, defaultVersion: 1 },
          },
          key.userId || key.id,
          now,
        );
        await writer.records.insert(record);
        const version = await storedRecords.keepVersion(writer, record, {
          description: body.version_description ?? '',
        });
        return { id, workspaceId, result: { record, version } };
      });
      sendVersion(record.version);
      const { id, slug } = record;
      return { id, slug, version_id: version.id, object: 'partial' as const };
    },
  });
}

function listRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompt_partials.list',
    method: 'GET',
    path,
    summary: 'Partials that the key may see, oldest first',
    scope: 'prompts.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      { collection_id: Type.Optional(Name('Only those in this collection: its id or slug.')) },
      strict,
    ),
    reply: Type.Array(PartialEntry),
    async handle({ query, key, role, read }) {
      promptTemplates.requireAccess({ key, role }, directory, 'View');
      const found = await read(async (reader) => {
        const { organisationId, workspaceId } = reachOf(key);
        const idOrSlug = query.collection_id;
        const collection =
          idOrSlug === undefined
            ? undefined
            : await storedRecords.visible(reader, key, { kind: 'collection', noun: 'collection', idOrSlug });
        return storedRecords.every(reader, 'prompt_partial', organisationId, {
          status: 'active',
          ...(workspaceId !== undefined && { workspaceId }),
          ...(collection !== undefined && { parentId: collection.id }),
        });
      });
      return found.map((record) => showPartialEntry(record));
    },
  });
}

function getRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompt_partials.get',
    method: 'GET',
    path: `${path}/{promptPartialId}`,
    summary: 'One partial, with its default version or a given one',
    scope: 'prompts.read',
    // Reads only.
    audit: null,
    params: Type.Object({ promptPartialId: PromptReferenceParam }),
    reply: PartialReply,
    async handle({ params, key, role, read, sendVersion }) {
      promptTemplates.requireAccess({ key, role }, directory, 'View');
      const { record, version } = await read((reader) =>
        promptTemplates.referenced(reader, key, 'prompt_partial', params.promptPartialId),
      );
      sendVersion(record.version);
      return showPartial(record, version);
    },
  });
}
