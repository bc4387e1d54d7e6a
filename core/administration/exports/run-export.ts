import { GatewayError } from '../../errors/gateway-error.ts';
import type { StoredRecord } from '../../ports/records.ts';
import { assembleFile } from './assemble-file.ts';
import { collectRows } from './collect-rows.ts';
import { requireRights } from './creator-rights.ts';
import { ExportFailure } from './export-failure.ts';
import { exportFolder, finishedFile, partsFolder } from './export-names.ts';
import type { ExportPlace } from './export-place.ts';
import { ExportStopped, findExport, isUnderWay, writeProgress, type ExportRun } from './export-progress.ts';
import { readManifest, type Manifest } from './manifest.ts';

const dayMs = 86_400_000;
const sliceMsByDefault = 10_000;

/** Attempts in all: with the waits between them, half an hour in which a store may be away. */
export const attempts = 40;
/** The same where nothing says that it is worth another try. */
const attemptsAtMost = 3;

/** What one attempt ends with: the run is over, or another one goes on. */
type Slice = { readonly isOver: true } | { readonly isOver: false; readonly slices: number };

/**
 * One attempt at a run: collects rows for a while, and puts the file together when there are no more. What is stored of
 * a run that was ended is removed.
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
  if (!isUnderWay(record, run)) return ended(place, record, run);
  try {
    return await slice(place, record, { run, signal });
  } catch (error) {
    if (error instanceof ExportStopped) return await ended(place, record, run);
    const sentence = signal.aborted ? undefined : failureOf(error, attempt);
    if (sentence === undefined) throw error;
    place.log.warn('An export of logs failed', { export: run.exportId, reason: sentence, error });
    const finishedAt = place.clock.now();
    await writeProgress(place, run, { state: 'failed', error: sentence, finishedAt });
    return ended(place, record, run);
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
    ...{ blobs, format, fields: record.data.requestedData, manifest, name, signal },
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
  const isWritten = await writeProgress(place, run, {
    ...{ state: 'success', rows, bytes, finishedAt, expiresAt },
  });
  if (!isWritten) throw new ExportStopped();
  log.info('An export of logs is ready', { export: run.exportId, rows, bytes });
}

/** Throws `ExportFailure` when rules that hold now are against it. */
function requireAllowed(place: ExportPlace, record: StoredRecord<'log_export'>): void {
  const { features, settings, directory, clock, rule } = place;
  if (!features.isOn('data_exports'))
    throw new ExportFailure('The export was ended: exports are switched off (DATA_EXPORTS_ENABLED).');
  const denied = record.data.requestedData.filter((field) => settings.denied_fields.includes(field));
  if (denied.length > 0)
    throw new ExportFailure(`The export was ended: ${denied.join(', ')} may not be exported any more.`);
  requireRights(record, directory, { rule, now: clock.now() });
}

/** Why the run fails for good; undefined when it is to be tried again. */
function failureOf(error: unknown, attempt: number): string | undefined {
  if (error instanceof ExportFailure) return error.message;
  const isKnown = GatewayError.is(error);
  if (attempt < (isKnown ? attempts : attemptsAtMost)) return undefined;
  const reason = isKnown
    ? error.message
    : 'something unexpected happened, which the log of the gateway tells';
  return `The export was given up after ${attempt} attempts: ${reason} Start it again when that is mended.`;
}

/** Removes what the run has left; of a run that succeeded, all but its file. */
async function ended(
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
