import { GatewayError } from '../../errors/gateway-error.ts';
import type { ExportLink, LinkedExport, LogExports } from '../../ports/exports.ts';
import { requireRights, type ExportPlace } from './export-rights.ts';
import {
  ExportFailure,
  exportFolder,
  type ExportRun,
  ExportStopped,
  finishedFile,
  downloadName,
} from './manifest.ts';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import type { StoredRecord } from '../../ports/records.ts';
import type { JobRun } from '../../ports/jobs.ts';
import { attempts, runExport } from './run-export.ts';
import { organisationsOf } from '../jobs/expiry-jobs.ts';
import type { Resources } from '../../ports/resources.ts';

const pageSize = 100;
/** Longest silence of a live run: it records progress every few seconds, except while it assembles a long file. */
const silentMs = 1_800_000;

/**
 * Removes expired files and passes stalled runs to `resume`. An export that fails does not hold up the others; the
 * first error is thrown at the end.
 */
async function expireExports(
  { resources, blobs, clock }: Pick<ExportPlace, 'resources' | 'blobs' | 'clock'>,
  signal: AbortSignal,
  resume: (record: StoredRecord<'log_export'>) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  for await (const record of everyExport(resources, signal)) {
    const { state, expiresAt } = record.data;
    const now = clock.now();
    try {
      if (state === 'in_progress' && record.updatedAt < now - silentMs) await resume(record);
      if (expiresAt === undefined || expiresAt > now) continue;
      await blobs.removeFolder(exportFolder(record));
      await forget(resources, record, now);
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  if (failures.length > 0)
    throw new Error(`${failures.length} exports could not be looked after.`, { cause: failures[0] });
}

/** Clears the expiry and keeps the record as evidence of the export and its maker. */
async function forget(
  resources: Pick<Resources, 'write'>,
  { organisationId, id }: StoredRecord<'log_export'>,
  now: number,
): Promise<void> {
  await resources.write(organisationId, async ({ records }) => {
    const record = await records.find('log_export', { organisationId }, id);
    const isDue = record?.data.expiresAt !== undefined && record.data.expiresAt <= now;
    if (record === undefined || !isDue) return;
    const stamp = { updatedAt: now, version: record.version + 1 };
    await records.replace({ ...record, ...stamp, data: { ...record.data, expiresAt: undefined } });
  });
}

async function* everyExport(
  resources: Pick<Resources, 'read'>,
  signal: AbortSignal,
): AsyncGenerator<StoredRecord<'log_export'>> {
  for (const { id } of await organisationsOf(resources)) {
    for (let offset = 0; ; offset += pageSize) {
      signal.throwIfAborted();
      const { data } = await resources.read(({ records }) =>
        records.list('log_export', id, {}, { offset, limit: pageSize }),
      );
      yield* data;
      if (data.length < pageSize) break;
    }
  }
}

const runName = 'exports.run';
const expireName = 'exports.expire';
/** Collecting takes seconds; assembling a long file takes longer. */
const runTimeoutMs = 3_600_000;
const expireTimeoutMs = 600_000;
const expireEveryMs = 600_000;
/** Rows of the last moments may not have reached the store yet. */
const settleMs = 3000;
/** By then the writer of an ended run has stopped. */
const discardAfterMs = 2000;

interface Running {
  readonly controller: AbortController;
  readonly done: Promise<unknown>;
}

/** The jobs of exports. */
class ExportWork {
  readonly #place: ExportPlace;
  readonly #running = new Map<string, Running>();

  /** Defines `exports.run` and `exports.expire`; call it before the jobs start. */
  constructor(place: ExportPlace) {
    this.#place = place;
    const { jobs } = place;
    jobs.define<ExportRun>({
      name: runName,
      attempts,
      timeoutMs: runTimeoutMs,
      handle: (job) => this.#handle(job),
    });
    jobs.define({
      name: expireName,
      timeoutMs: expireTimeoutMs,
      handle: ({ signal }) => expireExports(place, signal, (record) => this.#resume(record)),
    });
    jobs.repeat({ name: expireName, everyMs: expireEveryMs });
  }

  /** Enqueues a run. */
  async enqueue(record: StoredRecord<'log_export'>): Promise<void> {
    const delayMs = Math.max(0, settleMs - (this.#place.clock.now() - record.data.to));
    await this.#add(record, 'start', delayMs);
  }

  /** Ends this process's work on an export and has its remains removed. */
  async discard(record: StoredRecord<'log_export'>): Promise<void> {
    this.#running.get(record.id)?.controller.abort(new ExportStopped());
    await this.#add(record, 'discard', discardAfterMs);
  }

  /** Continues a run whose job was lost; no effect on a running one. */
  async #resume(record: StoredRecord<'log_export'>): Promise<void> {
    if (this.#running.has(record.id)) return;
    await this.#add(record, `resume-${record.version}`, 0);
  }

  #add(
    { organisationId, id, data: { run } }: StoredRecord<'log_export'>,
    step: string,
    delayMs: number,
  ): Promise<void> {
    const data: ExportRun = { organisationId, exportId: id, run };
    return this.#place.jobs.add(runName, `${runName}:${id}:${run}:${step}`, data, { delayMs });
  }

  async #handle({ data, signal, attempt }: JobRun<ExportRun>): Promise<void> {
    // A timed-out attempt may still be at its last page.
    await this.#running.get(data.exportId)?.done.catch(() => undefined);
    const controller = new AbortController();
    const both = AbortSignal.any([signal, controller.signal]);
    const work = runExport(this.#place, data, { signal: both, attempt });
    this.#running.set(data.exportId, { controller, done: work });
    try {
      const slice = await work;
      if (slice.isOver) return;
      const { exportId, run } = data;
      await this.#place.jobs.add(runName, `${runName}:${exportId}:${run}:${slice.slices}`, data);
    } catch (error) {
      // The resources store already has the end of the run; a job of its own removes the remains.
      if (error instanceof ExportStopped || controller.signal.aborted) return;
      if (GatewayError.is(error) && error.code === 'shutting_down') signal.throwIfAborted();
      throw error;
    } finally {
      this.#running.delete(data.exportId);
    }
  }
}

type LinkPlace = Pick<ExportPlace, 'blobs' | 'formats' | 'secrets' | 'settings' | 'clock'>;

/** No record has this id: a token sealed for a link opens nothing else. */
const context = 'log_export/link';
const Sealed = Type.Object({
  organisationId: Type.String(),
  exportId: Type.String(),
  run: Type.Integer(),
  expiresAt: Type.Integer(),
});

/**
 * Link to the file of a finished export: to the blob store where it serves links itself, else to this gateway, with a
 * sealed token. Gateways that share `WEIR_SECRET_KEY` accept each other's.
 */
async function exportLink(
  { blobs, formats, secrets, settings, clock }: LinkPlace,
  record: StoredRecord<'log_export'>,
  origin: string,
): Promise<ExportLink> {
  const { run, format, expiresAt: removedAt = Infinity } = record.data;
  const { contentType } = await formats(format);
  const now = clock.now();
  const expiresAt = Math.floor(Math.min(removedAt, now + settings.link_minutes * 60_000));
  const stored = blobs.link(finishedFile(record, run, format), {
    seconds: Math.max(1, Math.floor((expiresAt - now) / 1000)),
    fileName: downloadName(record, format),
    contentType,
  });
  if (stored !== undefined) return { url: stored, expiresAt };
  const linked: LinkedExport = { organisationId: record.organisationId, exportId: record.id, run, expiresAt };
  const sealed = secrets.seal(JSON.stringify(linked), context);
  return { url: `${origin}/logs/exports/${record.id}/file?token=${encodeURIComponent(sealed)}`, expiresAt };
}

/** Content of a link's token. Throws `key_invalid` for an invalid or expired one. */
function readExportToken(
  { secrets, clock }: Pick<LinkPlace, 'secrets' | 'clock'>,
  token: string,
): LinkedExport {
  const sealed = open(secrets, token);
  if (!Value.Check(Sealed, sealed))
    throw invalidTokenError('This link is not one of this gateway, or was not copied whole.');
  if (clock.now() >= sealed.expiresAt) throw invalidTokenError('This link has ended.');
  return sealed;
}

function open(secrets: LinkPlace['secrets'], token: string): unknown {
  try {
    return JSON.parse(secrets.open(token, context));
  } catch {
    return undefined;
  }
}

function invalidTokenError(why: string): GatewayError {
  return new GatewayError('key_invalid', `${why} Ask for a new one: GET /logs/exports/{exportId}/download.`, {
    param: '/token',
  });
}

/** Exports of logs as files. Defines their jobs, so it is made before the jobs are started. */
export function createLogExports(place: ExportPlace): LogExports {
  const { blobs, formats, settings } = place;
  const work = new ExportWork(place);
  return {
    rules: { deniedFields: settings.denied_fields, maxRows: settings.max_rows },
    requireRights(record) {
      try {
        requireRights(record, place.directory, { rule: place.rule, now: place.clock.now() });
      } catch (error) {
        if (!(error instanceof ExportFailure)) throw error;
        throw new GatewayError('scope_missing', error.message, { cause: error });
      }
    },
    enqueue: (record) => work.enqueue(record),
    discard: (record) => work.discard(record),
    link: (record, origin) => exportLink(place, record, origin),
    readToken: (token) => readExportToken(place, token),
    async open(record) {
      const { format, run } = record.data;
      const [blob, { contentType }] = await Promise.all([
        blobs.read(finishedFile(record, run, format)),
        formats(format),
      ]);
      return blob && { ...blob, fileName: downloadName(record, format), contentType };
    },
  };
}
