import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import { changedRecord } from './changed-record.ts';
import { checkTemplate } from './checked-template.ts';
import { requirePrompts } from './prompt-access.ts';
import { TemplateText } from './prompt-body.ts';
import { staleVersion } from './stale-version.ts';
import { requireUnusedPartial } from './template-uses.ts';
import { Description, Identifier, Name, strict } from './text-schema.ts';
import { latestVersion, visibleTemplate } from './visible-prompt.ts';

const Body = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    string: Type.Optional(TemplateText('Mustache; makes a new version.')),
    description: Type.Optional(Description),
    status: Type.Optional(
      Type.Union([Type.Literal('active'), Type.Literal('archived')], {
        description: '`archived` does what deleting does.',
      }),
    ),
  },
  strict,
);

/** `PUT /prompts/partials/{promptPartialId}`: renames the partial, and adds a version when the body has its text. */
export function updatePartialRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompt_partials.update',
    method: 'PUT',
    path: '/prompts/partials/{promptPartialId}',
    summary: 'Adds a version to a partial, which is not its default yet; renames it',
    scope: 'prompts.update',
    audit: 'update',
    params: Type.Object({ promptPartialId: Identifier }),
    body: Body,
    reply: Type.Object({ prompt_partial_version_id: Type.String() }),
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      const now = clock.now();
      const { record, versionId } = await write(async (writer) => {
        const before = await visibleTemplate(writer, key, 'prompt_partial', params.promptPartialId);
        requireVersion(before.version);
        const { id, slug, organisationId, workspaceId } = before;
        if (body.status === 'archived') await requireUnusedPartial(writer, before);
        const change = { name: body.name ?? before.name, status: body.status ?? before.status };
        const after = changedRecord(before, change, key, now);
        if (!(await writer.records.replace(after))) throw staleVersion();
        const latest = await latestVersion(writer, before);
        let versionId = latest?.id ?? '';
        // A description alone describes the version that comes with a text: versions never change.
        const template = body.string ?? (body.description === undefined ? undefined : latest?.data.template);
        if (template !== undefined) {
          const place = { organisationId, workspaceId };
          await checkTemplate(writer, { template, place, partial: { id, slug } });
          const version = await writer.records.addVersion('prompt_partial', organisationId, {
            ...{ id: randomUUID(), recordId: id, name: after.name },
            data: { template, defaultVersion: before.data.defaultVersion },
            ...{ description: body.description ?? '', labelId: '' },
            ...{ createdBy: key.userId || key.id, createdAt: now },
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
