import { randomUUID } from 'node:crypto';
import {
  covers,
  creatorOf,
  exportScope,
  exportVisibility,
} from '../../../core/administration/exports/export-rights.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import { type ExportField, exportFields } from '../../../core/ports/request-row.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter, WorkspaceRecord } from '../../../core/ports/resources.ts';
import { places, storedRecords } from '../shared/records.ts';
import { dataVisibility, type SettingsSource } from '../shared/data-visibility.ts';
import { type ExportFilters, exportRecord, exportSchemas } from './record.ts';
import { exportFile } from './file.ts';
import { linkOrigin } from '../../../core/pipeline/browser.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { Identifier, Name, refusedBody, strict } from '../shared/fields.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { LogExportData } from '../../../core/ports/record-kinds.ts';
import type { LogExports } from '../../../core/ports/exports.ts';
import type { Actor } from '../api-keys/access.ts';

const Message = Type.Object({ message: Type.String(), object: Type.Literal('export') });
/** Upper bound of concurrent exports of a workspace. */
const maxRunning = 5;

/** `POST /logs/exports/{exportId}/start`. */
function startExportRoute(scope: Scope): RouteDefinition {
  const { clock, directory } = scope;
  return defineRoute({
    id: 'log_exports.start',
    method: 'POST',
    path: `${onePath}/start`,
    summary: 'Starts an export, or restarts one that ended without a file',
    scope: exportScope,
    feature: 'data_exports',
    audit: 'export',
    params: Params,
    reply: Message,
    async handle({ params, key, role, read, write, requireVersion, sendVersion }) {
      const exports = exportFile.exports(scope);
      const before = await read((reader) =>
        visibleExport(reader, { key, role }, { directory, id: params.exportId }),
      );
      requireVersion(before.version);
      requireStartable(before);
      requireAllowedFields(before.data.requestedData, exports.rules);
      exports.requireRights(before);
      const now = clock.now();
      // The export ends at `now`: rows that arrive during the run stay out of the file.
      const to = Math.max(before.data.from, Math.min(before.data.to, now));
      const total = await exportFile.countRows(scope, { ...before.data, to }, exportVisibility(before));
      const after = changed(before, key, now, {
        state: 'in_progress',
        run: before.data.run + 1,
        to,
        total,
        rows: 0,
        bytes: 0,
        error: '',
        startedAt: now,
        finishedAt: undefined,
        expiresAt: undefined,
      });
      await write(async (writer) => {
        await requireFreePlace(writer, before);
        if (!(await writer.records.replace(after))) throw storedRecords.stale();
        return { id: after.id, workspaceId: after.workspaceId, result: undefined };
      });
      try {
        await exports.enqueue(after);
      } catch (error) {
        await write(async ({ records }) => {
          const failed = { state: 'failed', error: 'It could not be queued.', finishedAt: now } as const;
          await records.replace(changed(after, key, now, failed));
          return { id: after.id, workspaceId: after.workspaceId, result: undefined };
        });
        throw error;
      }
      sendVersion(after.version);
      return { message: `The export of ${total} requests has been started.`, object: 'export' as const };
    },
  });
}

/** `POST /logs/exports/{exportId}/cancel`. */
function cancelExportRoute(scope: Scope): RouteDefinition {
  const { clock, directory, log } = scope;
  return defineRoute({
    id: 'log_exports.cancel',
    method: 'POST',
    path: `${onePath}/cancel`,
    summary: 'Cancels a running export',
    scope: exportScope,
    feature: 'data_exports',
    audit: 'update',
    params: Params,
    reply: Message,
    async handle({ params, key, role, write, requireVersion, sendVersion }) {
      const exports = exportFile.exports(scope);
      const stopped = await write(async (writer) => {
        const before = await visibleExport(writer, { key, role }, { directory, id: params.exportId });
        requireVersion(before.version);
        if (before.data.state !== 'in_progress')
          throw exportRecord.wrongState(before, 'Only one that is running can be cancelled.');
        const now = clock.now();
        const after = changed(before, key, now, { state: 'stopped', finishedAt: now });
        if (!(await writer.records.replace(after))) throw storedRecords.stale();
        return { id: after.id, workspaceId: after.workspaceId, result: after };
      });
      await exports.discard(stopped).catch((error: unknown) => {
        log.warn('Files of a cancelled export may remain in the store', { export: stopped.id, error });
      });
      sendVersion(stopped.version);
      return { message: 'The export has been stopped.', object: 'export' as const };
    },
  });
}

/** `GET /logs/exports/{exportId}/download`. */
function downloadExportRoute(scope: Scope): RouteDefinition {
  const { clock, directory, publicUrl } = scope;
  return defineRoute({
    id: 'log_exports.download',
    method: 'GET',
    path: `${onePath}/download`,
    summary: 'Link to the file of an export, valid without a key for a limited time',
    scope: exportScope,
    feature: 'data_exports',
    audit: 'export',
    params: Params,
    reply: Type.Object({
      signed_url: Type.String({ description: 'Link to the file; it needs no key.' }),
      expires_at: Type.String({ description: 'Expiry of the link.' }),
    }),
    async handle({ params, key, role, context, write }) {
      const exports = exportFile.exports(scope);
      const record = await write(async (writer) => {
        const found = await visibleExport(writer, { key, role }, { directory, id: params.exportId });
        exportRecord.requireFile(found, clock.now());
        return { id: found.id, workspaceId: found.workspaceId, result: found };
      });
      const { url, expiresAt } = await exports.link(record, linkOrigin(context, publicUrl));
      return { signed_url: url, expires_at: new Date(expiresAt).toISOString() };
    },
  });
}

function requireStartable(record: StoredRecord<'log_export'>): void {
  const { state, expiresAt } = record.data;
  if (state === 'in_progress') throw exportRecord.wrongState(record, 'Wait for it, or cancel it.');
  if (state === 'success' && expiresAt !== undefined)
    throw exportRecord.wrongState(record, 'Download its file, or make a new one.');
}

async function requireFreePlace(
  reader: Pick<ResourcesReader, 'records'>,
  { organisationId, workspaceId = '' }: StoredRecord<'log_export'>,
): Promise<void> {
  const all = await storedRecords.every(reader, 'log_export', organisationId, { workspaceId });
  if (all.filter(({ data }) => data.state === 'in_progress').length < maxRunning) return;
  throw new GatewayError(
    'resource_conflict',
    `${maxRunning} exports of the workspace are running, and that is the most at the same time. Wait for one, or cancel it.`,
  );
}

function changed(
  record: StoredRecord<'log_export'>,
  key: KeyRecord,
  now: number,
  change: Partial<LogExportData>,
): StoredRecord<'log_export'> {
  return storedRecords.changed(record, { data: { ...record.data, ...change } }, key, now);
}

const path = '/logs/exports';
const onePath = `${path}/{exportId}`;
const Params = Type.Object({ exportId: Identifier });
/** Upper bound of stored exports of a workspace; new ones replace the oldest. */
const maxKept = 1000;

/** The routes of exports: log entries as files. */
export function exportRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    listRoute(scope),
    restrictionsRoute(scope),
    getRoute(scope),
    updateRoute(scope),
    startExportRoute(scope),
    cancelExportRoute(scope),
    downloadExportRoute(scope),
    exportFile.route(scope),
  ];
}

function createRoute(scope: Scope): RouteDefinition {
  const { clock, directory, log } = scope;
  return defineRoute({
    id: 'log_exports.create',
    method: 'POST',
    path,
    summary: 'Creates a draft of an export of log entries',
    scope: exportScope,
    feature: 'data_exports',
    audit: 'create',
    body: exportSchemas.Create,
    reply: exportSchemas.DraftReply,
    async handle({ body, key, role, read, write, sendVersion }) {
      const exports = exportFile.exports(scope);
      const requestedData = fieldsOf(body.requested_data);
      requireAllowedFields(requestedData, exports.rules);
      const now = clock.now();
      const plan = exportFile.plan(body.filters, now, exports.rules);
      const workspace = await read(async (reader) => {
        const named = body.workspace_id ?? body.filters.workspace_id ?? body.filters.workspace_slug;
        const found = await places.required(reader, key, named);
        requireSameWorkspace(body.filters, found);
        return found;
      });
      const workspaceId = workspace.id;
      const visibility = { ...dataVisibility({ key, role }, directory), workspaceId };
      const total = await exportFile.countRows(scope, plan, visibility);
      const id = randomUUID();
      const by = key.userId || key.id;
      const { organisationId } = key;
      const removed = await write(async (writer) => {
        const oldest = await makeRoom(writer, workspace);
        await writer.records.insert(
          storedRecords.create(
            {
              kind: 'log_export',
              id,
              organisationId,
              workspaceId,
              slug: id,
              name: `export ${id}`,
              data: {
                ...plan,
                description: body.description ?? '',
                format: body.format ?? 'jsonl',
                requestedData,
                visibleUserId: visibility.userId,
                visibleKeyId: visibility.apiKeyId,
                creator: creatorOf(key, directory),
                state: 'draft',
                run: 0,
                total,
                rows: 0,
                bytes: 0,
                error: '',
                startedAt: undefined,
                finishedAt: undefined,
                expiresAt: undefined,
              },
            },
            by,
            now,
          ),
        );
        return { id, workspaceId, result: oldest };
      });
      for (const one of removed)
        await exports.discard(one).catch((error: unknown) => {
          log.warn('Files of a removed export may remain in the store', { export: one.id, error });
        });
      sendVersion(1);
      return { id, total, object: 'export' as const };
    },
  });
}

function listRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'log_exports.list',
    method: 'GET',
    path,
    summary: 'Exports whose log entries the key may read, oldest first',
    scope: exportScope,
    feature: 'data_exports',
    // Reads only.
    audit: null,
    query: Type.Object(
      { ...paging.query, workspace_id: Type.Optional(Name('Id or slug: only those of this workspace.')) },
      strict,
    ),
    reply: Type.Object({ ...listReplies.of, data: Type.Array(exportSchemas.Reply) }),
    async handle({ query, key, role, read }) {
      const page = paging.of(query);
      const { organisationId } = key;
      const visibility = dataVisibility({ key, role }, directory);
      const { total, data } = await read(async (reader) => {
        const named = query.workspace_id;
        const workspaceId =
          named === undefined ? visibility.workspaceId : (await places.visible(reader, key, named)).id;
        const filter = workspaceId === undefined ? {} : { workspaceId };
        const isWhole = visibility.userId === undefined && visibility.apiKeyId === undefined;
        if (isWhole) return reader.records.list('log_export', organisationId, filter, page);
        // A workspace has at most a thousand exports.
        const all = await storedRecords.every(reader, 'log_export', organisationId, filter);
        const seen = all.filter((record) => covers(visibility, exportVisibility(record)));
        return { total: seen.length, data: seen.slice(page.offset, page.offset + page.limit) };
      });
      return { object: 'list' as const, total, data: data.map((record) => exportRecord.show(record)) };
    },
  });
}

function restrictionsRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'log_exports.restrictions',
    method: 'GET',
    path: `${path}/field-restrictions`,
    summary: 'Fields that exports may contain',
    scope: exportScope,
    feature: 'data_exports',
    // Reads only.
    audit: null,
    reply: Type.Object({
      object: Type.Literal('field-restrictions'),
      denied_fields: Type.Array(exportSchemas.Field, { description: 'Fields that are refused in exports.' }),
      allowed_fields: Type.Array(exportSchemas.Field),
    }),
    handle() {
      const { deniedFields } = exportFile.exports(scope).rules;
      return {
        object: 'field-restrictions' as const,
        denied_fields: [...fieldsOf(deniedFields)],
        allowed_fields: exportFields.filter((field) => !deniedFields.includes(field)),
      };
    },
  });
}

function getRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'log_exports.get',
    method: 'GET',
    path: onePath,
    summary: 'One export and its progress',
    scope: exportScope,
    feature: 'data_exports',
    // Reads only.
    audit: null,
    params: Params,
    reply: exportSchemas.Reply,
    async handle({ params, key, role, read, sendVersion }) {
      const actor = { key, role };
      const record = await read((reader) => visibleExport(reader, actor, { directory, id: params.exportId }));
      sendVersion(record.version);
      return exportRecord.show(record);
    },
  });
}

function updateRoute(scope: Scope): RouteDefinition {
  const { clock, directory } = scope;
  return defineRoute({
    id: 'log_exports.update',
    method: 'PUT',
    path: onePath,
    summary: 'Updates an export that has not been started',
    scope: exportScope,
    feature: 'data_exports',
    audit: 'update',
    params: Params,
    body: exportSchemas.Update,
    reply: exportSchemas.DraftReply,
    async handle({ params, body, key, role, read, write, requireVersion, sendVersion }) {
      const exports = exportFile.exports(scope);
      const now = clock.now();
      const actor = { key, role };
      const before = await read(async (reader) => {
        const record = await visibleExport(reader, actor, { directory, id: params.exportId });
        const named = body.workspace_id ?? record.workspaceId;
        requireSame(await places.required(reader, key, named), record);
        const { workspace_id: id, workspace_slug: slug } = body.filters;
        for (const one of [id, slug])
          if (one !== undefined) requireSame(await places.visible(reader, key, one), record);
        return record;
      });
      requireVersion(before.version);
      if (before.data.state !== 'draft')
        throw exportRecord.wrongState(before, 'Only a draft can be changed; make a new one.');
      const requestedData =
        body.requested_data === undefined ? before.data.requestedData : fieldsOf(body.requested_data);
      requireAllowedFields(requestedData, exports.rules);
      const plan = exportFile.plan(body.filters, now, exports.rules);
      const total = await exportFile.countRows(scope, plan, exportVisibility(before));
      const { description = before.data.description, format = before.data.format } = body;
      const data = { ...before.data, ...plan, description, format, requestedData, total };
      const after = storedRecords.changed(before, { data }, key, now);
      await write(async ({ records }) => {
        if (!(await records.replace(after))) throw storedRecords.stale();
        return { id: after.id, workspaceId: after.workspaceId, result: undefined };
      });
      sendVersion(after.version);
      return { id: after.id, total, object: 'export' as const };
    },
  });
}

/** Throws `invalid_request` when the filters name another workspace than the export's. */
function requireSameWorkspace(filters: ExportFilters, { id, slug }: WorkspaceRecord): void {
  for (const name of ['workspace_id', 'workspace_slug'] as const) {
    const said = filters[name];
    if (said === undefined || said === id || said === slug) continue;
    throw refusedBody([
      { path: `/filters/${name}`, message: 'names another workspace than the export is of' },
    ]);
  }
}

/** An export stays in its workspace. */
function requireSame({ id }: WorkspaceRecord, record: StoredRecord<'log_export'>): void {
  if (id === record.workspaceId) return;
  throw refusedBody([
    { path: '/workspace_id', message: 'is another workspace than the export is of; make a new export' },
  ]);
}

/** Removes the oldest exports of a full workspace that are not running, and returns them. */
async function makeRoom(
  { records }: Pick<ResourcesWriter, 'records'>,
  { organisationId, id: workspaceId }: WorkspaceRecord,
): Promise<readonly StoredRecord<'log_export'>[]> {
  const { total, data } = await records.list(
    ...(['log_export', organisationId, { workspaceId }, { offset: 0, limit: 20 }] as const),
  );
  const oldest = data.filter((record) => record.data.state !== 'in_progress');
  const removed = oldest.slice(0, Math.max(0, total - maxKept + 1));
  for (const record of removed) await records.remove('log_export', organisationId, record.id);
  return removed;
}

/** Throws 403 `feature_disabled`, naming them, for fields whose export the operator has disabled. */
function requireAllowedFields(
  requested: readonly ExportField[],
  { deniedFields }: LogExports['rules'],
): void {
  const denied = requested.filter((field) => deniedFields.includes(field));
  if (denied.length === 0) return;
  throw new GatewayError(
    'feature_disabled',
    `These fields cannot be exported here (exports.denied_fields): ${denied.map((field) => `"${field}"`).join(', ')}. Leave them out of requested_data.`,
    { param: '/requested_data' },
  );
}

/** The requested columns in the order of `exportFields`, without duplicates. */
function fieldsOf(requested: readonly ExportField[]): readonly ExportField[] {
  return exportFields.filter((field) => requested.includes(field));
}

/**
 * The export with this id, when the caller may read all of its rows. Otherwise throws `resource_not_found`, with the
 * same message for an unknown export and for one out of reach.
 */
async function visibleExport(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  actor: Actor,
  { directory, id }: { readonly directory: SettingsSource; readonly id: string },
): Promise<StoredRecord<'log_export'>> {
  const named = { kind: 'log_export', noun: 'export', idOrSlug: id } as const;
  const record = await storedRecords.visible(reader, actor.key, named);
  if (covers(dataVisibility(actor, directory), exportVisibility(record))) return record;
  throw storedRecords.noSuch('export', id);
}
