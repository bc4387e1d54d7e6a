/** A server over Streamable HTTP that passes everything on to an `McpUpstream`, for clients made with the SDK. */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { McpCall, McpHandler, McpRequest, McpUpstream } from '../../core/ports/mcp.ts';

/** A client with its transport. */
interface Connected {
  readonly client: Client;
  readonly transport: StreamableHTTPClientTransport;
  /** Text of the result of a tool. */
  call(name: string, args?: Record<string, unknown>): Promise<string>;
}

interface McpRelay {
  readonly url: string;
  /** A client that has shaken hands; closed after the test. */
  connect(capabilities?: ClientCapabilities, headers?: Record<string, string>): Promise<Connected>;
}

/** Starts one, which ends with the test. */
export async function startMcpRelay(
  t: TestContext,
  upstream: McpUpstream,
  timeouts: { headTimeoutMs?: number; idleTimeoutMs?: number } = {},
): Promise<McpRelay> {
  const { headTimeoutMs = 20_000, idleTimeoutMs = 0 } = timeouts;
  const server = http.createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const { headers, method } = request;
      const authorization = one(headers.authorization);
      const sent: McpRequest = {
        method: method as McpRequest['method'],
        body,
        sessionId: one(headers['mcp-session-id']),
        protocolVersion: one(headers['mcp-protocol-version']),
        lastEventId: one(headers['last-event-id']),
        headers: authorization === undefined ? [] : ['authorization', authorization],
        headTimeoutMs,
        idleTimeoutMs,
      };
      const handler = new RelayHandler(response);
      handler.call = upstream.send(sent, handler);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  return {
    url,
    async connect(capabilities = {}, headers = {}) {
      const client = new Client({ name: 'test', version: '1' }, { capabilities });
      const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
      t.after(() => client.close());
      await client.connect(transport);
      const call: Connected['call'] = async (name, args = {}) => {
        const { content } = await client.callTool({ name, arguments: args });
        return (content as { text: string }[]).map(({ text }) => text).join('');
      };
      return { client, transport, call };
    },
  };
}

function one(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

async function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return chunks.length === 0 ? null : Buffer.concat(chunks);
}

class RelayHandler implements McpHandler {
  call: McpCall | undefined;
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
    response.on('drain', () => this.call?.resume());
    response.on('close', () => this.call?.abort(new GatewayError('client_closed', 'the client has gone')));
  }

  head({ status, sessionId, contentType, wwwAuthenticate }: Parameters<McpHandler['head']>[0]): void {
    if (sessionId !== undefined) this.#response.setHeader('mcp-session-id', sessionId);
    if (contentType !== '') this.#response.setHeader('content-type', contentType);
    if (wwwAuthenticate !== undefined) this.#response.setHeader('www-authenticate', wwwAuthenticate);
    this.#response.writeHead(status).flushHeaders();
  }

  data(chunk: Buffer): boolean {
    return this.#response.write(chunk);
  }

  end(): void {
    this.#response.end();
  }

  fail(error: GatewayError): void {
    if (this.#response.headersSent) this.#response.destroy();
    else
      this.#response
        .writeHead(error.status)
        .end(JSON.stringify({ code: error.code, message: error.message }));
  }
}
