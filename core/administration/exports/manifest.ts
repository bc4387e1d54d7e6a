import { Type } from 'typebox';
import type { ExportFormat } from '../../ports/request-row.ts';
import { strict } from '../../config/describe-schema.ts';
import type { StoredRecord } from '../../ports/records.ts';

/** Ends an export for good: a retry would not help. The message is shown to people. */
export class ExportFailure extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ExportFailure';
  }
}

/** One run of an export: the data of its jobs. */
export interface ExportRun {
  readonly organisationId: string;
  readonly exportId: string;
  readonly run: number;
}

/** Thrown where the work on a run stops because the run was ended. */
export class ExportStopped extends Error {
  constructor() {
    super('The export was stopped.');
    this.name = 'ExportStopped';
  }
}

export const Count = Type.Integer({ minimum: 0 });

export const Part = Type.Object(
  {
    name: Type.String(),
    bytes: Count,
    /** Of the bytes, in hexadecimal. */
    sha256: Type.String(),
    /** Of the part's notes, stored in a blob of this name; absent for none. */
    notes: Type.Optional(Type.String()),
  },
  strict,
);

/** Fields of an export that name its files. */
export type NamedExport = Pick<StoredRecord<'log_export'>, 'organisationId' | 'id'>;

/** Folder of everything stored for an export. */
export function exportFolder({ organisationId, id }: NamedExport): string {
  return `${organisationId}/${id}`;
}

/** Finished file of a run. */
export function finishedFile(one: NamedExport, run: number, format: ExportFormat): string {
  return `${exportFolder(one)}/${run}/${downloadName(one, format)}`;
}

/** File name of the download. */
export function downloadName({ id }: Pick<NamedExport, 'id'>, format: ExportFormat): string {
  return `logs-${id}.${format}`;
}
