import { isJsonObject } from '../../base/json.ts';
import type { Usage } from '../../dialects/usage.ts';
import { noUsage } from '../../dialects/usage.ts';

/** A request of the log, as far as it is needed to run it again. */
export interface RecordedRequest {
  readonly id: string;
  /** Acceptance, milliseconds since the epoch. */
  readonly at: number;
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly apiKeyId: string;
  readonly userId: string;
  readonly method: string;
  /** As received, without the query. */
  readonly path: string;
  readonly endpoint: string;
  readonly stream: boolean;
  /** As requested, else as answered. */
  readonly model: string;
  /** As addressed; empty when no provider was asked. */
  readonly provider: string;
  /** Empty for none. */
  readonly config: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** Lower-case names; secrets are masked. Undefined where they were not kept. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** The whole body as text; undefined where it was not kept, or not whole. */
  readonly body: string | undefined;
  /** Undefined when no tokens were counted. */
  readonly usage: Usage | undefined;
  /** Empty for a request that this gateway served. */
  readonly source: string;
  readonly status: number;
}

type Fields = Readonly<Record<string, unknown>>;

/** A row of the table `requests`, as the journal or the store has it. Undefined for anything else. */
function requestOfRow(row: Fields): RecordedRequest | undefined {
  const at = timeOf(textIn(row, 'created_at'));
  const id = textIn(row, 'id');
  if (at === undefined || id === '' || textIn(row, 'path') === '') return undefined;
  return {
    ...commonOf(row),
    ...{ id, at, method: textIn(row, 'method'), path: textIn(row, 'path'), headers: undefined },
    organisationId: textIn(row, 'organisation_id'),
    status: numberIn(row, 'status'),
    body: undefined,
  };
}

/** The request with what a row of the table `bodies` keeps of it. */
function withBody(request: RecordedRequest, row: Fields): RecordedRequest {
  const { request: kept, request_truncated: isCut, log_format: format } = row;
  const isWhole = isCut !== true && isCut !== 1 && format !== 'base64' && kept !== '';
  return {
    ...request,
    body: isWhole ? bodyText(kept) : undefined,
    headers: headersOf(textIn(row, 'request_headers')),
  };
}

/** An entry of `GET /logs` with bodies. Undefined for anything else. */
function requestOfEntry(entry: unknown): RecordedRequest | undefined {
  if (!isJsonObject(entry)) return undefined;
  const { request, metrics, response } = entry;
  if (!isJsonObject(request) || !isJsonObject(metrics)) return undefined;
  const at = timeOf(textIn(entry, 'created_at'));
  if (at === undefined) return undefined;
  const { body, truncated, headers } = request;
  return {
    ...commonOf(metrics),
    ...{ id: textIn(entry, 'id'), at, headers: isJsonObject(headers) ? textsOf(headers) : undefined },
    ...{ method: textIn(request, 'method'), path: textIn(request, 'url') },
    organisationId: textIn(entry, 'organisation_id'),
    status: isJsonObject(response) ? numberIn(response, 'status') : 0,
    body: truncated === true || entry['log_format'] === 'base64' ? undefined : bodyText(body),
  };
}

/** Whether a recorded header is a config itself. */
export function isInlineConfig([name, value]: readonly [string, string]): boolean {
  return name.endsWith('-config') && value.startsWith('{');
}

function bodyText(body: unknown): string | undefined {
  if (typeof body === 'string') return body;
  return isJsonObject(body) ? JSON.stringify(body) : undefined;
}

function commonOf(
  row: Fields,
): Omit<RecordedRequest, 'id' | 'at' | 'method' | 'path' | 'organisationId' | 'status' | 'headers' | 'body'> {
  const { metadata } = row;
  return {
    workspaceId: textIn(row, 'workspace_id'),
    apiKeyId: textIn(row, 'api_key_id'),
    userId: textIn(row, 'user_id'),
    endpoint: textIn(row, 'endpoint'),
    stream: row['stream'] === true || row['stream'] === 1,
    model: textIn(row, 'model_requested') || textIn(row, 'model'),
    provider: textIn(row, 'provider'),
    config: textIn(row, 'config'),
    metadata: isJsonObject(metadata) ? textsOf(metadata) : {},
    usage: usageOf(row),
    source: textIn(row, 'source'),
  };
}

function usageOf(row: Fields): Usage | undefined {
  const totalTokens = numberIn(row, 'total_tokens');
  if (totalTokens === 0) return undefined;
  return {
    ...noUsage,
    totalTokens,
    promptTokens: numberIn(row, 'prompt_tokens'),
    completionTokens: numberIn(row, 'completion_tokens'),
    cachedTokens: numberIn(row, 'cached_tokens'),
    cacheWriteTokens: numberIn(row, 'cache_write_tokens'),
    reasoningTokens: numberIn(row, 'reasoning_tokens'),
  };
}

function headersOf(text: string): RecordedRequest['headers'] {
  if (text === '') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? textsOf(value) : undefined;
  } catch {
    return undefined;
  }
}

function textsOf(value: Fields): Record<string, string> {
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** `2026-05-17 10:00:00.000` in UTC, or ISO 8601. */
function timeOf(text: string): number | undefined {
  const at = Date.parse(text.includes('T') ? text : `${text.replace(' ', 'T')}Z`);
  return Number.isNaN(at) ? undefined : at;
}

function textIn(row: Fields, name: string): string {
  const value = row[name];
  return typeof value === 'string' ? value : '';
}

function numberIn(row: Fields, name: string): number {
  const value = row[name];
  return typeof value === 'number' ? value : typeof value === 'string' ? Number(value) || 0 : 0;
}

/** Readers of recorded requests: from a row of the journal or the store, with its body, and from an entry of the API. */
export const recordedRequest = { ofRow: requestOfRow, withBody, ofEntry: requestOfEntry };
