import { EngineError } from './engine-error.ts';
import { rowRangeKeys } from './row-files.ts';
import { readStatement, type Statement } from './statement.ts';

/** One statement with everything that the HTTP request says about how to run it. */
export interface EngineRequest {
  readonly statement: Statement;
  /** Rows of an insert; empty for every other statement. */
  readonly data: Buffer;
  readonly database: string;
  readonly settings: ReadonlyMap<string, string>;
  /** Values of placeholders as the client escaped them (tab-separated escapes). */
  readonly parameters: ReadonlyMap<string, string>;
  readonly queryId: string;
  /** Format of the result where the statement names none. */
  readonly format: string;
}

/** Keys of the query string that steer the HTTP interface and are no settings of the engine. */
const reserved: ReadonlySet<string> = new Set([
  ...rowRangeKeys,
  'query',
  'database',
  'query_id',
  'default_format',
  'session_id',
  'session_timeout',
  'session_check',
  'user',
  'password',
  'role',
  'quota_key',
  'wait_end_of_query',
  'buffer_size',
  'send_progress_in_http_headers',
  'http_headers_progress_interval_ms',
  'enable_http_compression',
  'http_zlib_compression_level',
  'compress',
  'decompress',
  'log_comment',
]);

const plainName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Reads the query string and the decoded body of a request. Throws an `EngineError` for what cannot be run. */
export function readEngineRequest(search: URLSearchParams, body: Buffer, queryId: string): EngineRequest {
  const settings = new Map<string, string>();
  const parameters = new Map<string, string>();
  for (const [key, value] of search) {
    if (reserved.has(key)) continue;
    const isParameter = key.startsWith('param_');
    const name = isParameter ? key.slice('param_'.length) : key;
    if (!plainName.test(name)) {
      throw new EngineError(115, 'UNKNOWN_SETTING', 'A key of the query string is no name of a setting.');
    }
    (isParameter ? parameters : settings).set(name, value);
  }
  const { statement, data } = splitBody(search.get('query'), body);
  for (const name of statement.placeholders) {
    if (!parameters.has(name)) {
      throw new EngineError(456, 'UNKNOWN_QUERY_PARAMETER', `Substitution \`${name}\` is not set.`);
    }
  }
  return {
    statement,
    data,
    database: search.get('database') ?? 'default',
    settings,
    parameters,
    queryId,
    format: formatOf(search.get('default_format')),
  };
}

/** A body beside `?query=` is the data of an insert; anything else is the rest of the statement, as on a server. */
function splitBody(query: string | null, body: Buffer): { statement: Statement; data: Buffer } {
  const noData = Buffer.alloc(0);
  if (query === null) return { statement: readStatement(body.toString()), data: noData };
  const statement = readStatement(query);
  if (statement.insert !== undefined) return { statement, data: body };
  if (body.length === 0) return { statement, data: noData };
  return { statement: readStatement(`${query}\n${body.toString()}`), data: noData };
}

function formatOf(format: string | null): string {
  if (format === null) return 'TabSeparated';
  if (!plainName.test(format)) throw new EngineError(73, 'UNKNOWN_FORMAT', 'Unknown format.');
  return format;
}
