/** A server that offers what the official conformance suite asks for, over Streamable HTTP and the older transport. */
import {
  localhostHostValidation,
  localhostOriginValidation,
  NodeStreamableHTTPServerTransport,
  toNodeHandler,
} from '@modelcontextprotocol/node';
import {
  classifyInboundRequest,
  createMcpHandler,
  isInitializeRequest,
  type EventStore,
  type JSONRPCMessage,
  type Transport,
} from '@modelcontextprotocol/server';
import { randomUUID } from 'node:crypto';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { conformanceServer, type Surroundings } from './conformance-offers.ts';

/** A server that listens on 127.0.0.1. */
export interface ConformanceServer {
  /** `127.0.0.1:PORT`. */
  readonly host: string;
  /** Streamable HTTP: sessions up to the version 2025-11-25, and the stateless 2026-07-28. */
  readonly url: string;
  /** The older transport. */
  readonly sseUrl: string;
  /** Sessions over Streamable HTTP that it has opened so far. */
  readonly opened: number;
  /** Calls of the tool `test_held` that wait. */
  readonly held: number;
  /** Answers them. */
  release(): void;
  close(): Promise<void>;
}

/** So long a client waits before it resumes a stream that the server has ended. */
const retryMs = 500;

/** Starts one. */
export async function startConformanceServer(): Promise<ConformanceServer> {
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>();
  const streams = new Map<string, Transport>();
  let opened = 0;
  const waiting: (() => void)[] = [];
  const surroundings: Surroundings = {
    endStream({ sessionId, mcpReq }) {
      if (sessionId !== undefined) sessions.get(sessionId)?.closeSSEStream(mcpReq.id);
    },
    held: () => new Promise((resolve) => void waiting.push(resolve)),
    changed(list) {
      if (list === 'tools') stateless.notify.toolsChanged();
      else stateless.notify.promptsChanged();
    },
  };
  const stateless = createMcpHandler(() => conformanceServer(surroundings));
  const answerStateless = toNodeHandler(stateless);

  const openSession = async (): Promise<NodeStreamableHTTPServerTransport> => {
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: rememberEvents(),
      retryInterval: retryMs,
      onsessioninitialized(id) {
        opened += 1;
        sessions.set(id, transport);
      },
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await conformanceServer(surroundings).connect(transport);
    return transport;
  };
  const answerHttp = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await bodyOf(request);
    const id = header(request, 'mcp-session-id');
    if (request.method === 'POST') {
      const found = classifyInboundRequest({
        httpMethod: 'POST',
        protocolVersionHeader: header(request, 'mcp-protocol-version'),
        mcpMethodHeader: header(request, 'mcp-method'),
        body,
      });
      if (found.kind !== 'legacy') {
        await answerStateless(request, response, body);
        return;
      }
    }
    if (id === undefined && isInitializeRequest(body)) {
      await (await openSession()).handleRequest(request, response, body);
      return;
    }
    const session = sessions.get(id ?? '');
    if (session) await session.handleRequest(request, response, body);
    else refuse(response, id === undefined ? 400 : 404);
  };
  const answerSse = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.method === 'GET') {
      const id = randomUUID();
      const transport = sseTransport(response);
      streams.set(id, transport);
      response.once('close', () => {
        streams.delete(id);
        transport.onclose?.();
      });
      await conformanceServer(surroundings).connect(transport);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`event: endpoint\ndata: /messages?session=${id}\n\n`);
      return;
    }
    const body = await bodyOf(request);
    const stream = streams.get(/session=([^&]+)/.exec(request.url ?? '')?.[1] ?? '');
    response.writeHead(stream ? 202 : 404).end();
    stream?.onmessage?.(body as JSONRPCMessage);
  };
  const isHostAllowed = localhostHostValidation();
  const isOriginAllowed = localhostOriginValidation();
  const listener = http.createServer((request, response) => {
    if (!isHostAllowed(request, response) || !isOriginAllowed(request, response)) return;
    const answer = request.url?.startsWith('/mcp') === true ? answerHttp : answerSse;
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  // A busy client must not find its connection closed as it sends.
  listener.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const host = `127.0.0.1:${(listener.address() as AddressInfo).port}`;
  return {
    host,
    url: `http://${host}/mcp`,
    sseUrl: `http://${host}/sse`,
    get opened() {
      return opened;
    },
    get held() {
      return waiting.length;
    },
    release() {
      for (const resolve of waiting.splice(0)) resolve();
    },
    async close() {
      await stateless.close();
      for (const one of [...sessions.values(), ...streams.values()]) await one.close();
      listener.closeAllConnections();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

/** Events of one session, for clients that resume a stream. */
function rememberEvents(): EventStore {
  const events: { readonly id: string; readonly stream: string; readonly message: JSONRPCMessage }[] = [];
  return {
    storeEvent(stream, message) {
      const id = `${stream}::${events.length}`;
      events.push({ id, stream, message });
      return Promise.resolve(id);
    },
    async replayEventsAfter(last, { send }) {
      const from = events.findIndex(({ id }) => id === last);
      const stream = events[from]?.stream ?? '';
      for (const { id, stream: of, message } of events.slice(from + 1)) {
        // The event that begins a stream has no message.
        if (of === stream && Object.keys(message).length > 0) await send(id, message);
      }
      return stream;
    },
  };
}

function sseTransport(response: ServerResponse): Transport {
  return {
    start: () => Promise.resolve(),
    send(message) {
      response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
      return Promise.resolve();
    },
    close() {
      response.end();
      return Promise.resolve();
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString();
  return text === '' ? undefined : JSON.parse(text);
}

function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

function refuse(response: ServerResponse, status: number): void {
  const error = { code: -32001, message: status === 404 ? 'Session not found' : 'Session ID required' };
  response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(JSON.stringify({ jsonrpc: '2.0', error, id: null }));
}
