import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { GatewayConfig } from '../config/schema.ts';
import { setTimeout as delay } from 'node:timers/promises';
import { PassingMap } from '../base/recent-map.ts';
import type { Gateway } from './gateway.ts';
import { ClientUpgrade, serveWithoutUpgrade, upgradeWish } from '../connection/upgrade.ts';

interface RunningServer {
  readonly host: string;
  /** 0 for a socket. */
  readonly port: number;
  /** Number of open connections. */
  connections(): number;
  /** Stops accepting, lets open requests finish until the deadline, then aborts the rest. */
  close(deadlineMs: number, options?: CloseOptions): Promise<{ cut: number }>;
}

/** Options for the close of a server. */
interface CloseOptions {
  /** Time for which it still listens and serves, while every answer asks to close the connection. Default 0. */
  readonly drainDelayMs?: number;
  /** Once aborted, the close skips all waits. */
  readonly hurry?: AbortSignal;
}

/** Header with which a worker passes on the address of its client; nothing else reaches a socket of workers. */
export const workerClientHeader = 'x-weir-worker-client';

/**
 * Listens for clients: on a port, or on the socket at a path, for the workers of this gateway. Rejects with a sentence
 * when the address is taken or not allowed.
 */
export async function startServer(
  gateway: Gateway,
  config: GatewayConfig['server'],
  place: number | { readonly socket: string },
): Promise<RunningServer> {
  const server = http.createServer({
    // Bodies have their own idle timeout: a long upload is fine, a stalled one is not.
    requestTimeout: 0,
    headersTimeout: config.header_timeout_ms,
    connectionsCheckingInterval: Math.min(1000, config.header_timeout_ms),
    keepAliveTimeout: config.keep_alive_timeout_ms,
    maxHeaderSize: 64 * 1024,
    noDelay: true,
  });
  /** Each open connection with its latest answer in flight; only that one, so that idle connections hold no old request. */
  const sockets = new PassingMap<Socket, ServerResponse | undefined>();
  const answered = function (this: ServerResponse): void {
    const { socket } = this.req;
    if (sockets.get(socket) === this) sockets.set(socket, undefined);
  };
  const isForWorkers = typeof place !== 'number';
  const handle = (request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void => {
    if (isForWorkers) takeClientAddress(request);
    sockets.set(request.socket, response);
    response.on('close', answered);
    gateway.handle(request, response, expectsContinue);
  };
  server.on('connection', (socket: Socket) => {
    // A connection that was handed back after an upgrade offer is already known.
    if (sockets.has(socket)) return;
    sockets.set(socket, undefined);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('request', (request, response) => handle(request, response, false));
  server.on('checkContinue', (request, response) => handle(request, response, true));
  server.on('upgrade', (request: IncomingMessage, _socket: Duplex, head: Buffer) => {
    const earlier = sockets.get(request.socket);
    // The connection cannot be switched while an earlier answer is in flight.
    if (earlier !== undefined && !earlier.writableFinished) {
      request.socket.destroy();
      return;
    }
    const wish = upgradeWish(request);
    if (wish.kind === 'ignorable') {
      serveWithoutUpgrade(server, request, head);
      return;
    }
    const upgrade = new ClientUpgrade(request, head, wish.kind === 'refused' ? wish.error : undefined);
    sockets.set(request.socket, upgrade.response);
    gateway.handleUpgrade(request, upgrade);
  });
  server.on('clientError', (error, socket: Socket) =>
    answerBrokenRequest(error, socket, sockets.get(socket)),
  );
  await listen(server, config, place);
  const port = isForWorkers ? 0 : (server.address() as AddressInfo).port;
  return {
    host: config.host,
    port,
    connections: () => sockets.size,
    close: (deadlineMs, options) => close(server, sockets, gateway, deadlineMs, options),
  };
}

/** Gives the connection the address of the worker's client, and removes the header. */
function takeClientAddress({ rawHeaders, socket }: IncomingMessage): void {
  const at = rawHeaders.findIndex((name, index) => index % 2 === 0 && name === workerClientHeader);
  const [, address = ''] = at === -1 ? [] : rawHeaders.splice(at, 2);
  Object.defineProperty(socket, 'remoteAddress', { value: address, configurable: true });
}

function listen(
  server: http.Server,
  { host, backlog }: Pick<GatewayConfig['server'], 'host' | 'backlog'>,
  place: number | { readonly socket: string },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const reason =
        error.code === 'EADDRINUSE'
          ? 'the port is in use. Choose another one with --port or server.port'
          : error.code === 'EACCES'
            ? 'this user may not listen there. Choose a port above 1023'
            : error.message;
      const address = typeof place === 'number' ? `${host}:${place}` : place.socket;
      reject(new Error(`Cannot listen on ${address}: ${reason}`, { cause: error }));
    });
    const where = typeof place === 'number' ? { port: place, host } : { path: place.socket };
    server.listen({ ...where, backlog }, () => resolve());
  });
}

/** Answers requests that Node could not parse and that reach no pipeline. */
function answerBrokenRequest(
  error: NodeJS.ErrnoException,
  socket: Socket,
  latest: ServerResponse | undefined,
): void {
  // While an earlier answer is being sent, the client would read these bytes as a part of it.
  const isFree =
    latest === undefined || latest.writableFinished || (!latest.headersSent && latest.socket === socket);
  if (!socket.writable || error.code === 'ECONNRESET' || !isFree) {
    socket.destroy();
    return;
  }
  const [status, message] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'The headers are larger than 65536 bytes.']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The headers did not arrive in time.']
        : ['400 Bad Request', 'This is no valid HTTP request.'];
  const body = JSON.stringify({
    error: { message, type: 'invalid_request_error', param: null, code: 'invalid_request' },
  });
  socket.write(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  // The client may never close its side, and the rest of its bytes cannot be parsed.
  socket.destroySoon();
}

async function close(
  server: http.Server,
  sockets: PassingMap<Socket, ServerResponse | undefined>,
  gateway: Gateway,
  deadlineMs: number,
  { drainDelayMs = 0, hurry }: CloseOptions = {},
): Promise<{ cut: number }> {
  gateway.announceDrain();
  for (const response of sockets.values()) {
    // The head was built before the drain, or its author does not check for it.
    if (response !== undefined && !response.headersSent) response.shouldKeepAlive = false;
  }
  if (drainDelayMs > 0 && hurry?.aborted !== true) {
    await waitUnlessHurried(drainDelayMs, hurry);
    // Requests whose bytes have already arrived are read before idle connections are closed.
    for (let turn = 0; turn < 2; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  await Promise.race([gateway.drain(), waitUnlessHurried(deadlineMs, hurry)]);
  const cut = gateway.activeRequests;
  // Complete answers may still be in flight to a slow client; incomplete ones are aborted here.
  server.closeIdleConnections();
  if (cut > 0) {
    gateway.beginCut();
    for (const socket of sockets.keys()) socket.destroy();
  }
  // Only `sockets` also holds connections that asked for WebSocket.
  const lastBytes = setTimeout(() => {
    for (const socket of sockets.keys()) socket.destroy();
  }, 1000);
  await closed;
  clearTimeout(lastBytes);
  return { cut };
}

/** Resolves after `ms`, or when `hurry` aborts. */
function waitUnlessHurried(ms: number, hurry: AbortSignal | undefined): Promise<void> {
  return delay(ms, undefined, { ref: false, ...(hurry && { signal: hurry }) }).catch(() => undefined);
}
