import type { Clock } from '../../core/ports/clock.ts';
import { reportedLine, type ReportedRow } from './reported-row.ts';
import type { BodyRow } from '../../core/ports/request-row.ts';
import type { Redaction } from '../../core/redaction/redaction.ts';
import type { KeptRow } from './keep-rows.ts';

/** An entry of the log that was reported; `bodies` is undefined where none are kept. */
export interface ReportedEntry {
  readonly request: ReportedRow;
  readonly bodies: BodyRow | undefined;
}

/** Its rows as lines of the journal, without what `redaction` takes out of path, error message, metadata and bodies. */
export async function reportedLines(
  { request, bodies }: ReportedEntry,
  redaction: Redaction | undefined,
  clock: Pick<Clock, 'monotonic'>,
): Promise<KeptRow[]> {
  const row = redaction === undefined ? request : redactedRow(request, redaction);
  const lines: KeptRow[] = [{ table: 'requests', line: reportedLine(row) }];
  if (bodies !== undefined) {
    const kept = redaction === undefined ? bodies : await redactedBodies(bodies, redaction, clock);
    lines.push({ table: 'bodies', line: JSON.stringify(kept) });
  }
  return lines;
}

function redactedRow(row: ReportedRow, redaction: Redaction): ReportedRow {
  return {
    ...row,
    path: redaction.text(row.path ?? ''),
    error_message: redaction.text(row.error_message ?? ''),
    metadata: redaction.metadata(row.metadata ?? {}),
  };
}

async function redactedBodies(
  row: BodyRow,
  redaction: Redaction,
  clock: Pick<Clock, 'monotonic'>,
): Promise<BodyRow> {
  const request = { isEventStream: false, isTruncated: row.request_truncated };
  const response = { isEventStream: row.log_format === 'sse', isTruncated: row.response_truncated };
  return {
    ...row,
    request: await redaction.body(row.request, request, clock),
    response: await redaction.body(row.response, response, clock),
  };
}
