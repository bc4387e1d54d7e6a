import { GatewayError } from '../../core/errors/gateway-error.ts';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import type { Transport, UpstreamHandler } from '../../core/ports/transport.ts';
import { MockCall, MockUpgrade } from './call.ts';
import { FileStore, idsFrom, JobStore } from './stores.ts';
import { MockService } from './service.ts';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

/** What a mock provider needs from outside. */
interface MockTransportOptions {
  readonly clock: Clock;
  /** Numbers from 0 to below 1, for identifiers. Default: the system's random source. */
  readonly random?: () => number;
}

/**
 * The built-in `mock` provider: a transport that answers by itself, in this process. For requests whose origin is
 * `mock:` or `mock:?latency_ms=200&…`. Uploaded files and created jobs live as long as the transport.
 */
export function createMockTransport(options: MockTransportOptions): Transport {
  const { clock } = options;
  const service = new MockService({
    newId: idsFrom(options.random),
    nowSeconds: () => Math.floor(clock.now() / 1000),
    files: new FileStore(),
    jobs: new JobStore(),
  });
  const open = new Set<MockCall | MockUpgrade>();
  let closed = false;
  const goingAway = () => new GatewayError('shutting_down', 'The mock provider has been closed.');
  return {
    send(request, handler) {
      const call: MockCall = new MockCall(request, handler, clock, () => open.delete(call));
      open.add(call);
      if (closed) queueMicrotask(() => call.abort(goingAway()));
      else void call.run(service);
      return call;
    },
    upgrade(request) {
      const call: MockUpgrade = new MockUpgrade(request, clock, () => open.delete(call));
      open.add(call);
      if (closed) queueMicrotask(() => call.abort(goingAway()));
      else call.run(service);
      return call;
    },
    close() {
      closed = true;
      for (const call of open) call.abort(goingAway());
      return Promise.resolve();
    },
  };
}

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

/** Serves the mock provider over HTTP on 127.0.0.1, with real connections to cut. For tests and measurements. */
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
