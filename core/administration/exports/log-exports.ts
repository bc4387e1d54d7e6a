import { GatewayError } from '../../errors/gateway-error.ts';
import type { LogExports } from '../../ports/exports.ts';
import { requireRights } from './creator-rights.ts';
import { ExportFailure } from './export-failure.ts';
import { exportLink, readExportToken } from './export-link.ts';
import { finishedFile, savedAs } from './export-names.ts';
import type { ExportPlace } from './export-place.ts';
import { ExportWork } from './export-work.ts';

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
      return blob && { ...blob, fileName: savedAs(record, format), contentType };
    },
  };
}
