import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { GatewayConfig } from '../config/schema.ts';
import { setTimeout as delay } from 'node:timers/promises';
import { PassingMap } from '../base/recent-map.ts';
import type { Gateway } from './gateway.ts';
import { ClientUpgrade, serveWithoutUpgrade, upgradeWish } from '../connection/upgrade.ts';

export interface RunningServer {
  readonly host: string;
  readonly port: number;
  /** Connections that are open now. */
  connections(): number;
  /** Stops accepting, lets open requests finish until the deadline, then cuts what is left. */
  close(deadlineMs: number, options?: CloseOptions): Promise<{ cut: number }>;
}

/** How a server is closed. */
interface CloseOptions {
  /** Until then it listens and serves on, and every answer says that it will go. Default 0. */
  readonly drainDelayMs?: number;
  /** Aborted: nothing is waited for any more. */
  readonly hurry?: AbortSignal;
}

/** Listens for clients. Rejects with a sentence when the address is taken or not allowed. */
export async function startServer(
  gateway: Gateway,
  config: GatewayConfig['server'],
  port: number,
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
  /** Each open connection, and the latest answer that is under way on it: more would keep idle ones' last requests alive. */
  const sockets = new PassingMap<Socket, ServerResponse | undefined>();
  const answered = function (this: ServerResponse): void {
    const { socket } = this.req;
    if (sockets.get(socket) === this) sockets.set(socket, undefined);
  };
  const handle = (request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void => {
    sockets.set(request.socket, response);
    response.on('close', answered);
    gateway.handle(request, response, expectsContinue);
  };
  server.on('connection', (socket: Socket) => {
    // One that was handed back after an offer to upgrade is known already.
    if (sockets.has(socket)) return;
    sockets.set(socket, undefined);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('request', (request, response) => handle(request, response, false));
  server.on('checkContinue', (request, response) => handle(request, response, true));
  server.on('upgrade', (request: IncomingMessage, _socket: Duplex, head: Buffer) => {
    const earlier = sockets.get(request.socket);
    // Behind an answer that is still on its way nothing can be switched.
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
  await listen(server, config.host, port);
  const address = server.address() as AddressInfo;
  return {
    host: config.host,
    port: address.port,
    connections: () => sockets.size,
    close: (deadlineMs, options) => close(server, sockets, gateway, deadlineMs, options),
  };
}

function listen(server: http.Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const reason =
        error.code === 'EADDRINUSE'
          ? 'the port is in use. Choose another one with --port or server.port'
          : error.code === 'EACCES'
            ? 'this user may not listen there. Choose a port above 1023'
            : error.message;
      reject(new Error(`Cannot listen on ${host}:${port}: ${reason}`, { cause: error }));
    });
    server.listen(port, host, () => resolve());
  });
}

/** What Node could not parse never reaches the pipeline; it still gets an answer that says why. */
function answerBrokenRequest(
  error: NodeJS.ErrnoException,
  socket: Socket,
  latest: ServerResponse | undefined,
): void {
  // In the middle of an earlier answer these bytes would be taken for a part of it.
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
  // The client may never close its side, and nothing more can be understood of what it sends.
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
    // Its head has been made without knowing, or is made by somebody who does not ask.
    if (response !== undefined && !response.headersSent) response.shouldKeepAlive = false;
  }
  if (drainDelayMs > 0 && hurry?.aborted !== true) {
    await passed(drainDelayMs, hurry);
    // A request whose bytes are here already is read before idle connections are looked for.
    for (let turn = 0; turn < 2; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  await Promise.race([gateway.drain(), passed(deadlineMs, hurry)]);
  const cut = gateway.activeRequests;
  // Answers that are complete may still be on their way to a slow client; those that are not are cut here.
  server.closeIdleConnections();
  if (cut > 0) {
    gateway.beginCut();
    for (const socket of sockets.keys()) socket.destroy();
  }
  // Connections that asked for WebSocket are among these alone.
  const lastBytes = setTimeout(() => {
    for (const socket of sockets.keys()) socket.destroy();
  }, 1000);
  await closed;
  clearTimeout(lastBytes);
  return { cut };
}

/** Resolves after so long, or when there is a hurry. */
function passed(ms: number, hurry: AbortSignal | undefined): Promise<void> {
  return delay(ms, undefined, { ref: false, ...(hurry && { signal: hurry }) }).catch(() => undefined);
}
