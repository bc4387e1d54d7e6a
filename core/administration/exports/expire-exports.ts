import { organisationsOf } from '../jobs/expiry-jobs.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';
import { exportFolder } from './manifest.ts';
import type { ExportPlace } from './export-place.ts';

const pageSize = 100;
/** A run writes what it has done every few seconds, unless it puts a long file together. */
const silentMs = 1_800_000;

/**
 * Removes the files whose time is over, and gives runs that nobody is at to `resume`. One export that cannot be served
 * keeps nobody from the others; the first error is thrown at the end.
 */
export async function expireExports(
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

/** The record stays: it says what was exported, and by whom. */
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
