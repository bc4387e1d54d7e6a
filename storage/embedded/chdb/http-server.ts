import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { Engine, EngineReply } from './engine.ts';
import { EngineError, engineCodeOf, engineMessageOf, statusOfCode } from './engine-config.ts';
import { BodyReader, type EngineRequest, readEngineRequest } from './http-request.ts';
import { readRowRange, RowFiles } from './row-files.ts';

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
  const code = engineCodeOf(error);
  response.statusCode = statusOfCode(code);
  response.setHeader('X-ClickHouse-Exception-Code', String(code));
  // The rest of a refused body is not read: the connection ends with the answer.
  if (!request.complete) response.setHeader('Connection', 'close');
  response.end(`${engineMessageOf(error)}\n`);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
