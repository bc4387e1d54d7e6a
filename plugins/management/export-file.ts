import { exportScope } from '../../core/administration/exports/export-visibility.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineMediaRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { requireFile } from './export-actions.ts';
import { exportsOf } from './export-plan.ts';
import { IterableSource } from './iterable-source.ts';
import { Identifier, strict } from './text-schema.ts';

/** `GET /logs/exports/{exportId}/file`: what the links of `file:` lead to. It needs no service key. */
export function exportFileRoute(scope: Scope): RouteDefinition {
  const { clock } = scope;
  return defineMediaRoute({
    id: 'log_exports.file',
    method: 'GET',
    path: '/logs/exports/{exportId}/file',
    summary: 'The file of an export, for whoever has its link',
    scope: exportScope,
    feature: 'data_exports',
    // The link was audited when it was asked for.
    audit: null,
    params: Type.Object({ exportId: Identifier }),
    query: Type.Object(
      { token: Type.String({ minLength: 1, maxLength: 2048, description: 'What the link says.' }) },
      strict,
    ),
    reply: Type.String({ description: 'The file, in the format that the export has.' }),
    media: 'application/octet-stream',
    examples: { response: '{"id":"0198c0de-0000-7000-8000-000000000001","cost":0.0123}\n' },
    identify: ({ token }) => Promise.resolve(bearerOf(scope, token)),
    async handle({ params, query, key, read }) {
      const exports = exportsOf(scope);
      const { exportId, run } = exports.readToken(query.token);
      if (params.exportId !== exportId) throw gone();
      const { organisationId } = key;
      const record = await read(({ records }) => records.find('log_export', { organisationId }, exportId));
      if (record?.data.run !== run) throw gone();
      requireFile(record, clock.now());
      const file = await exports.open(record);
      if (file === undefined) throw gone();
      return {
        status: 200,
        headers: [
          ...['content-type', file.contentType, 'content-length', String(file.bytes)],
          ...['content-disposition', `attachment; filename="${file.fileName}"`],
          ...['cache-control', 'private, no-store', 'x-content-type-options', 'nosniff'],
        ],
        body: new IterableSource(file.content),
      };
    },
  });
}

/** Who has the link: nobody in particular, who may fetch one file. */
function bearerOf(scope: Scope, token: string): KeyRecord {
  const { organisationId, exportId, expiresAt } = exportsOf(scope).readToken(token);
  return {
    ...{ id: exportId, name: `link to the export ${exportId}`, kind: 'workspace-user', organisationId },
    ...{ workspaceId: '', userId: '', scopes: [exportScope], expiresAt },
  };
}

function gone(): GatewayError {
  return new GatewayError(
    'resource_not_found',
    'The file that this link led to is not there any more. Ask for a new one: GET /logs/exports/{exportId}/download.',
  );
}
