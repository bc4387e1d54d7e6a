import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import type { Transport as ClientTransport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { TrustedHosts } from '../../../core/base/host-rules.ts';
import { type Clock, systemClock } from '../../../core/ports/clock.ts';
import type { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { Log } from '../../../core/ports/log.ts';
import type { McpCall, McpHead, McpRequest, McpUpstream } from '../../../core/ports/mcp.ts';
import { testTransport } from '../../transport/transport.test-support.ts';
import { keepingLog } from '../mcp.test-support.ts';
import { createUpstream } from '../create-mcp-clients.ts';
import type { OpenapiTarget } from './catalogue-source.ts';

/** A request that the API received. */
interface Arrived {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Answers a request; returns false to leave it to the library. */
type Script = (arrived: Arrived, response: ServerResponse) => boolean;

/** An HTTP API with its document at `/openapi.yaml`, on loopback. */
export interface Api {
  readonly origin: string;
  readonly arrived: Arrived[];
  /** The calls that arrived, without those for the document. */
  calls(): readonly Arrived[];
}

/** Starts the library. `script` comes first; `document` stands for the one of `libraryDocument`. */
export async function startApi(
  t: TestContext,
  { script, document }: { readonly script?: Script; readonly document?: (origin: string) => string } = {},
): Promise<Api> {
  const arrived: Arrived[] = [];
  let origin = '';
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => void chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const one = { method, url, headers, body: Buffer.concat(chunks).toString() };
      arrived.push(one);
      if (script?.(one, response) === true) return;
      if (url.startsWith('/openapi.')) {
        response.writeHead(200, { 'content-type': 'application/yaml' });
        response.end((document ?? libraryDocument)(origin));
      } else serveLibrary(one, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const isDocument = ({ url }: Arrived): boolean => url.startsWith('/openapi.');
  return { origin, arrived, calls: () => arrived.filter((one) => !isDocument(one)) };
}

function serveLibrary({ method, url }: Arrived, response: ServerResponse): void {
  const { pathname } = new URL(url, 'http://library');
  const json = (status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  if (method === 'HEAD') response.writeHead(200, { etag: '"b7"', 'content-type': 'application/json' }).end();
  else if (method === 'DELETE') response.writeHead(204).end();
  else if (pathname === '/v1/books' && method === 'GET') json(200, [{ id: 'b1', title: 'Dune' }]);
  else if (pathname === '/v1/books') response.writeHead(201, { location: '/v1/books/b2' }).end();
  else if (pathname.endsWith('/cover'))
    response.writeHead(200, { 'content-type': 'image/png' }).end(Buffer.from([0x89, 0x50, 0x4e, 0x47]));
  else if (pathname.endsWith('/pages'))
    response.writeHead(200, { 'content-type': 'application/pdf' }).end(Buffer.from('%PDF-1.7'));
  else if (pathname.endsWith('/blurb'))
    response
      .writeHead(200, { 'content-type': 'text/plain; charset=iso-8859-1' })
      .end(Buffer.from([0x63, 0x61, 0x66, 0xe9]));
  else if (pathname === '/v1/books/b404') json(404, { error: 'There is no such book.' });
  else if (pathname.startsWith('/v1/books/')) {
    response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' });
    response.end('{"id":"b1","title":"Dune","copies":9007199254740993}');
  } else json(200, { received: url });
}

/** The document of the library: OpenAPI 3.0, YAML, with references, an anchor, and a schema that holds itself. */
export function libraryDocument(origin: string): string {
  return `
openapi: 3.0.3
info: { title: Library, version: 2.1.0, description: Books and their readers. }
servers:
  - url: '${origin}/{version}'
    variables: { version: { default: v1, enum: [v1, v2] } }
paths:
  /books:
    parameters:
      - { name: X-Branch, in: header, schema: { type: string, maxLength: 20 } }
    get:
      operationId: listBooks
      summary: Lists books
      description: Lists books, the newest first.
      parameters:
        - $ref: '#/components/parameters/Limit'
        - { name: tag, in: query, schema: { type: array, items: { type: string } } }
        - { name: fields, in: query, explode: false, schema: { type: array, items: { type: string } } }
        - name: filter
          in: query
          style: deepObject
          schema: { type: object, properties: { author: { type: string }, year: { type: integer } } }
        - name: range
          in: query
          schema: { type: object, properties: { from: { type: integer }, to: { type: integer } } }
        - { name: page.cursor, in: query, schema: { type: string, nullable: true } }
      responses: &fine { '200': { description: Fine. } }
    post:
      operationId: addBook
      summary: Adds a book
      requestBody:
        required: true
        content:
          application/json: { schema: { $ref: '#/components/schemas/Book' } }
      responses: *fine
  /books/{bookId}:
    parameters:
      - { name: bookId, in: path, required: true, description: Number of the book., schema: { type: string } }
    get: { operationId: readBook, summary: Reads a book, responses: *fine }
    head: { operationId: probeBook, responses: *fine }
    put:
      operationId: replaceBook
      requestBody:
        content:
          application/json: { schema: { $ref: '#/components/schemas/Book' } }
      responses: *fine
    delete: { operationId: 'delete book', deprecated: true, summary: Removes a book, responses: *fine }
  /books/{bookId}/cover:
    get: { operationId: readCover, parameters: [&book { name: bookId, in: path, required: true, schema: { type: string } }], responses: *fine }
  /books/{bookId}/pages:
    get: { operationId: readPages, parameters: [*book], responses: *fine }
  /books/{bookId}/blurb:
    get: { operationId: readBlurb, parameters: [*book], responses: *fine }
  /readers/{reader}/loans/{loan}:
    patch:
      parameters:
        - { name: reader, in: path, required: true, schema: { type: integer } }
        - { name: loan, in: path, required: true, schema: { type: string, format: uuid } }
        - { name: Authorization, in: header, required: true, schema: { type: string } }
        - { name: session, in: cookie, required: true, schema: { type: string } }
        - { name: X-Library-Key, in: header, required: true, schema: { type: string } }
        - { name: Transfer-Encoding, in: header, schema: { type: string } }
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              properties:
                until: { type: string, format: date }
                notes: { type: array, items: { type: string } }
                fine: { type: object, properties: { cents: { type: integer } } }
      responses: *fine
components:
  parameters:
    Limit: { name: limit, in: query, schema: { type: integer, minimum: 0, exclusiveMinimum: true, maximum: 100 } }
  securitySchemes:
    key: { type: apiKey, in: header, name: X-Library-Key }
  schemas:
    Book:
      type: object
      required: [id, title]
      properties:
        id: { type: string, readOnly: true }
        title: { type: string, example: Dune }
        pages: { type: integer, format: int32, nullable: true }
        isbn: { type: string, pattern: '^(97(8|9))?\\d{9}(\\d|X)$' }
        shelf: { $ref: '#/components/schemas/Shelf' }
    Shelf:
      type: object
      properties:
        name: { type: string }
        inside: { $ref: '#/components/schemas/Shelf' }
`;
}

/** What the library's server was given and says. */
interface Bench {
  readonly upstream: McpUpstream;
  readonly log: ReturnType<typeof keepingLog>;
}

/** The upstream of a target, closed with the test. */
export function upstreamOf(
  t: TestContext,
  target: Partial<OpenapiTarget> & Pick<OpenapiTarget, 'document'>,
  {
    clock = systemClock,
    trusted = [],
  }: { readonly clock?: Clock; readonly trusted?: readonly string[] } = {},
): Bench {
  const log: Log & ReturnType<typeof keepingLog> = keepingLog();
  const transport = testTransport();
  const whole: OpenapiTarget = {
    type: 'openapi',
    name: 'library',
    headers: [],
    maxTools: 1000,
    maxAnswerBytes: 1_000_000,
    timeoutMs: 10_000,
    ...target,
  };
  const upstream = createUpstream(whole, { transport, trusted: new TrustedHosts(trusted), log, clock });
  t.after(async () => {
    await upstream.close();
    await transport.close();
  });
  return { upstream, log };
}

/** A whole answer of an upstream. */
interface Told {
  readonly head: McpHead | undefined;
  readonly text: string;
  readonly error: GatewayError | undefined;
}

/** Sends one body. `onCall` gets the call at once. */
export function sendTo(
  upstream: McpUpstream,
  body: string | null,
  request: Partial<McpRequest> = {},
  onCall: (call: McpCall) => void = () => undefined,
): Promise<Told> {
  return new Promise((resolve) => {
    let head: McpHead | undefined;
    const chunks: Buffer[] = [];
    const finish = (error: GatewayError | undefined): void =>
      resolve({ head, text: Buffer.concat(chunks).toString(), error });
    const call = upstream.send(
      {
        method: 'POST',
        body: body === null ? null : Buffer.from(body),
        sessionId: undefined,
        protocolVersion: undefined,
        lastEventId: undefined,
        headers: [],
        headTimeoutMs: 10_000,
        idleTimeoutMs: 10_000,
        ...request,
      },
      {
        head: (told) => void (head = told),
        data: (chunk) => chunks.push(chunk) > 0,
        end: () => finish(undefined),
        fail: finish,
      },
    );
    onCall(call);
  });
}

/** Result of a tool as tests read it. */
export interface Called {
  readonly content: readonly {
    readonly type: string;
    readonly text?: string;
    readonly [name: string]: unknown;
  }[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

/** Calls a tool and reads its result. */
export async function callTool(
  upstream: McpUpstream,
  name: string,
  args: unknown,
  request: Partial<McpRequest> = {},
): Promise<Called> {
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } };
  const { text, error } = await sendTo(upstream, JSON.stringify(message), request);
  if (error !== undefined) throw error;
  const answer = JSON.parse(text) as { readonly result?: Called };
  if (answer.result === undefined) throw new Error(text);
  return answer.result;
}

/** A client's transport of the protocol's own library, over an upstream. */
export function clientTransport(upstream: McpUpstream): ClientTransport {
  const transport: ClientTransport = {
    start: () => Promise.resolve(),
    close: () => Promise.resolve(transport.onclose?.()),
    async send(message) {
      const { text, error } = await sendTo(upstream, JSON.stringify(message));
      if (error !== undefined) throw error;
      if (text !== '') transport.onmessage?.(JSON.parse(text) as JSONRPCMessage);
    },
  };
  return transport;
}
