import { EngineError } from './engine-config.ts';
import { rowRangeKeys } from './row-files.ts';
import { readStatement, type Statement } from './statement.ts';
import type { IncomingMessage } from 'node:http';
import { createGunzip } from 'node:zlib';

/** Upper bounds of request bodies in memory: of one body, and of all together (bytes). */
interface BodyLimits {
  readonly maxBytes: number;
  readonly maxTotalBytes: number;
}

/** Reads request bodies, plain or gzip, within bounds that hold for the decoded bytes. */
export class BodyReader {
  readonly #limits: BodyLimits;
  #held = 0;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** Reads the body and keeps its bytes counted until `use` has settled. Throws an `EngineError` over a bound. */
  async withBody<R>(request: IncomingMessage, use: (body: Buffer) => Promise<R>): Promise<R> {
    const chunks: Buffer[] = [];
    let size = 0;
    try {
      for await (const chunk of decoded(request)) {
        size += chunk.length;
        this.#held += chunk.length;
        this.#check(size);
        chunks.push(chunk);
      }
      return await use(Buffer.concat(chunks, size));
    } finally {
      this.#held -= size;
    }
  }

  /** Counts bytes from another source as a body of that size until `use` has settled. */
  async withRoom<R>(size: number, use: () => Promise<R>): Promise<R> {
    this.#held += size;
    try {
      this.#check(size);
      return await use();
    } finally {
      this.#held -= size;
    }
  }

  #check(size: number): void {
    if (size > this.#limits.maxBytes) {
      const message = `The request body is larger than ${this.#limits.maxBytes} bytes. Send less at once.`;
      throw new EngineError(229, 'QUERY_IS_TOO_LARGE', message);
    }
    if (this.#held > this.#limits.maxTotalBytes) {
      const message = 'Request bodies take all the memory set aside for them. Try again later.';
      throw new EngineError(202, 'TOO_MANY_SIMULTANEOUS_QUERIES', message);
    }
  }
}

function decoded(request: IncomingMessage): AsyncIterable<Buffer> {
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding === 'identity') return request;
  if (encoding !== 'gzip') {
    const message = 'Only gzip is understood as content-encoding.';
    throw new EngineError(89, 'UNKNOWN_COMPRESSION_METHOD', message);
  }
  const plain = createGunzip();
  request.once('error', (error) => plain.destroy(error));
  return request.pipe(plain);
}

/** One statement with the settings of its HTTP request. */
export interface EngineRequest {
  readonly statement: Statement;
  /** Rows of an insert; empty for every other statement. */
  readonly data: Buffer;
  readonly database: string;
  readonly settings: ReadonlyMap<string, string>;
  /** Values of placeholders in the client's escaping (tab-separated escapes). */
  readonly parameters: ReadonlyMap<string, string>;
  readonly queryId: string;
  /** Format of the result when the statement names none. */
  readonly format: string;
}

/** Query string keys for the HTTP interface, which are not settings of the engine. */
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

/** Reads the query string and the decoded body of a request. Throws an `EngineError` for an invalid request. */
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

/** A body beside `?query=` is the data of an insert; any other body is the rest of the statement, as on a server. */
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
