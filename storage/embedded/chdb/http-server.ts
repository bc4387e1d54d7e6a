import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { constants } from 'node:fs';
import { realpath, type FileHandle, open } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join, dirname, basename, sep, resolve } from 'node:path';
import { gzipSync, createGunzip } from 'node:zlib';
import type { Engine, EngineReply, EngineRequest } from './engine.ts';
import { EngineError, engineErrors, readStatement, type Statement } from './statement.ts';

/** Rows that an insert reads from a file instead of its body: a path, and bytes from `from` to `end` (exclusive). */
interface RowRange {
  readonly path: string;
  readonly from: number;
  readonly end: number;
}

/** Keys of the query string that name such rows. */
const rowRangeKeys = ['weir_rows_file', 'weir_rows_from', 'weir_rows_end'] as const;

/** Reads the range in a query string; undefined when there is none. Throws an `EngineError` for an incomplete one. */
function readRowRange(search: URLSearchParams): RowRange | undefined {
  const [path, ...places] = rowRangeKeys.map((key) => search.get(key));
  const [from = NaN, end = NaN] = places.map((text) => (/^\d{1,15}$/.test(text ?? '') ? Number(text) : NaN));
  if (typeof path !== 'string' && places.every((text) => text === null)) return undefined;
  if (typeof path === 'string' && path !== '' && from < end) return { path, from, end };
  throw new EngineError(
    36,
    'BAD_ARGUMENTS',
    'Rows in a file need its path and a byte range that is not empty.',
  );
}

/** Reads rows only from files below given folders, within the bounds of request bodies. */
export class RowFiles {
  readonly #folders: readonly string[];
  readonly #bodies: BodyReader;

  /** The folders may be created later. */
  constructor(folders: readonly string[], bodies: BodyReader) {
    this.#folders = folders;
    this.#bodies = bodies;
  }

  /**
   * Reads the whole range and keeps its bytes counted until `use` has settled. Throws an `EngineError`: 497 for a path
   * outside the folders, 107 for a file that is missing or too short, the error of a body beyond a bound.
   */
  async withRows<R>(range: RowRange, use: (rows: Buffer) => Promise<R>): Promise<R> {
    const path = await this.#permitted(range.path);
    return this.#bodies.withRoom(range.end - range.from, async () => use(await readRange(path, range)));
  }

  /** Links are resolved before the check, so that none leads out of a folder. */
  async #permitted(named: string): Promise<string> {
    const folders = await Promise.all(this.#folders.map(realPath));
    const path = join(await realPath(dirname(named)), basename(named));
    if (folders.some((folder) => path.startsWith(folder + sep))) return path;
    throw new EngineError(497, 'ACCESS_DENIED', 'Rows are read from the folders of the journal only.');
  }
}

/** The path itself when it does not exist yet. */
function realPath(path: string): Promise<string> {
  return realpath(path).catch(() => resolve(path));
}

async function readRange(path: string, { from, end }: RowRange): Promise<Buffer> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  } catch {
    throw gone();
  }
  try {
    const status = await file.stat();
    if (!status.isFile() || status.size < end) throw gone();
    const rows = Buffer.allocUnsafeSlow(end - from);
    for (let length = 0; length < rows.length;) {
      const { bytesRead } = await file.read(rows, length, rows.length - length, from + length);
      if (bytesRead === 0) throw gone();
      length += bytesRead;
    }
    return rows;
  } finally {
    await file.close();
  }
}

function gone(): EngineError {
  return new EngineError(107, 'FILE_DOESNT_EXIST', 'The file of rows is missing or too short.');
}

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
function readEngineRequest(search: URLSearchParams, body: Buffer, queryId: string): EngineRequest {
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

/** Credentials and dependencies of the server. */
interface EngineServerOptions {
  readonly engine: Pick<Engine, 'run'>;
  readonly username: string;
  readonly password: string;
  /** Folders whose files inserts may name instead of sending rows; every other path is refused. Default: none. */
  readonly rowFolders?: readonly string[];
}

const bodyLimits = { maxBytes: 64 * 1024 * 1024, maxTotalBytes: 256 * 1024 * 1024 };
const maxHeaderBytes = 1024 * 1024;
const worthCompressing = 1024;

/**
 * The part of ClickHouse's HTTP interface that its Node client uses: ping, statements with typed parameters and
 * settings in the query string, raw inserts, and errors as status plus `X-ClickHouse-Exception-Code`.
 */
export function createEngineServer(options: EngineServerOptions): Server {
  const bodies = new BodyReader(bodyLimits);
  const rowFiles = new RowFiles(options.rowFolders ?? [], bodies);
  const expected = digest(
    `Basic ${Buffer.from(`${options.username}:${options.password}`).toString('base64')}`,
  );
  const server = createServer(
    {
      maxHeaderSize: maxHeaderBytes,
      keepAliveTimeout: 30_000,
      headersTimeout: 15_000,
      requestTimeout: 120_000,
    },
    (request, response) => {
      const queryId = randomUUID();
      answer(request, response, queryId).catch((error: unknown) => refuse(request, response, error));
    },
  );
  return server;

  async function answer(
    request: IncomingMessage,
    response: ServerResponse,
    fallbackId: string,
  ): Promise<void> {
    if (!timingSafeEqual(digest(credentialsOf(request)), expected)) {
      response.setHeader('WWW-Authenticate', 'Basic realm="embedded engine"');
      throw new EngineError(516, 'AUTHENTICATION_FAILED', 'Authentication failed: wrong name or password.');
    }
    const url = new URL(request.url ?? '/', 'http://engine');
    if (url.pathname === '/ping') return void response.end('Ok.\n');
    const queryId = url.searchParams.get('query_id') ?? fallbackId;
    if (/^[\x20-\x7e]{1,200}$/.test(queryId)) response.setHeader('X-ClickHouse-Query-Id', queryId);
    const started = process.hrtime.bigint();
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    await bodies.withBody(request, async (body) => {
      const reply = await run(readEngineRequest(url.searchParams, body, queryId), url, gone.signal);
      const elapsed = String(process.hrtime.bigint() - started);
      response.setHeader('X-ClickHouse-Summary', JSON.stringify(summaryOf(reply, elapsed)));
      sendBytes(response, reply.bytes, wantsGzip(request, url));
    });
  }

  async function run(engineRequest: EngineRequest, url: URL, signal: AbortSignal): Promise<EngineReply> {
    const range = readRowRange(url.searchParams);
    if (range === undefined) return options.engine.run(engineRequest, signal);
    if (engineRequest.statement.insert === undefined || engineRequest.data.length > 0) {
      throw new EngineError(36, 'BAD_ARGUMENTS', 'Rows in a file need a raw insert without a body.');
    }
    return rowFiles.withRows(range, (data) => options.engine.run({ ...engineRequest, data }, signal));
  }
}

/** As an `Authorization` header; with TLS options the client sends ClickHouse's own headers. */
function credentialsOf({ headers }: IncomingMessage): string {
  const user = headers['x-clickhouse-user'];
  if (user === undefined) return headers.authorization ?? '';
  const pair = `${String(user)}:${String(headers['x-clickhouse-key'] ?? '')}`;
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

function summaryOf(reply: EngineReply, elapsed: string): Record<string, string> {
  return {
    read_rows: String(reply.readRows),
    read_bytes: String(reply.readBytes),
    written_rows: String(reply.writtenRows),
    written_bytes: String(reply.writtenBytes),
    total_rows_to_read: '0',
    result_rows: '0',
    result_bytes: String(reply.bytes.length),
    elapsed_ns: elapsed,
  };
}

function wantsGzip(request: IncomingMessage, url: URL): boolean {
  const accepted = String(request.headers['accept-encoding'] ?? '');
  return url.searchParams.get('enable_http_compression') === '1' && accepted.includes('gzip');
}

function sendBytes(response: ServerResponse, bytes: Buffer, compress: boolean): void {
  response.setHeader('X-ClickHouse-Timezone', 'UTC');
  if (!compress || bytes.length < worthCompressing) return void response.end(bytes);
  response.setHeader('Content-Encoding', 'gzip');
  response.end(gzipSync(bytes, { level: 1 }));
}

function refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  if (response.destroyed || response.headersSent) return void response.destroy();
  const code = engineErrors.code(error);
  response.statusCode = statusOfCode(code);
  response.setHeader('X-ClickHouse-Exception-Code', String(code));
  // The rest of a refused body is not read: the connection ends with the answer.
  if (!request.complete) response.setHeader('Connection', 'close');
  response.end(`${engineErrors.message(error)}\n`);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

const statusByCode: Readonly<Record<number, number>> = {
  46: 404,
  47: 404,
  50: 404,
  56: 404,
  60: 404,
  81: 404,
  115: 404,
  48: 501,
  159: 408,
  160: 408,
  194: 401,
  202: 503,
  229: 413,
  439: 503,
  497: 403,
  516: 401,
};
const badRequest = new Set([
  6, 25, 26, 27, 32, 33, 36, 38, 41, 42, 43, 44, 53, 62, 69, 70, 72, 73, 117, 321, 349, 376, 407, 456, 457,
  467,
]);

/** HTTP status of a server for an error number. */
export function statusOfCode(code: number): number {
  return statusByCode[code] ?? (badRequest.has(code) ? 400 : 500);
}
