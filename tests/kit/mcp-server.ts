import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A message of JSON-RPC, as far as scripts look at it. */
interface RpcMessage {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** A request as the server received it. */
interface ArrivedAtMcp {
  /** Of HTTP. */
  readonly method: string;
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  /** Undefined for what has no body. */
  readonly message: RpcMessage | undefined;
}

/** What a scripted server says. */
export interface McpScript {
  /** Results by method of the protocol, or what makes them of the parameters. `initialize` and `tools/list` have one. */
  readonly results?: Readonly<Record<string, object | ((params: RpcMessage['params']) => object)>>;
  /** Given at `initialize` as `mcp-session-id`. */
  readonly session?: string;
  /** Answers come as event streams. */
  readonly streams?: boolean;
  /** Answers this request itself, and returns true; or leaves it to the server. */
  intercept?(arrived: ArrivedAtMcp, response: ServerResponse): boolean;
}

/** A server of the Model Context Protocol on 127.0.0.1. */
export interface McpServer {
  /** `127.0.0.1:PORT`. */
  readonly host: string;
  /** Streamable HTTP. */
  readonly url: string;
  /** The older transport. */
  readonly sseUrl: string;
  readonly requests: readonly ArrivedAtMcp[];
  /** Connections that are open now. */
  openSockets(): number;
  /** Sends an event on every stream of the older transport. */
  push(event: string, data: string): void;
  close(): void;
}

/** What a script without anything of its own answers to `initialize`. */
export const initializeResult = {
  protocolVersion: '2025-06-18',
  capabilities: { tools: {} },
  serverInfo: { name: 'scripted', version: '1.2.3' },
};

/** Starts one. A method without a result is answered with the error -32601. */
export async function startMcpServer(script: McpScript = {}): Promise<McpServer> {
  const requests: ArrivedAtMcp[] = [];
  const listeners = new Set<ServerResponse>();
  const sockets = new Set<unknown>();
  const server = http.createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const { method = '', url = '', headers } = request;
      const message = body === '' ? undefined : (JSON.parse(body) as RpcMessage);
      const arrived = { method, url, headers, message };
      requests.push(arrived);
      if (script.intercept?.(arrived, response) === true) return;
      if (url.startsWith('/mcp')) answerHttp(script, arrived, response);
      else answerSse(script, arrived, response, listeners);
    });
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    host,
    url: `http://${host}/mcp`,
    sseUrl: `http://${host}/sse`,
    requests,
    openSockets: () => sockets.size,
    push: (event, data) => listeners.forEach((listener) => listener.write(eventOf(event, data))),
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** One server-sent event. */
export function eventOf(event: string, data: string): string {
  return `event: ${event}\ndata: ${data}\n\n`;
}

/** What the script answers to a request of the protocol, as JSON. */
export function rpcAnswer({ results = {} }: McpScript, { id, method = '', params }: RpcMessage): string {
  const known: McpScript['results'] = {
    initialize: initializeResult,
    'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
    ...results,
  };
  const made = known[method];
  const result = typeof made === 'function' ? (made as (given: typeof params) => object)(params) : made;
  return result === undefined
    ? JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } })
    : JSON.stringify({ jsonrpc: '2.0', id, result });
}

function answerHttp(script: McpScript, { method, message }: ArrivedAtMcp, response: ServerResponse): void {
  if (message === undefined) {
    response.writeHead(method === 'DELETE' ? 200 : 405).end();
    return;
  }
  if (message.id === undefined || message.method === undefined) {
    response.writeHead(202).end();
    return;
  }
  if (script.session !== undefined) response.setHeader('mcp-session-id', script.session);
  const answer = rpcAnswer(script, message);
  if (script.streams !== true) {
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(eventOf('message', answer));
}

function answerSse(
  script: McpScript,
  { method, message }: ArrivedAtMcp,
  response: ServerResponse,
  listeners: Set<ServerResponse>,
): void {
  if (method === 'GET') {
    listeners.add(response);
    response.on('close', () => listeners.delete(response));
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(eventOf('endpoint', '/message'));
    return;
  }
  response.writeHead(202).end();
  if (message?.id === undefined || message.method === undefined) return;
  const event = eventOf('message', rpcAnswer(script, message));
  listeners.forEach((listener) => listener.write(event));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
