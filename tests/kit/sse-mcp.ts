/** The server of scenes over the older transport of MCP, on a socket of this machine. */
import http, { type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { sceneMcp } from './scene-mcp.ts';

interface ArrivedAtSse {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** A server that listens. */
export interface SseMcp {
  /** `127.0.0.1:PORT`. */
  readonly host: string;
  readonly url: string;
  readonly requests: readonly ArrivedAtSse[];
  /** Streams of sessions that are open. */
  openStreams(): number;
  /** What waits for readers of these streams. */
  unsentBytes(): number;
  /** Cuts all connections. */
  cut(): void;
  /** Forgets all sessions; their streams stay open. */
  forget(): void;
  /** Answers this request itself, and returns true. */
  intercept: (arrived: ArrivedAtSse, response: ServerResponse) => boolean;
  close(): void;
}

/** Starts one. */
export async function startSseMcp(): Promise<SseMcp> {
  const requests: ArrivedAtSse[] = [];
  const sessions = new Map<string, SSEServerTransport>();
  const streams = new Set<ServerResponse>();
  const server = http.createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const arrived = { method, url, headers };
    requests.push(arrived);
    if (mcp.intercept(arrived, response)) return;
    if (method === 'GET') {
      streams.add(response);
      const transport = new SSEServerTransport('/messages', response);
      sessions.set(transport.sessionId, transport);
      response.on('close', () => streams.delete(response));
      void sceneMcp().connect(transport);
      return;
    }
    const id = new URL(url, 'http://localhost').searchParams.get('sessionId') ?? '';
    const transport = sessions.get(id);
    if (transport === undefined) response.writeHead(404).end('no such session');
    else void transport.handlePostMessage(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const mcp: SseMcp = {
    host,
    url: `http://${host}/sse`,
    requests,
    openStreams: () => streams.size,
    unsentBytes: () => [...streams].reduce((sum, { writableLength }) => sum + writableLength, 0),
    cut: () => server.closeAllConnections(),
    forget: () => sessions.clear(),
    intercept: () => false,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return mcp;
}
