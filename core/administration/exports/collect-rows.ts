import { setImmediate as nextTurn } from 'node:timers/promises';
import { exportVisibility } from './export-visibility.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { Analytics, LogCursor, LogQuery, LogRecord } from '../../ports/analytics.ts';
import type { Blobs, FileFormat } from '../../ports/exports.ts';
import type { Clock } from '../../ports/clock.ts';
import type { StoredRecord } from '../../ports/records.ts';
import { writeManifest, type Manifest } from './manifest.ts';
import { PageSize } from './page-size.ts';
import { PartBuffer } from './part-buffer.ts';

/** A part of about this length is stored at a time; a kill loses one at the most. */
const partBytes = 8 * 1024 * 1024;
/** A page that the store cannot make is asked for so often, each time with half as many rows. */
const pageTries = 4;
/** Of a row without its bodies, about. */
const rowBytes = 500;

/** What rows are collected with. */
interface Collecting {
  readonly record: StoredRecord<'log_export'>;
  readonly analytics: Pick<Analytics, 'logs'>;
  readonly blobs: Blobs;
  readonly format: FileFormat;
  readonly clock: Clock;
  /** Where parts and the manifest go. */
  readonly folder: string;
  /** After so long it stops behind the page that it is at. */
  readonly sliceMs: number;
  /** Asked before every page: throws when the work is to end. */
  check(): Promise<void>;
}

/**
 * Reads on behind the last stored part, page by page, and stores what comes in parts, each with the manifest that names
 * it. Resolves to the manifest when no row is left or the time is over.
 */
export async function collectRows(collecting: Collecting, from: Manifest): Promise<Manifest> {
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
  /** A store that comes and goes must not have us begin at the same place again and again. */
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
    // Requests that are served by this process come first.
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
    // What lies before the cursor need not be looked at.
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
      if (attempt === pageTries || !GatewayError.is(error)) throw error;
      size.halve();
    }
  }
}

function needsBodies({ data: { requestedData } }: StoredRecord<'log_export'>): boolean {
  return requestedData.includes('request') || requestedData.includes('response');
}

/** About what rows are as texts: their bodies, and what every row has. */
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
