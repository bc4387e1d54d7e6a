import { GatewayError, type Scope } from '../../core/pipeline/plugin.ts';
import type { Visibility } from '../../core/ports/analytics.ts';
import type { ExportField } from '../../core/ports/export-fields.ts';
import type { LogExports } from '../../core/ports/exports.ts';
import type { LogExportData } from '../../core/ports/record-kinds.ts';
import type { ExportFilters } from './export-body.ts';
import { plainObject } from './plain-json.ts';
import { refusedBody } from './refused-body.ts';
import { readFilter } from './request-filter.ts';

/** Which rows an export is about. */
export type ExportPlan = Pick<LogExportData, 'filters' | 'from' | 'to' | 'filter' | 'skip' | 'limit'>;

/** The exports of this gateway. Throws `not_supported` where nothing is administered. */
export function exportsOf({ exports }: Pick<Scope, 'exports'>): LogExports {
  if (exports !== undefined) return exports;
  throw new GatewayError(
    'not_supported',
    'Exports are records of the store of what is administered, and storage.resources.url is "none:". Name a store.',
  );
}

/** What the filters of a body mean. Throws `invalid_request` with every mistake. */
export function planOf(filters: ExportFilters, now: number, { maxRows }: LogExports['rules']): ExportPlan {
  const { page_size: size, current_page: page, ...values } = filters;
  if (page !== undefined && size === undefined)
    throw refusedBody([{ path: '/filters/current_page', message: 'needs "page_size" beside it' }]);
  const { window, filter } = readFilter(values, now);
  return {
    filters: plainObject(filters, '/filters'),
    ...{ from: window.from, to: window.to, filter: plainObject({ ...filter }, '/filters') },
    ...{ skip: (page ?? 0) * (size ?? 0), limit: Math.min(size ?? maxRows, maxRows) },
  };
}

/** Throws 403 `feature_disabled`, naming them, when fields are asked for that the operator lets nobody export. */
export function requireAllowedFields(
  requested: readonly ExportField[],
  { deniedFields }: LogExports['rules'],
): void {
  const denied = requested.filter((field) => deniedFields.includes(field));
  if (denied.length === 0) return;
  throw new GatewayError(
    'feature_disabled',
    `Nobody may export ${denied.map((field) => `"${field}"`).join(', ')} here (exports.denied_fields). Leave that out of requested_data.`,
    { param: '/requested_data' },
  );
}

/**
 * How many rows the plan is about now. Throws `invalid_request` when they are more than one file takes and nobody has
 * said which of them.
 */
export async function countRows(
  { analytics }: Pick<Scope, 'analytics'>,
  { from, to, filter, filters, skip, limit }: ExportPlan,
  visibility: Visibility,
): Promise<number> {
  const matching = await analytics.countLogs({
    ...{ window: { from, to }, visibility, filter },
  });
  if (matching > limit && filters['page_size'] === undefined) {
    const message = `match ${matching} requests, and one file takes ${limit} (exports.max_rows); ask for a shorter time, or for pages with "page_size"`;
    throw refusedBody([{ path: '/filters', message }]);
  }
  return Math.max(0, Math.min(limit, matching - skip));
}
