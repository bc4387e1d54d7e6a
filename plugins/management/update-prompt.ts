import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { PromptData } from '../../core/ports/record-kinds.ts';
import { changedRecord } from './changed-record.ts';
import { checkTemplate } from './checked-template.ts';
import { namedCollection } from './collection-record.ts';
import { requirePrompts } from './prompt-access.ts';
import { emptyVersion, makesVersion, requireProvider, UpdatePrompt, versionOf } from './prompt-body.ts';
import { refusedBody } from './refused-body.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier } from './text-schema.ts';
import { latestVersion, visibleTemplate } from './visible-prompt.ts';

const Updated = Type.Object({ id: Type.String(), slug: Type.String(), prompt_version_id: Type.String() });

/** `PUT /prompts/{promptId}`: renames or moves the prompt, and adds a version when the body says anything of one. */
export function updatePromptRoute({ clock, directory, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.update',
    method: 'PUT',
    path: '/prompts/{promptId}',
    summary: 'Adds a version to a prompt, which is not its default yet; renames or moves it',
    scope: 'prompts.update',
    audit: 'update',
    params: Type.Object({ promptId: Identifier }),
    body: UpdatePrompt,
    reply: Updated,
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      const now = clock.now();
      const { record, versionId } = await write(async (writer) => {
        const before = await visibleTemplate(writer, key, 'prompt', params.promptId);
        requireVersion(before.version);
        const { organisationId, workspaceId = '' } = before;
        const workspace = { id: workspaceId, organisationId };
        const collection =
          body.collection_id === undefined
            ? undefined
            : await namedCollection(writer, body.collection_id, { workspace, key, now });
        const change = { name: body.name ?? before.name, parentId: collection?.id ?? before.parentId };
        const after = changedRecord(before, change, key, now);
        if (!(await writer.records.replace(after))) throw staleVersion();
        const latest = await latestVersion(writer, before);
        let versionId = latest?.id ?? '';
        if (makesVersion(body)) {
          const data = versionOf(body, baseOf(body, latest?.data ?? before.data));
          await checkTemplate(writer, { template: data.template, place: { organisationId, workspaceId } });
          if (body.virtual_key !== undefined)
            await requireProvider(writer, { organisationId, workspaceId }, data.virtualKey, router);
          const version = await writer.records.addVersion('prompt', organisationId, {
            ...{ id: randomUUID(), recordId: before.id, name: after.name, data },
            ...{ description: body.version_description ?? '', labelId: '' },
            ...{ createdBy: key.userId || key.id, createdAt: now },
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

/** What fields have that the body leaves out. The provider stays in any case: it is no part of the text. */
function baseOf(
  { patch, string }: { readonly patch?: boolean; readonly string?: string },
  latest: PromptData,
): PromptData {
  if (patch === true) return latest;
  if (string !== undefined) return { ...emptyVersion, virtualKey: latest.virtualKey };
  const message = 'is missing: without "patch": true, a new version says everything anew';
  throw refusedBody([{ path: '/string', message }]);
}
