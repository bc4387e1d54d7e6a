import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { strict } from '../../config/describe-schema.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { StoredRecord } from '../../ports/records.ts';
import { exportVisibility, requireRights, type ExportPlace } from './export-rights.ts';
import {
  ExportFailure,
  exportFolder,
  type ExportRun,
  ExportStopped,
  finishedFile,
  Count,
  Part,
  type NamedExport,
} from './manifest.ts';
import { createHash, randomUUID } from 'node:crypto';
import type { Blobs, FileFormat, FilePiece } from '../../ports/exports.ts';
import type { ExportField } from '../../ports/request-row.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Analytics, LogCursor, LogQuery, LogRecord } from '../../ports/analytics.ts';
import type { Clock } from '../../ports/clock.ts';
import { Readable } from 'node:stream';
import type { Resources } from '../../ports/resources.ts';
import type { LogExportData } from '../../ports/record-kinds.ts';

/** Pieces of the file that are not stored yet. */
class PartBuffer {
  #pieces: Uint8Array[] = [];
  #notes: string[] = [];
  #bytes = 0;
  #hash = createHash('sha256');

  get bytes(): number {
    return this.#bytes;
  }

  add({ bytes, note }: FilePiece): void {
    if (bytes.length > 0) this.#pieces.push(bytes);
    // Hashing the whole part at once would block for long.
    this.#hash.update(bytes);
    if (note !== undefined) this.#notes.push(note);
    this.#bytes += bytes.length;
  }

  /**
   * Stores them as one part in the folder, under a name unique to this attempt: two attempts must not write into one
   * file. Empties the buffer.
   */
  async store(blobs: Blobs, folder: string, index: number): Promise<ManifestPart> {
    const name = `${folder}/part-${index}-${randomUUID()}`;
    const notes = `${name}.notes`;
    const isNoted = this.#notes.length > 0;
    if (isNoted) await blobs.write(notes, Buffer.from(JSON.stringify(this.#notes)));
    await blobs.write(name, Readable.from(this.#pieces));
    const part = { name, bytes: this.#bytes, sha256: this.#hash.digest('hex'), ...(isNoted && { notes }) };
    this.#pieces = [];
    this.#notes = [];
    this.#bytes = 0;
    this.#hash = createHash('sha256');
    return part;
  }
}

const firstRows = 200;

/** Size of the next page: as many rows as fit, judged by the last page. */
class PageSize {
  readonly #most: number;
  readonly #wantedBytes: number;
  #rows = firstRows;

  /** Bodies may be long, and the length of the next ones is unknown. `wantedBytes`: target for the texts of a page. */
  constructor(withBodies: boolean, wantedBytes: number) {
    this.#wantedBytes = wantedBytes;
    this.#most = withBodies ? 500 : 2000;
    this.#rows = Math.min(firstRows, this.#most);
  }

  get rows(): number {
    return this.#rows;
  }

  /** Grows to twice at most, because rows differ. */
  learn(rows: number, bytes: number): void {
    if (rows === 0) return;
    const fitting = Math.floor((this.#wantedBytes * rows) / Math.max(1, bytes));
    this.#rows = Math.max(1, Math.min(this.#most, this.#rows * 2, fitting));
  }

  /** After a page that the store could not make. */
  halve(): void {
    this.#rows = Math.max(1, Math.floor(this.#rows / 2));
  }
}

/** Approximate length of a part; a kill loses one at most. */
const partBytes = 8 * 1024 * 1024;

/** Attempts at a page that the store cannot make, each with half as many rows. */
const pageAttempts = 4;

/** Approximate bytes of a row without its bodies. */
const rowBytes = 500;

/** Dependencies of collecting rows. */
interface Collecting {
  readonly record: StoredRecord<'log_export'>;
  readonly analytics: Pick<Analytics, 'logs'>;
  readonly blobs: Blobs;
  readonly format: FileFormat;
  readonly clock: Clock;
  /** Folder of parts and manifest. */
  readonly folder: string;
  /** Stops after the page during which this time ends. */
  readonly sliceMs: number;
  /** Called before every page; throws when the work must end. */
  check(): Promise<void>;
}

/**
 * Continues after the last stored part, page by page, and stores the rows in parts, each with the manifest that names
 * it. Resolves to the manifest when no row is left or the time is over.
 */
async function collectRows(collecting: Collecting, from: Manifest): Promise<Manifest> {
  const { record, blobs, format, clock, folder, sliceMs } = collecting;
  const { requestedData: fields, skip, limit } = record.data;
  const endsAt = clock.monotonic() + sliceMs;
  const size = new PageSize(needsBodies(record), format.pageBytes);
  const buffer = new PartBuffer();
  let manifest: Manifest = { ...from, slices: from.slices + 1 };
  let { after, seen, rows, isWhole } = from;
  const store = async (): Promise<void> => {
    const stored = buffer.bytes === 0 ? [] : [await buffer.store(blobs, folder, manifest.parts.length)];
    const bytes = manifest.bytes + (stored[0]?.bytes ?? 0);
    const parts = [...manifest.parts, ...stored];
    manifest = { ...manifest, ...(after !== undefined && { after }), seen, rows, bytes, isWhole, parts };
    await writeManifest(blobs, folder, manifest);
  };
  /** With a store that comes and goes, the next attempt must not restart at the same place each time. */
  const keep = async (error: unknown): Promise<never> => {
    if (seen > manifest.seen) await store().catch(() => undefined);
    throw error;
  };
  if (manifest.parts.length === 0) buffer.add({ bytes: format.head(fields) });
  while (!isWhole) {
    await collecting.check();
    const most = skip + limit - seen;
    const page = most <= 0 ? [] : await nextPage(collecting, size, { most, after }).catch(keep);
    const wanted = page.slice(Math.max(0, skip - seen));
    if (wanted.length > 0) {
      const piece = format.rows(fields, wanted, manifest.bytes + buffer.bytes);
      buffer.add(piece);
      size.learn(wanted.length, textBytes(wanted));
    }
    seen += page.length;
    rows += wanted.length;
    after = cursorOf(page.at(-1)) ?? after;
    isWhole = page.length === 0;
    if (buffer.bytes >= partBytes) await store();
    if (clock.monotonic() >= endsAt) break;
    // Requests that this process serves come first.
    await nextTurn();
  }
  await store();
  return manifest;
}

async function nextPage(
  { record, analytics }: Collecting,
  size: PageSize,
  { most, after }: { readonly most: number; readonly after: LogCursor | undefined },
): Promise<readonly LogRecord[]> {
  const { from, to, filter } = record.data;
  const query: Omit<LogQuery, 'limit'> = {
    // Rows before the cursor have been read already.
    window: { from: after?.createdAt ?? from, to },
    visibility: exportVisibility(record),
    filter,
    order: 'oldest',
    ...(after !== undefined && { after }),
    bodies: needsBodies(record),
  };
  for (let attempt = 1; ; attempt++) {
    try {
      return await analytics.logs({ ...query, limit: Math.min(size.rows, most) });
    } catch (error) {
      if (attempt === pageAttempts || !GatewayError.is(error)) throw error;
      size.halve();
    }
  }
}

function needsBodies({ data: { requestedData } }: StoredRecord<'log_export'>): boolean {
  return requestedData.includes('request') || requestedData.includes('response');
}

/** Approximate bytes of rows as texts: their bodies, plus a constant per row. */
function textBytes(records: readonly LogRecord[]): number {
  let bytes = records.length * rowBytes;
  for (const { body } of records) bytes += (body?.request.length ?? 0) + (body?.response.length ?? 0);
  return bytes;
}

function cursorOf(record: LogRecord | undefined): LogCursor | undefined {
  if (record === undefined) return undefined;
  const { id, created_at: createdAt } = record.request;
  return { id, createdAt: Date.parse(`${createdAt.replace(' ', 'T')}Z`) };
}

const dayMs = 86_400_000;

const sliceMsByDefault = 10_000;

/** Attempts in all: with their waits they bridge an outage of half an hour. */
export const attempts = 40;

/** The same for errors of unknown cause. */
const maxAttempts = 3;

/** Result of one attempt: the run is over, or another attempt follows. */
type Slice = { readonly isOver: true } | { readonly isOver: false; readonly slices: number };

/**
 * One attempt at a run: collects rows for a while, and assembles the file when none are left. Removes the remains of an
 * ended run.
 */
export async function runExport(
  place: ExportPlace,
  run: ExportRun,
  { signal, attempt }: { readonly signal: AbortSignal; readonly attempt: number },
): Promise<Slice> {
  const record = await findExport(place.resources, run);
  const named = { organisationId: run.organisationId, id: run.exportId };
  if (record === undefined) {
    await place.blobs.removeFolder(exportFolder(named));
    return { isOver: true };
  }
  if (!isUnderWay(record, run)) return cleanUpRun(place, record, run);
  try {
    return await slice(place, record, { run, signal });
  } catch (error) {
    if (error instanceof ExportStopped) return await cleanUpRun(place, record, run);
    const sentence = signal.aborted ? undefined : failureOf(error, attempt);
    if (sentence === undefined) throw error;
    place.log.warn('An export of logs failed', { export: run.exportId, reason: sentence, error });
    const finishedAt = place.clock.now();
    await writeProgress(place, run, { state: 'failed', error: sentence, finishedAt });
    return cleanUpRun(place, record, run);
  }
}

interface Turn {
  readonly run: ExportRun;
  readonly signal: AbortSignal;
}

async function slice(
  place: ExportPlace,
  record: StoredRecord<'log_export'>,
  { run, signal }: Turn,
): Promise<Slice> {
  const { blobs, analytics, clock, sliceMs = sliceMsByDefault } = place;
  const format = await place.formats(record.data.format);
  const folder = partsFolder(record, run.run);
  const check = async (): Promise<void> => {
    signal.throwIfAborted();
    const now = await findExport(place.resources, run);
    if (now === undefined || !isUnderWay(now, run)) throw new ExportStopped();
    requireAllowed(place, now);
  };
  const collecting = { record, analytics, blobs, format, clock, folder, sliceMs, check };
  const manifest = await collectRows(collecting, await readManifest(blobs, folder));
  if (!manifest.isWhole) {
    const { rows, bytes, slices } = manifest;
    if (!(await writeProgress(place, run, { rows, bytes }))) throw new ExportStopped();
    return { isOver: false, slices };
  }
  await check();
  const name = finishedFile(record, run.run, record.data.format);
  const bytes = await assembleFile({
    blobs,
    format,
    fields: record.data.requestedData,
    manifest,
    name,
    signal,
  });
  await succeed(place, { run, manifest, bytes });
  await blobs.removeFolder(folder);
  return { isOver: true };
}

async function succeed(
  place: ExportPlace,
  { run, manifest, bytes }: { readonly run: ExportRun; readonly manifest: Manifest; readonly bytes: number },
): Promise<void> {
  const { clock, log, settings } = place;
  const finishedAt = clock.now();
  const expiresAt = finishedAt + Math.round(settings.expires_days * dayMs);
  const { rows } = manifest;
  const isWritten = await writeProgress(place, run, { state: 'success', rows, bytes, finishedAt, expiresAt });
  if (!isWritten) throw new ExportStopped();
  log.info('An export of logs is ready', { export: run.exportId, rows, bytes });
}

/** Throws `ExportFailure` when the present rules forbid the export. */
function requireAllowed(place: ExportPlace, record: StoredRecord<'log_export'>): void {
  const { features, settings, directory, clock, rule } = place;
  if (!features.isOn('data_exports'))
    throw new ExportFailure('The export was ended: exports are switched off (DATA_EXPORTS_ENABLED).');
  const denied = record.data.requestedData.filter((field) => settings.denied_fields.includes(field));
  if (denied.length > 0)
    throw new ExportFailure(`The export was ended: ${denied.join(', ')} may not be exported any more.`);
  requireRights(record, directory, { rule, now: clock.now() });
}

/** Reason for a final failure; undefined for a retry. */
function failureOf(error: unknown, attempt: number): string | undefined {
  if (error instanceof ExportFailure) return error.message;
  const isKnown = GatewayError.is(error);
  if (attempt < (isKnown ? attempts : maxAttempts)) return undefined;
  const reason = isKnown ? error.message : 'an unexpected error occurred; see the log of the gateway';
  return `The export was given up after ${attempt} attempts: ${reason} Start it again when that is mended.`;
}

/** Removes the remains of the run; keeps the file of a successful one. */
async function cleanUpRun(
  { blobs, resources }: ExportPlace,
  record: StoredRecord<'log_export'>,
  run: ExportRun,
): Promise<Slice> {
  await blobs.removeFolder(partsFolder(record, run.run));
  const now = await findExport(resources, run);
  const isServed = now?.data.state === 'success' && now.data.run === run.run;
  if (!isServed) await blobs.removeFolder(`${exportFolder(record)}/${run.run}`);
  return { isOver: true };
}

/** Input of the assembly of a file. */
interface Assembly {
  readonly blobs: Blobs;
  readonly format: FileFormat;
  readonly fields: readonly ExportField[];
  readonly manifest: Manifest;
  /** Of the file. */
  readonly name: string;
  readonly signal: AbortSignal;
}

/**
 * Assembles the file from its parts and checks each against its digest. Resolves to the length of the file. Throws
 * `ExportFailure` when a part is missing or damaged.
 */
async function assembleFile(assembly: Assembly): Promise<number> {
  const { blobs, name, signal } = assembly;
  return blobs.write(name, contentOf(assembly), { signal });
}

async function* contentOf({ blobs, format, fields, manifest }: Assembly): AsyncGenerator<Uint8Array> {
  for (const part of manifest.parts) yield* readVerifiedPart(blobs, part);
  const tail = await format.tail(fields, notesOf(blobs, manifest.parts), manifest.bytes);
  if (tail.length > 0) yield tail;
}

async function* readVerifiedPart(
  blobs: Blobs,
  { name, bytes, sha256 }: ManifestPart,
): AsyncGenerator<Buffer> {
  const blob = await blobs.read(name);
  if (blob?.bytes !== bytes) throw damagedPartError();
  const hash = createHash('sha256');
  for await (const chunk of blob.content) {
    hash.update(chunk);
    yield chunk;
  }
  if (hash.digest('hex') !== sha256) throw damagedPartError();
}

async function* notesOf(blobs: Blobs, parts: readonly ManifestPart[]): AsyncGenerator<string> {
  for (const { notes } of parts) {
    if (notes === undefined) continue;
    const text = await blobText(blobs, notes);
    if (text === undefined) throw damagedPartError();
    yield* JSON.parse(text) as readonly string[];
  }
}

function damagedPartError(): ExportFailure {
  return new ExportFailure(
    'A part of the export is not as it was stored, or gone. Start the export again; if that does not help, look at the store that exports.url names.',
  );
}

/** Present record of the export. */
function findExport(
  resources: Pick<Resources, 'read'>,
  { organisationId, exportId }: Pick<ExportRun, 'organisationId' | 'exportId'>,
): Promise<StoredRecord<'log_export'> | undefined> {
  return resources.read(({ records }) => records.find('log_export', { organisationId }, exportId));
}

/** Writes the progress of a run. Returns false and writes nothing when it is no longer in progress. */
function writeProgress(
  { resources, clock }: { readonly resources: Pick<Resources, 'write'>; readonly clock: Pick<Clock, 'now'> },
  run: ExportRun,
  change: Partial<LogExportData>,
): Promise<boolean> {
  const { organisationId, exportId } = run;
  return resources.write(organisationId, async ({ records }) => {
    const record = await records.find('log_export', { organisationId }, exportId);
    if (record === undefined || !isUnderWay(record, run)) return false;
    const stamp = { updatedAt: clock.now(), version: record.version + 1 };
    return records.replace({ ...record, ...stamp, data: { ...record.data, ...change } });
  });
}

/** Whether the run is still in progress. */
function isUnderWay(record: StoredRecord<'log_export'> | undefined, { run }: ExportRun): boolean {
  return record?.data.state === 'in_progress' && record.data.run === run;
}

const Manifest = Type.Object(
  {
    version: Type.Literal(1),
    /** Cursor of the next page; absent before the first. */
    after: Type.Optional(Type.Object({ createdAt: Type.Number(), id: Type.String() }, strict)),
    /** Rows read (including those skipped at the beginning), rows exported, and bytes written. */
    seen: Count,
    rows: Count,
    bytes: Count,
    /** Number of attempts that ended before the end. */
    slices: Count,
    /** No row is left. */
    isWhole: Type.Boolean(),
    parts: Type.Array(Part),
  },
  strict,
);

/** Checkpoint of a run: everything needed to continue it elsewhere. */
type Manifest = Static<typeof Manifest>;

/** A stored piece of the file. */
type ManifestPart = Manifest['parts'][number];

/** Before the first row. */
const emptyManifest: Manifest = {
  version: 1,
  seen: 0,
  rows: 0,
  bytes: 0,
  slices: 0,
  isWhole: false,
  parts: [],
};

/** Manifest of the folder; the empty one when it is absent or foreign. */
async function readManifest(blobs: Blobs, folder: string): Promise<Manifest> {
  const text = await blobText(blobs, `${folder}/manifest.json`);
  if (text === undefined) return emptyManifest;
  try {
    const value: unknown = JSON.parse(text);
    return Value.Check(Manifest, value) ? value : emptyManifest;
  } catch {
    return emptyManifest;
  }
}

/** Replaces the manifest; store the parts that it names first. */
async function writeManifest(blobs: Blobs, folder: string, manifest: Manifest): Promise<void> {
  await blobs.write(`${folder}/manifest.json`, Buffer.from(JSON.stringify(manifest)));
}

/** The whole of a small blob, as text; undefined when absent. */
async function blobText(blobs: Blobs, name: string): Promise<string | undefined> {
  const blob = await blobs.read(name);
  if (blob === undefined) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of blob.content) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

/** Folder of an unfinished run's parts and manifest. */
function partsFolder(one: NamedExport, run: number): string {
  return `${exportFolder(one)}/parts-${run}`;
}
