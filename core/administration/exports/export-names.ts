import type { ExportFormat } from '../../ports/export-fields.ts';
import type { StoredRecord } from '../../ports/records.ts';

/** The export as its files are named after it. */
type NamedExport = Pick<StoredRecord<'log_export'>, 'organisationId' | 'id'>;

/** Everything that is stored of an export. */
export function exportFolder({ organisationId, id }: NamedExport): string {
  return `${organisationId}/${id}`;
}

/** Pieces of a run that is not finished, and the list of them. */
export function partsFolder(one: NamedExport, run: number): string {
  return `${exportFolder(one)}/parts-${run}`;
}

/** The finished file of a run. */
export function finishedFile(one: NamedExport, run: number, format: ExportFormat): string {
  return `${exportFolder(one)}/${run}/${savedAs(one, format)}`;
}

/** Under which people save it. */
export function savedAs({ id }: Pick<NamedExport, 'id'>, format: ExportFormat): string {
  return `logs-${id}.${format}`;
}
