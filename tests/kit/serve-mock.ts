import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createMockTransport } from '../../adapters/mock/transport.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import type { Transport, UpstreamHandler } from '../../core/ports/transport.ts';

/** How a mock server listens. */
interface ServeMockOptions {
  /** 0 or nothing picks a free one. */
  readonly port?: number;
  /** Faults of every request, as in a base URL: `latency_ms=50&tokens=64`. */
  readonly faults?: string;
  readonly clock?: Clock;
}

/** A mock server that listens. */
export interface MockServer {
  /** `http://127.0.0.1:PORT`; paths are served with and without `/v1`. */
  readonly url: string;
  /** Cuts what is still open and frees the port. */
  close(): Promise<void>;
}

/** Serves the mock provider over HTTP on 127.0.0.1, with real connections to cut. */
export async function serveMock(options: ServeMockOptions = {}): Promise<MockServer> {
  const transport = createMockTransport({ clock: options.clock ?? systemClock });
  const origin = `mock:?${options.faults ?? ''}`;
  const server = createServer((request, response) => relay(transport, origin, request, response));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, '127.0.0.1', resolve);
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The mock server has no port.');
  return {
    url: `http://127.0.0.1:${address.port}`,
    async close() {
      await transport.close();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

function relay(
  transport: Transport,
  origin: string,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const handler: UpstreamHandler = {
    head(status, headers) {
      response.writeHead(status, [...headers]);
      // A stream's head must not wait for its first chunk; a whole answer leaves in one write.
      process.nextTick(() => {
        if (!response.writableEnded) response.flushHeaders();
      });
    },
    data: (chunk) => response.write(chunk),
    end: () => response.end(),
    fail: () => response.destroy(),
  };
  const call = transport.send(
    {
      origin,
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: request.rawHeaders,
      body: request,
      connectTimeoutMs: 0,
      headTimeoutMs: 0,
      idleTimeoutMs: 0,
    },
    handler,
  );
  response.on('drain', () => call.resume());
  response.on('close', () => call.abort(new GatewayError('client_closed', 'The client has left.')));
}
