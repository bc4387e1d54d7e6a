import { randomUUID } from 'node:crypto';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { rowTime } from '../../../core/base/row-time.ts';
import type { BodyRow, RequestRow } from '../../../core/ports/request-row.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import type { Redaction } from '../../../core/redaction/redaction.ts';
import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { Journal, JournalTable } from '../../../core/ports/journal.ts';
import { noUsage, type Usage } from '../../../core/dialects/usage.ts';
import { clip } from '../../../core/base/bytes.ts';

/**
 * A row of a reported request, which did not pass through the gateway: its known columns. Reporter, acceptance time and
 * source are always known.
 */
export type ReportedRow = Partial<RequestRow> & Pick<RequestRow, keyof Acceptance | 'source'>;

/** Columns from the reporter's key and the time of acceptance. */
type Acceptance = Pick<
  RequestRow,
  'id' | 'created_at' | 'organisation_id' | 'workspace_id' | 'api_key_id' | 'user_id'
>;

/**
 * First columns of a row reported by this key at `now` (milliseconds since the epoch); `id` is a UUID, by default a new
 * one. The time of a row is that of its acceptance, not of the report: tables are partitioned by it.
 */
export function acceptance(key: KeyRecord, now: number, id: string = randomUUID()): Acceptance {
  return {
    id,
    created_at: rowTime(now),
    organisation_id: key.organisationId,
    workspace_id: key.workspaceId,
    api_key_id: key.id,
    user_id: key.userId,
  };
}

/** Maximum lengths in UTF-16 units of columns that differ from the default of 255. */
const longest: Partial<Record<keyof RequestRow, number>> = {
  method: 32,
  path: 2048,
  error_message: 1024,
  model_requested: 512,
  model: 512,
  tries: 65_536,
  decision: 65_536,
  guardrails: 65_536,
  user_agent: 256,
  finish_reason: 128,
};

/**
 * The row as a line of the journal, for the table `requests`. Empty members (empty, zero, false) are left out, and the
 * store reads them as such; texts are cut to the length of their columns, as for proxied requests. Numbers that are not
 * finite, or negative where that is impossible, are left out.
 */
export function reportedLine(row: ReportedRow): string {
  const members: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(row)) {
    const kept = keptValue(name as keyof RequestRow, value);
    if (kept !== undefined) members[name] = kept;
  }
  return JSON.stringify(members);
}

function keptValue(name: keyof RequestRow, value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return value === '' ? undefined : clip(value, longest[name] ?? 255);
    case 'number':
      return Number.isFinite(value) && (value > 0 || name === 'retries') && value !== 0 ? value : undefined;
    case 'boolean':
      return value || undefined;
    case 'object':
      return value !== null && Object.keys(value).length > 0 ? value : undefined;
    default:
      return undefined;
  }
}

/** A reported entry of the log; `bodies` is undefined when none are stored. */
interface ReportedEntry {
  readonly request: ReportedRow;
  readonly bodies: BodyRow | undefined;
}

/** Rows of the entry as lines of the journal, with path, error message, metadata and bodies redacted. */
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

/** A row on its way to the analytics store. */
export interface KeptRow {
  readonly table: JournalTable;
  readonly line: string;
}

/**
 * Appends rows to the journal durably; `owner` is their workspace. Throws `store_unavailable` when the journal has no
 * room for all of them.
 */
export async function keepRows(journal: Journal, rows: readonly KeptRow[], owner: string): Promise<void> {
  const tables = [...new Set(rows.map(({ table }) => table))];
  const shed = (): number => tables.reduce((sum, table) => sum + journal.state(table).shed, 0);
  const before = shed();
  for (const { table, line } of rows) journal.append(table, line, owner);
  await journal.flush();
  if (shed() === before) return;
  throw new GatewayError(
    'store_unavailable',
    'The journal has no room, and not all of it was kept. Try again when the analytics store takes rows.',
    { headers: ['retry-after', '5'] },
  );
}

/** Usage of a reported request, as columns of its row. */
export function usageColumns(usage: Usage = noUsage) {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    cached_tokens: usage.cachedTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
    input_audio_tokens: usage.inputAudioTokens,
    output_audio_tokens: usage.outputAudioTokens,
  };
}
