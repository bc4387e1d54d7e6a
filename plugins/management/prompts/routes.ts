import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import {
  defineRoute,
  GatewayError,
  type JsonValue,
  type Scope,
  Type,
} from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { RecordPlace, StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter, WorkspaceRecord } from '../../../core/ports/resources.ts';
import { places, storedRecords } from '../shared/records.ts';
import { PromptReferenceParam, promptTemplates } from './templates.ts';
import { namedCollection } from './collections.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { promptRecord, promptSchemas } from './record.ts';
import { Identifier, Name, orNull, refusedBody, strict } from '../shared/fields.ts';
import type { PromptData } from '../../../core/ports/record-kinds.ts';
import { findPrompt } from '../../../core/administration/prompts/find-prompt.ts';
import { storedSource } from '../../../core/administration/prompts/prompt-source.ts';
import { renderStoredPrompt } from '../../../core/administration/prompts/prompt-template.ts';

/** Defaults of a version. */
const emptyVersion: PromptData = {
  template: '',
  parameters: {},
  virtualKey: '',
  model: '',
  functions: [],
  tools: [],
  toolChoice: null,
  metadata: {},
  isRawTemplate: false,
  defaultVersion: 1,
};

/** Names under which some clients repeat the id of the path. */
const ofThePath = ['promptID', 'prompt_id', 'promptId', 'prompt_i_d'];

/** `POST /prompts/{promptId}/render`: the body that `/completions` would send to the provider. */
function renderPromptRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.render',
    method: 'POST',
    path: '/prompts/{promptId}/render',
    summary: 'Renders a prompt with variables, as the body of a request to a provider',
    scope: 'prompts.render',
    // Reads only.
    audit: null,
    params: Type.Object({ promptId: PromptReferenceParam }),
    body: Type.Object(
      {
        variables: Type.Optional(
          Type.Record(Type.String(), Type.Unknown(), {
            description: 'Values of the variables in the template, by name.',
          }),
        ),
        strict: Type.Optional(
          orNull(
            Type.Boolean({
              default: false,
              description:
                'Refuse the request if a variable of the template is missing. Otherwise a missing variable is empty.',
            }),
          ),
        ),
      },
      {
        additionalProperties: true,
        description: 'Parameters that override those of the prompt.',
      },
    ),
    reply: Type.Object({
      success: Type.Literal(true),
      data: Type.Record(Type.String(), Type.Unknown()),
    }),
    async handle({ params, body, key, role, read }) {
      promptTemplates.requireAccess({ key, role }, directory, 'View');
      // The body was parsed from JSON, so its members are JSON values.
      const sent = { ...body } as Record<string, JsonValue>;
      for (const name of ofThePath) delete sent[name];
      const { body: data } = await read(async (reader) => {
        const source = storedSource(reader);
        const [idOrSlug = ''] = params.promptId.split('@');
        // The prompt's own workspace, for a key that is not bound to one.
        const { organisationId, workspaceId } = await promptTemplates.visible(
          reader,
          key,
          'prompt',
          idOrSlug,
        );
        const place = { organisationId, workspaceId: workspaceId ?? reachOf(key).workspaceId };
        return renderStoredPrompt(source, await findPrompt(source, place, params.promptId), sent);
      });
      return { success: true as const, data };
    },
  });
}

const VersionParams = Type.Object({ promptId: Identifier, versionId: Identifier });

function getVersionRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.get_version',
    method: 'GET',
    path: '/prompts/{promptId}/versions/{versionId}',
    summary: 'One prompt with a given version',
    scope: 'prompts.read',
    // Reads only.
    audit: null,
    params: VersionParams,
    reply: promptSchemas.PromptReply,
    async handle({ params, key, role, read }) {
      promptTemplates.requireAccess({ key, role }, directory, 'View');
      return read(async (reader) => {
        const record = await promptTemplates.visible(reader, key, 'prompt', params.promptId);
        const { organisationId, id } = record;
        const wanted = { id: params.versionId };
        const version = await reader.records.version('prompt', organisationId, id, wanted);
        if (version === undefined) throw promptTemplates.noSuchVersion(record, params.versionId);
        return promptRecord.show(record, version);
      });
    },
  });
}

function labelRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.label_version',
    method: 'PUT',
    path: '/prompts/{promptId}/versions/{versionId}',
    summary:
      'Sets a label on a version and removes it from the previous one; null removes the label of the version',
    scope: 'prompts.update',
    audit: 'update',
    params: VersionParams,
    body: Type.Object(
      { label_id: Type.Optional(orNull(Name('Id of a label of the workspace or of the organisation.'))) },
      strict,
    ),
    reply: Type.Object({}),
    async handle({ params, body, key, role, write, requireVersion }) {
      promptTemplates.requireAccess({ key, role }, directory, 'Write');
      await write(async (writer) => {
        const before = await promptTemplates.visible(writer, key, 'prompt', params.promptId);
        const { organisationId, workspaceId, id } = before;
        requireVersion(before.version);
        const wanted = { id: params.versionId };
        const version = await writer.records.version('prompt', organisationId, id, wanted);
        if (version === undefined) throw promptTemplates.noSuchVersion(before, params.versionId);
        if (body.label_id === undefined) return { id, workspaceId, result: undefined };
        let labelId = '';
        if (body.label_id !== null) {
          const label = await writer.records.find('label', before, body.label_id);
          if (label === undefined) {
            const message = 'names no label of the workspace or of its organisation';
            throw refusedBody([{ path: '/label_id', message }]);
          }
          labelId = label.id;
        }
        await writer.records.label('prompt', organisationId, version.id, labelId);
        // A new version number of the record invalidates cached versions of labels.
        await storedRecords.change(writer, before, {}, key, clock.now());
        return { id, workspaceId, result: undefined };
      });
      return {};
    },
  });
}

const Updated = Type.Object({ id: Type.String(), slug: Type.String(), prompt_version_id: Type.String() });

/** `PUT /prompts/{promptId}`: renames or moves the prompt, and adds a version for any field of one. */
function updatePromptRoute({ clock, directory, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.update',
    method: 'PUT',
    path: '/prompts/{promptId}',
    summary: 'Adds a version to a prompt, which does not become the default, or renames or moves the prompt',
    scope: 'prompts.update',
    audit: 'update',
    params: Type.Object({ promptId: Identifier }),
    body: promptSchemas.UpdatePrompt,
    reply: Updated,
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      promptTemplates.requireAccess({ key, role }, directory, 'Write');
      const now = clock.now();
      const { record, versionId } = await write(async (writer) => {
        const before = await promptTemplates.visible(writer, key, 'prompt', params.promptId);
        requireVersion(before.version);
        const { organisationId, workspaceId = '' } = before;
        const workspace = { id: workspaceId, organisationId };
        const collection =
          body.collection_id === undefined
            ? undefined
            : await namedCollection(writer, body.collection_id, { workspace, key, now });
        const change = { name: body.name ?? before.name, parentId: collection?.id ?? before.parentId };
        const after = await storedRecords.change(writer, before, change, key, now);
        const latest = await promptTemplates.latestVersion(writer, before);
        let versionId = latest?.id ?? '';
        if (promptRecord.makesVersion(body)) {
          const data = promptRecord.version(body, baseOf(body, latest?.data ?? before.data));
          await promptTemplates.check(writer, {
            template: data.template,
            place: { organisationId, workspaceId },
          });
          if (body.virtual_key !== undefined)
            await requireProvider(writer, { organisationId, workspaceId }, data.virtualKey, router);
          const version = await storedRecords.keepVersion(writer, after, {
            data,
            description: body.version_description ?? '',
          });
          versionId = version.id;
        }
        return { id: after.id, workspaceId, result: { record: after, versionId } };
      });
      sendVersion(record.version);
      return { id: record.id, slug: record.slug, prompt_version_id: versionId };
    },
  });
}

/** Values of fields that the body leaves out. The provider always stays: it is not part of the text. */
function baseOf(
  { patch, string }: { readonly patch?: boolean; readonly string?: string },
  latest: PromptData,
): PromptData {
  if (patch === true) return latest;
  if (string !== undefined) return { ...emptyVersion, virtualKey: latest.virtualKey };
  const message = 'is missing: without "patch": true, a new version says everything anew';
  throw refusedBody([{ path: '/string', message }]);
}

/** The routes of prompts and of their versions. */
export function promptRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    listRoute(scope),
    getRoute(scope),
    updatePromptRoute(scope),
    ...promptTemplates.routes(scope, {
      kind: 'prompt',
      operations: 'prompts',
      onePath: '/prompts/{promptId}',
      parameter: 'promptId',
      summaries: {
        archive: 'Archives a prompt; it can no longer be seen or used',
        versions: 'All versions of a prompt, newest first',
        publish: 'Makes a version the one that is used when none is named',
      },
      entry: promptSchemas.PromptVersionEntry,
      show: promptRecord.showVersion,
    }),
    getVersionRoute(scope),
    labelRoute(scope),
    renderPromptRoute(scope),
  ];
}

const Created = Type.Object({
  id: Type.String(),
  object: Type.Literal('prompt'),
  slug: Type.String(),
  version_id: Type.String(),
});

function createRoute({ clock, directory, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.create',
    method: 'POST',
    path: '/prompts',
    summary: 'Creates a prompt with its first version',
    scope: 'prompts.create',
    audit: 'create',
    body: promptSchemas.CreatePrompt,
    reply: Created,
    async handle({ body, key, role, write, sendVersion }) {
      promptTemplates.requireAccess({ key, role }, directory, 'Write');
      const now = clock.now();
      const { record, version } = await write(async (writer) => {
        const workspace = await workspaceOfPrompt(writer, key, body);
        const { id: workspaceId, organisationId } = workspace;
        const collection = await namedCollection(writer, body.collection_id, { workspace, key, now });
        const data = promptRecord.version(body, emptyVersion);
        await promptTemplates.check(writer, {
          template: data.template,
          place: { organisationId, workspaceId },
        });
        await requireProvider(writer, { organisationId, workspaceId }, data.virtualKey, router);
        const record: StoredRecord<'prompt'> = storedRecords.create(
          {
            kind: 'prompt',
            organisationId,
            workspaceId,
            slug: storedRecords.newSlug('pp-', body.name),
            name: body.name,
            parentId: collection.id,
            data,
          },
          key.userId || key.id,
          now,
        );
        await writer.records.insert(record);
        const version = await storedRecords.keepVersion(writer, record, {
          description: body.version_description ?? '',
        });
        return { id: record.id, workspaceId, result: { record, version } };
      });
      sendVersion(record.version);
      return { id: record.id, object: 'prompt' as const, slug: record.slug, version_id: version.id };
    },
  });
}

/** Workspace of a new prompt: the key's, the one in the body, or that of the collection in the body. */
async function workspaceOfPrompt(
  writer: ResourcesWriter,
  key: KeyRecord,
  body: { readonly workspace_id?: string; readonly collection_id?: string },
): Promise<WorkspaceRecord> {
  const { workspace_id: said, collection_id: collection } = body;
  if (said !== undefined || collection === undefined || reachOf(key).workspaceId !== undefined)
    return places.required(writer, key, said);
  const { organisationId } = key;
  const found = await writer.records.find('collection', { organisationId }, collection);
  if (found?.workspaceId !== undefined) return places.required(writer, key, found.workspaceId);
  const message = 'names no collection by its id; send workspace_id as well';
  throw refusedBody([{ path: '/collection_id', message }]);
}

function listRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.list',
    method: 'GET',
    path: '/prompts',
    summary: 'Prompts that the key may see, oldest first',
    scope: 'prompts.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...paging.query,
        workspace_id: Type.Optional(Name('Only those of this workspace: its id or slug.')),
        collection_id: Type.Optional(Name('Only those in this collection: its id or slug.')),
        search: Type.Optional(Name('Part of the name or slug, in any case.')),
      },
      strict,
    ),
    reply: Type.Object({ ...listReplies.of, data: Type.Array(promptSchemas.PromptEntry) }),
    async handle({ query, key, role, read }) {
      promptTemplates.requireAccess({ key, role }, directory, 'View');
      const page = paging.of(query);
      const { total, data } = await read(async (reader) => {
        const { collection_id: idOrSlug, search } = query;
        const { organisationId, workspaceId } = await places.ofList(reader, key, query.workspace_id);
        const collection =
          idOrSlug === undefined
            ? undefined
            : await storedRecords.visible(reader, key, {
                kind: 'collection',
                noun: 'collection',
                idOrSlug,
                workspace: query.workspace_id,
              });
        const filter = {
          status: 'active' as const,
          ...(workspaceId !== undefined && { workspaceId }),
          ...(collection !== undefined && { parentId: collection.id }),
          ...(search !== undefined && { search }),
        };
        return reader.records.list('prompt', organisationId, filter, page);
      });
      return { object: 'list' as const, total, data: data.map((record) => promptRecord.showEntry(record)) };
    },
  });
}

function getRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.get',
    method: 'GET',
    path: '/prompts/{promptId}',
    summary: 'One prompt, with its default version or a given one',
    scope: 'prompts.read',
    // Reads only.
    audit: null,
    params: Type.Object({ promptId: PromptReferenceParam }),
    reply: promptSchemas.PromptReply,
    async handle({ params, key, role, read, sendVersion }) {
      promptTemplates.requireAccess({ key, role }, directory, 'View');
      const { record, version } = await read((reader) =>
        promptTemplates.referenced(reader, key, 'prompt', params.promptId),
      );
      sendVersion(record.version);
      return promptRecord.show(record, version);
    },
  });
}

/** Throws `invalid_request` when neither the workspace nor the configuration has the provider. */
async function requireProvider(
  { records }: Pick<ResourcesReader, 'records'>,
  place: RecordPlace,
  virtualKey: string,
  router: Scope['router'],
): Promise<void> {
  if (virtualKey === '') return;
  const slug = virtualKey.replace(/^@/, '');
  if ((await records.find('provider', place, slug))?.status === 'active') return;
  try {
    router.checkConfig({ text: JSON.stringify({ virtual_key: slug }), slug: '', place });
  } catch (error) {
    if (!GatewayError.is(error)) throw error;
    const shown = slug.slice(0, 64);
    throw refusedBody([
      { path: '/virtual_key', message: `names "${shown}", and no such provider is visible to the workspace` },
    ]);
  }
}
