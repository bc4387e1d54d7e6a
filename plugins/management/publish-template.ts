import type { RouteInput } from '../../core/pipeline/define-route.ts';
import { Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { TemplateKind } from '../../core/administration/prompts/prompt-source.ts';
import { changedRecord } from './changed-record.ts';
import { checkTemplate } from './checked-template.ts';
import { requirePrompts } from './prompt-access.ts';
import { refusedBody } from './refused-body.ts';
import { staleVersion } from './stale-version.ts';
import { visibleTemplate } from './visible-prompt.ts';

/** The number of a version in a body. */
export const VersionNumber = Type.Integer({
  ...{ minimum: 1, maximum: 2_147_483_647 },
  description: 'Number of the version.',
});

/** Which version of which prompt or partial is to be the default. */
export interface Publication {
  readonly idOrSlug: string;
  readonly number: number;
}

/**
 * Makes a version the default one, when its template can still be rendered: a partial that it includes may be gone, or may
 * include it in turn. Throws `invalid_request`, `resource_not_found`.
 */
export async function publishTemplate<K extends TemplateKind>(
  kind: K,
  { idOrSlug, number }: Publication,
  call: Pick<
    RouteInput<unknown, unknown, unknown>,
    'key' | 'role' | 'write' | 'requireVersion' | 'sendVersion'
  >,
  { clock, directory }: Pick<Scope, 'clock' | 'directory'>,
): Promise<void> {
  const { key, role, write, requireVersion, sendVersion } = call;
  requirePrompts({ key, role }, directory, 'Write');
  const record = await write(async (writer) => {
    const before = await visibleTemplate(writer, key, kind, idOrSlug);
    requireVersion(before.version);
    const { organisationId, workspaceId, id, slug } = before;
    const version = await writer.records.version(kind, organisationId, id, { number });
    if (version === undefined) {
      const message = `is ${number}, and "${slug}" has no version of that number`;
      throw refusedBody([{ path: '/version', message }]);
    }
    const place = { organisationId, workspaceId };
    const draft = { template: version.data.template, place, pointer: '/version' };
    await checkTemplate(writer, kind === 'prompt' ? draft : { ...draft, partial: { id, slug } });
    const data: StoredRecord<K>['data'] = { ...version.data, defaultVersion: number };
    const after = changedRecord<K>(before, { data }, key, clock.now());
    if (!(await writer.records.replace(after))) throw staleVersion();
    return { id, workspaceId, result: after };
  });
  sendVersion(record.version);
}
