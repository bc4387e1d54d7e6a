import { keepsReportedBodies } from '../../core/pipeline/keys.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { Redaction } from '../../core/redaction/redaction.ts';
import { keepRows, type KeptRow } from './keep-rows.ts';
import { ReportedLogs } from './reported-log-body.ts';
import { reportedLines } from './reported-lines.ts';
import { isAddress, reportedRows } from './reported-log.ts';
import { refusedBody } from './refused-body.ts';

/**
 * `POST /logs`: requests that passed by somewhere else become entries of the log, by way of the journal and without what
 * `redaction` takes out.
 */
export function insertLogsRoute(scope: Scope, redaction?: Redaction): RouteDefinition {
  const { clock, directory, journal } = scope;

  return defineRoute({
    id: 'logs.create',
    method: 'POST',
    path: '/logs',
    summary: 'Writes requests into the log that were sent somewhere else',
    scope: 'logs.write',
    // Rows of the log, like those of requests: nothing that is administered changes.
    audit: null,
    body: ReportedLogs,
    reply: Type.Object({
      status: Type.Literal('success'),
      ids: Type.Array(Type.String(), { description: 'Of the entries, in the order of the body.' }),
    }),
    async handle({ body, key }) {
      const now = clock.now();
      const logs = Array.isArray(body) ? body : [body];
      const mistakes = logs.flatMap(({ request }, index) =>
        isAddress(request.url)
          ? []
          : [{ path: `${Array.isArray(body) ? `/${index}` : ''}/request/url`, message: 'is no address' }],
      );
      if (mistakes.length > 0) throw refusedBody(mistakes);
      const rows = logs.map((log) => reportedRows(log, scope, { key, now }));
      const withBodies = keepsReportedBodies(directory, key);
      const lines: KeptRow[] = [];
      for (const { request, bodies } of rows) {
        const entry = { request, bodies: withBodies ? bodies : undefined };
        lines.push(...(await reportedLines(entry, redaction, clock)));
      }
      await keepRows(journal, lines, key.workspaceId);
      return { status: 'success' as const, ids: rows.map(({ request }) => request.id) };
    },
  });
}
