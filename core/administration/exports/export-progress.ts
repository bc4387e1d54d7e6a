import type { Clock } from '../../ports/clock.ts';
import type { LogExportData } from '../../ports/record-kinds.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';

/** One run of an export: what its jobs are told. */
export interface ExportRun {
  readonly organisationId: string;
  readonly exportId: string;
  readonly run: number;
}

/** Thrown where the work of a run ends because somebody ended it. */
export class ExportStopped extends Error {
  constructor() {
    super('The export was stopped.');
    this.name = 'ExportStopped';
  }
}

/** The record of an export, as it is now. */
export function findExport(
  resources: Pick<Resources, 'read'>,
  { organisationId, exportId }: Pick<ExportRun, 'organisationId' | 'exportId'>,
): Promise<StoredRecord<'log_export'> | undefined> {
  return resources.read(({ records }) => records.find('log_export', { organisationId }, exportId));
}

/** Whether the run is to go on. */
export function isUnderWay(record: StoredRecord<'log_export'> | undefined, { run }: ExportRun): boolean {
  return record?.data.state === 'in_progress' && record.data.run === run;
}

/** Writes what has become of a run. False when it is not under way any more: nothing is written then. */
export function writeProgress(
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
