import { exportScope, exportVisibility } from '../../core/administration/exports/export-visibility.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { LogExportData } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { changedRecord } from './changed-record.ts';
import { countRows, exportsOf, requireAllowedFields } from './export-plan.ts';
import { publicOrigin } from './public-origin.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier } from './text-schema.ts';
import { visibleExport, wrongState } from './visible-export.ts';
import { everyRecord } from './visible-record.ts';

const onePath = '/logs/exports/{exportId}';
const Params = Type.Object({ exportId: Identifier });
const Message = Type.Object({ message: Type.String(), object: Type.Literal('export') });
/** Exports of a workspace that run at the same time. */
const mostRunning = 5;

/** `POST /logs/exports/{exportId}/start`. */
export function startExportRoute(scope: Scope): RouteDefinition {
  const { clock, directory } = scope;
  return defineRoute({
    id: 'log_exports.start',
    method: 'POST',
    path: `${onePath}/start`,
    summary: 'Starts an export, or starts one again that has ended without a file',
    scope: exportScope,
    feature: 'data_exports',
    audit: 'export',
    params: Params,
    reply: Message,
    async handle({ params, key, role, read, write, requireVersion, sendVersion }) {
      const exports = exportsOf(scope);
      const before = await read((reader) =>
        visibleExport(reader, { key, role }, { directory, id: params.exportId }),
      );
      requireVersion(before.version);
      requireStartable(before);
      requireAllowedFields(before.data.requestedData, exports.rules);
      exports.requireRights(before);
      const now = clock.now();
      // What comes in while it runs would make a file that nobody asked for.
      const to = Math.max(before.data.from, Math.min(before.data.to, now));
      const total = await countRows(scope, { ...before.data, to }, exportVisibility(before));
      const after = changed(before, key, now, {
        ...{ state: 'in_progress', run: before.data.run + 1, to, total, rows: 0, bytes: 0, error: '' },
        ...{ startedAt: now, finishedAt: undefined, expiresAt: undefined },
      });
      await write(async (writer) => {
        await requireFreePlace(writer, before);
        if (!(await writer.records.replace(after))) throw staleVersion();
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
export function cancelExportRoute(scope: Scope): RouteDefinition {
  const { clock, directory, log } = scope;
  return defineRoute({
    id: 'log_exports.cancel',
    method: 'POST',
    path: `${onePath}/cancel`,
    summary: 'Stops an export that is running',
    scope: exportScope,
    feature: 'data_exports',
    audit: 'update',
    params: Params,
    reply: Message,
    async handle({ params, key, role, write, requireVersion, sendVersion }) {
      const exports = exportsOf(scope);
      const stopped = await write(async (writer) => {
        const before = await visibleExport(writer, { key, role }, { directory, id: params.exportId });
        requireVersion(before.version);
        if (before.data.state !== 'in_progress')
          throw wrongState(before, 'Only one that is running can be cancelled.');
        const now = clock.now();
        const after = changed(before, key, now, { state: 'stopped', finishedAt: now });
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: after };
      });
      await exports.discard(stopped).catch((error: unknown) => {
        log.warn('The files of a cancelled export may be left behind', { export: stopped.id, error });
      });
      sendVersion(stopped.version);
      return { message: 'The export has been stopped.', object: 'export' as const };
    },
  });
}

/** `GET /logs/exports/{exportId}/download`. */
export function downloadExportRoute(scope: Scope): RouteDefinition {
  const { clock, directory, publicUrl } = scope;
  return defineRoute({
    id: 'log_exports.download',
    method: 'GET',
    path: `${onePath}/download`,
    summary: 'A link to the file of an export, which opens without a key for a while',
    scope: exportScope,
    feature: 'data_exports',
    audit: 'export',
    params: Params,
    reply: Type.Object({
      signed_url: Type.String({ description: 'Whoever has it can fetch the file.' }),
      expires_at: Type.String({ description: 'When it ends to open.' }),
    }),
    async handle({ params, key, role, context, write }) {
      const exports = exportsOf(scope);
      const record = await write(async (writer) => {
        const found = await visibleExport(writer, { key, role }, { directory, id: params.exportId });
        requireFile(found, clock.now());
        return { id: found.id, workspaceId: found.workspaceId, result: found };
      });
      const { url, expiresAt } = await exports.link(record, publicOrigin(context, publicUrl));
      return { signed_url: url, expires_at: new Date(expiresAt).toISOString() };
    },
  });
}

/** Throws `resource_conflict` while there is no file, `resource_not_found` when its time is over. */
export function requireFile(record: StoredRecord<'log_export'>, now: number): void {
  if (record.data.state !== 'success')
    throw wrongState(record, 'Its file is there when it has succeeded; read it again until then.');
  if (record.data.expiresAt !== undefined && record.data.expiresAt > now) return;
  throw new GatewayError(
    'resource_not_found',
    'The file of this export was removed when its time was over (exports.expires_days). Start the export again.',
  );
}

function requireStartable(record: StoredRecord<'log_export'>): void {
  const { state, expiresAt } = record.data;
  if (state === 'in_progress') throw wrongState(record, 'Wait for it, or cancel it.');
  if (state === 'success' && expiresAt !== undefined)
    throw wrongState(record, 'Download its file, or make a new one.');
}

async function requireFreePlace(
  reader: Pick<ResourcesReader, 'records'>,
  { organisationId, workspaceId = '' }: StoredRecord<'log_export'>,
): Promise<void> {
  const all = await everyRecord(reader, 'log_export', organisationId, { workspaceId });
  if (all.filter(({ data }) => data.state === 'in_progress').length < mostRunning) return;
  throw new GatewayError(
    'resource_conflict',
    `${mostRunning} exports of the workspace are running, and that is the most at the same time. Wait for one, or cancel it.`,
  );
}

function changed(
  record: StoredRecord<'log_export'>,
  key: KeyRecord,
  now: number,
  change: Partial<LogExportData>,
): StoredRecord<'log_export'> {
  return changedRecord(record, { data: { ...record.data, ...change } }, key, now);
}
