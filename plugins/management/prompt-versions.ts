import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import { changedRecord } from './changed-record.ts';
import { requirePrompts } from './prompt-access.ts';
import { PromptReply, PromptVersionEntry, showPrompt, showVersion } from './prompt-record.ts';
import { publishTemplate, VersionNumber } from './publish-template.ts';
import { refusedBody } from './refused-body.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, Name, orNull, strict } from './text-schema.ts';
import { everyVersion, noSuchVersion, visibleTemplate } from './visible-prompt.ts';

const Params = Type.Object({ promptId: Identifier });
const VersionParams = Type.Object({ promptId: Identifier, versionId: Identifier });

/** The routes of the versions of prompts. */
export function promptVersionRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(scope), getRoute(scope), labelRoute(scope), publishRoute(scope)];
}

function listRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.versions',
    method: 'GET',
    path: '/prompts/{promptId}/versions',
    summary: 'All versions of a prompt, newest first',
    scope: 'prompts.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: Type.Array(PromptVersionEntry),
    async handle({ params, key, role, read }) {
      requirePrompts({ key, role }, directory, 'View');
      return read(async (reader) => {
        const record = await visibleTemplate(reader, key, 'prompt', params.promptId);
        return (await everyVersion(reader, record)).map((version) => showVersion(record, version));
      });
    },
  });
}

function getRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.get_version',
    method: 'GET',
    path: '/prompts/{promptId}/versions/{versionId}',
    summary: 'A prompt with one of its versions',
    scope: 'prompts.read',
    // Reads only.
    audit: null,
    params: VersionParams,
    reply: PromptReply,
    async handle({ params, key, role, read }) {
      requirePrompts({ key, role }, directory, 'View');
      return read(async (reader) => {
        const record = await visibleTemplate(reader, key, 'prompt', params.promptId);
        const { organisationId, id } = record;
        const wanted = { id: params.versionId };
        const version = await reader.records.version('prompt', organisationId, id, wanted);
        if (version === undefined) throw noSuchVersion(record, params.versionId);
        return showPrompt(record, version);
      });
    },
  });
}

function labelRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.label_version',
    method: 'PUT',
    path: '/prompts/{promptId}/versions/{versionId}',
    summary: 'Puts a label on a version, and takes it off the one that had it; null takes off its own',
    scope: 'prompts.update',
    audit: 'update',
    params: VersionParams,
    body: Type.Object(
      { label_id: Type.Optional(orNull(Name('Id of a label of the workspace or of the organisation.'))) },
      strict,
    ),
    reply: Type.Object({}),
    async handle({ params, body, key, role, write, requireVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      await write(async (writer) => {
        const before = await visibleTemplate(writer, key, 'prompt', params.promptId);
        const { organisationId, workspaceId, id } = before;
        requireVersion(before.version);
        const wanted = { id: params.versionId };
        const version = await writer.records.version('prompt', organisationId, id, wanted);
        if (version === undefined) throw noSuchVersion(before, params.versionId);
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
        // What a label stands for is looked up again when the record has another version.
        if (!(await writer.records.replace(changedRecord(before, {}, key, clock.now()))))
          throw staleVersion();
        return { id, workspaceId, result: undefined };
      });
      return {};
    },
  });
}

function publishRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.publish',
    method: 'PUT',
    path: '/prompts/{promptId}/makeDefault',
    summary: 'Makes a version the one that is used when none is named',
    scope: 'prompts.publish',
    audit: 'publish',
    params: Params,
    body: Type.Object({ version: VersionNumber }, strict),
    reply: Type.Object({}),
    async handle(input) {
      const { params, body } = input;
      await publishTemplate('prompt', { idOrSlug: params.promptId, number: body.version }, input, scope);
      return {};
    },
  });
}
