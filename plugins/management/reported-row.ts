import { randomUUID } from 'node:crypto';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';

/**
 * A row of a request that passed by somewhere else and was reported: what is known of it. Who reports it, when it was
 * accepted and where it comes from is always known.
 */
export type ReportedRow = Partial<RequestRow> & Pick<RequestRow, keyof Acceptance | 'source'>;

/** What is known of a row because of who reported it, and when. */
export type Acceptance = Pick<
  RequestRow,
  'id' | 'created_at' | 'organisation_id' | 'workspace_id' | 'api_key_id' | 'user_id'
>;

/**
 * The beginning of a row that this key reports at this time (milliseconds since the epoch); `id` is a UUID, by default a
 * new one. A row's own time is that of its acceptance, whatever the report says: tables are partitioned by it.
 */
export function acceptance(key: KeyRecord, now: number, id: string = randomUUID()): Acceptance {
  return {
    id,
    created_at: new Date(now).toISOString().replace('T', ' ').slice(0, -1),
    organisation_id: key.organisationId,
    workspace_id: key.workspaceId,
    api_key_id: key.id,
    user_id: key.userId,
  };
}

/** Columns that take less than the 255 UTF-16 units of the others, or more. */
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
 * The row as a line of the journal, for the table `requests`. Members that say nothing (empty, zero, false) are left out,
 * which the store reads as exactly that; texts are cut at what their columns hold for requests of the gateway's own.
 * Numbers that are none, or negative where nothing can be, are left out.
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
      return value === '' ? undefined : clipText(value, longest[name] ?? 255);
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

/** At most `length` UTF-16 units, and no half of a surrogate pair at the end. */
export function clipText(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}
