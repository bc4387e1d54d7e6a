// A part of the composition root: logs as files.
import { fileFormats } from '../adapters/file-formats/index.ts';
import type { ExportPlace } from '../core/administration/exports/export-place.ts';
import { createLogExports } from '../core/administration/exports/log-exports.ts';
import type { LogExports } from '../core/ports/exports.ts';
import { dataVisibility } from '../plugins/management/shared/data-visibility.ts';

/** Defines the jobs of exports, and makes what routes need of them. */
export function openExports(place: Omit<ExportPlace, 'formats' | 'rule'>): LogExports {
  return createLogExports({ ...place, formats: fileFormats, rule: dataVisibility });
}
