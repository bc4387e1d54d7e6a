/** A server made with the protocol's own library, over Streamable HTTP, with sessions that tests can make it forget. */
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

/** A request as it arrived. */
interface Arrived {
  readonly method: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

/** A running server. */
export interface StatefulMcpServer {
  readonly url: string;
  readonly port: number;
  readonly requests: readonly Arrived[];
  /** Ids of the sessions that it knows now. */
  sessions(): readonly string[];
  /** Forgets every session, as after a restart. */
  forget(): Promise<void>;
  /** Tells all sessions that the tools have changed. */
  announceTools(): void;
  close(): Promise<void>;
}

interface StatefulOptions {
  readonly port?: number;
  /** Default true; else a server without sessions. */
  readonly hasSessions?: boolean;
  /** Answers are JSON instead of event streams. */
  readonly isJson?: boolean;
  /** Adds tools and more. */
  readonly more?: (server: McpServer) => void;
}

/** Starts one on 127.0.0.1. */
export async function startStatefulMcpServer(options: StatefulOptions = {}): Promise<StatefulMcpServer> {
  const { hasSessions = true, isJson = false } = options;
  const requests: Arrived[] = [];
  const known = new Map<string, { transport: StreamableHTTPServerTransport; server: McpServer }>();
  const listener = http.createServer((request, response) => {
    void (async () => {
      const body = await textOf(request);
      requests.push({ method: request.method ?? '', headers: request.headers, body });
      const parsed: unknown = body === '' ? undefined : JSON.parse(body);
      const id = request.headers['mcp-session-id'];
      let session = typeof id === 'string' ? known.get(id) : undefined;
      if (session === undefined && hasSessions && typeof id === 'string') {
        response.writeHead(404, { 'content-type': 'application/json' });
        response.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}');
        return;
      }
      if (session === undefined) {
        const server = createServer(options);
        const transport = new StreamableHTTPServerTransport({
          sessionIdGenerator: hasSessions ? () => randomUUID() : undefined,
          enableJsonResponse: isJson,
          onsessioninitialized: (begun: string) => void known.set(begun, { transport, server }),
          onsessionclosed: (ended: string) => void known.delete(ended),
        });
        await server.connect(transport);
        session = { transport, server };
      }
      await session.transport.handleRequest(request, response, parsed);
    })();
  });
  await new Promise<void>((resolve) => listener.listen(options.port ?? 0, '127.0.0.1', resolve));
  const { port } = listener.address() as AddressInfo;
  const forget = async (): Promise<void> => {
    const sessions = [...known.values()];
    known.clear();
    for (const { transport } of sessions) await transport.close();
  };
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    port,
    requests,
    sessions: () => [...known.keys()],
    forget,
    announceTools: () => known.forEach(({ server }) => server.sendToolListChanged()),
    async close() {
      await forget();
      listener.closeAllConnections();
      await new Promise<void>((resolve) => void listener.close(() => resolve()));
    },
  };
}

function createServer({ more }: StatefulOptions): McpServer {
  const capabilities = { logging: {}, tools: { listChanged: true } };
  const server = new McpServer({ name: 'stateful', version: '1.0.0' }, { capabilities });
  server.registerTool(
    'add',
    { description: 'Adds two numbers', inputSchema: { a: z.number(), b: z.number() } },
    ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }),
  );
  server.registerTool('secret', { description: 'Reads a secret' }, () => ({
    content: [{ type: 'text', text: 'hidden' }],
  }));
  server.registerTool(
    'count',
    { description: 'Counts with progress', inputSchema: { to: z.number() } },
    async ({ to }, { sendNotification, _meta }) => {
      const token = _meta?.progressToken;
      for (let progress = 1; progress <= to && token !== undefined; progress += 1)
        await sendNotification({
          method: 'notifications/progress',
          params: { progressToken: token, progress, total: to },
        });
      return { content: [{ type: 'text', text: `counted to ${to}` }] };
    },
  );
  server.registerTool('ask', { description: 'Asks the model of the client' }, async (extra) => {
    const answer = await server.server.createMessage(
      { messages: [{ role: 'user', content: { type: 'text', text: 'Which?' } }], maxTokens: 10 },
      { relatedRequestId: extra.requestId },
    );
    return { content: [{ type: 'text', text: JSON.stringify(answer.content) }] };
  });
  server.registerResource('note', 'note://one', { description: 'A note' }, (uri) => ({
    contents: [{ uri: uri.href, text: 'first note' }],
  }));
  server.registerPrompt('greet', { description: 'Greets' }, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'Hello' } }],
  }));
  more?.(server);
  return server;
}

async function textOf(request: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}
