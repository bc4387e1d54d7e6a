import { exportScope } from '../../../core/administration/exports/export-rights.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineMediaRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { type ExportFilters, exportRecord } from './record.ts';
import { Identifier, plainObject, refusedBody, strict } from '../shared/fields.ts';
import type { Visibility } from '../../../core/ports/analytics.ts';
import type { LogExports } from '../../../core/ports/exports.ts';
import type { LogExportData } from '../../../core/ports/record-kinds.ts';
import { readFilter } from '../shared/request-filter.ts';
import type { StreamSource, StreamTarget } from '../../../core/pipeline/answer.ts';

/** The file of an export. */
export const exportFile = { route: exportFileRoute, exports: exportsOf, plan: planOf, countRows };

/** Streams an async iterable with back-pressure: nothing is read ahead of the client. */
class IterableSource implements StreamSource {
  readonly #content: AsyncIterable<Buffer>;
  #isCancelled = false;
  #wake: () => void = () => undefined;

  constructor(content: AsyncIterable<Buffer>) {
    this.#content = content;
  }

  pipe(target: StreamTarget): void {
    void this.#flow(target);
  }

  resume(): void {
    this.#wake();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#wake();
  }

  async #flow(target: StreamTarget): Promise<void> {
    try {
      for await (const chunk of this.#content) {
        if (this.#isCancelled) return;
        const room = new Promise<void>((resolve) => (this.#wake = resolve));
        if (!target.data(chunk)) await room;
        if (this.#isCancelled) return;
      }
      target.end();
    } catch (cause) {
      if (this.#isCancelled) return;
      const message = 'The file could not be read to its end. Try again.';
      target.fail(GatewayError.is(cause) ? cause : new GatewayError('internal', message, { cause }));
    }
  }
}

/** `GET /logs/exports/{exportId}/file`: target of the links to `file:` storage. It needs no service key. */
function exportFileRoute(scope: Scope): RouteDefinition {
  const { clock } = scope;
  return defineMediaRoute({
    id: 'log_exports.file',
    method: 'GET',
    path: '/logs/exports/{exportId}/file',
    summary: 'File of an export, for holders of its link',
    scope: exportScope,
    feature: 'data_exports',
    // The request for the link was audited.
    audit: null,
    params: Type.Object({ exportId: Identifier }),
    query: Type.Object(
      { token: Type.String({ minLength: 1, maxLength: 2048, description: 'Token of the link.' }) },
      strict,
    ),
    reply: Type.String({ description: 'File in the format of the export.' }),
    media: 'application/octet-stream',
    examples: { response: '{"id":"0198c0de-0000-7000-8000-000000000001","cost":0.0123}\n' },
    identify: ({ token }) => Promise.resolve(bearerOf(scope, token)),
    async handle({ params, query, key, read }) {
      const exports = exportsOf(scope);
      const { exportId, run } = exports.readToken(query.token);
      if (params.exportId !== exportId) throw fileGoneError();
      const { organisationId } = key;
      const record = await read(({ records }) => records.find('log_export', { organisationId }, exportId));
      if (record?.data.run !== run) throw fileGoneError();
      exportRecord.requireFile(record, clock.now());
      const file = await exports.open(record);
      if (file === undefined) throw fileGoneError();
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

/** Key for the bearer of a link: it has no user and may fetch one file. */
function bearerOf(scope: Scope, token: string): KeyRecord {
  const { organisationId, exportId, expiresAt } = exportsOf(scope).readToken(token);
  return {
    id: exportId,
    name: `link to the export ${exportId}`,
    kind: 'workspace-user',
    organisationId,
    workspaceId: '',
    userId: '',
    scopes: [exportScope],
    expiresAt,
  };
}

function fileGoneError(): GatewayError {
  return new GatewayError(
    'resource_not_found',
    'The file of this link no longer exists. Request a new link: GET /logs/exports/{exportId}/download.',
  );
}

/** Selection of an export's rows. */
type ExportPlan = Pick<LogExportData, 'filters' | 'from' | 'to' | 'filter' | 'skip' | 'limit'>;

/** The exports of this gateway. Throws `not_supported` without a resource store. */
function exportsOf({ exports }: Pick<Scope, 'exports'>): LogExports {
  if (exports !== undefined) return exports;
  throw new GatewayError(
    'not_supported',
    'Exports are records of the store of what is administered, and storage.resources.url is "none:". Name a store.',
  );
}

/** The plan from the filters of a body. Throws `invalid_request` with every mistake. */
function planOf(filters: ExportFilters, now: number, { maxRows }: LogExports['rules']): ExportPlan {
  const { page_size: size, current_page: page, ...values } = filters;
  if (page !== undefined && size === undefined)
    throw refusedBody([{ path: '/filters/current_page', message: 'needs "page_size" beside it' }]);
  const { window, filter } = readFilter(values, now);
  return {
    filters: plainObject(filters, '/filters'),
    from: window.from,
    to: window.to,
    filter: plainObject({ ...filter }, '/filters'),
    skip: (page ?? 0) * (size ?? 0),
    limit: Math.min(size ?? maxRows, maxRows),
  };
}

/**
 * Number of rows that the plan selects now. Throws `invalid_request` for more rows than one file takes, when the
 * request names no page.
 */
async function countRows(
  { analytics }: Pick<Scope, 'analytics'>,
  { from, to, filter, filters, skip, limit }: ExportPlan,
  visibility: Visibility,
): Promise<number> {
  const matching = await analytics.countLogs({ window: { from, to }, visibility, filter });
  if (matching > limit && filters['page_size'] === undefined) {
    const message = `match ${matching} requests, and one file takes ${limit} (exports.max_rows); ask for a shorter time, or for pages with "page_size"`;
    throw refusedBody([{ path: '/filters', message }]);
  }
  return Math.max(0, Math.min(limit, matching - skip));
}
