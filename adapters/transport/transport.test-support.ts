import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { HeaderList } from '../../core/ports/header-list.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import type {
  FailureFacts,
  UpstreamCall,
  UpstreamHandler,
  UpstreamRequest,
} from '../../core/ports/transport.ts';
import { createUndiciTransport, type UndiciTransport } from './undici-transport.ts';

/** For the tests of this folder: a log without output. */
export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};

/** For the tests of this folder: metrics that count nothing. */
export const noMetrics: Metrics = {
  counter: () => () => ({ inc: () => undefined }),
  gauge: () => () => ({ set: () => undefined }),
  histogram: () => () => ({ observe: () => undefined }),
  onScrape: () => () => undefined,
  render: () => Promise.resolve({ contentType: '', text: '' }),
};

/** A transport with parts that do nothing. */
export function testTransport(
  limits: { maxPerOrigin?: number; maxOrigins?: number; log?: Log; metrics?: Metrics } = {},
): UndiciTransport {
  return createUndiciTransport({
    log: silentLog,
    metrics: noMetrics,
    clock: { now: () => 0, monotonic: () => performance.now(), after: () => () => undefined },
    ...limits,
  });
}

/** Result of a call. */
interface Outcome {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Buffer;
  /** Undefined when the answer ended. */
  readonly error: GatewayError | undefined;
  readonly facts: FailureFacts | undefined;
}

/** Records one answer and asserts that it ends once, with nothing after. */
export class Recorder implements UpstreamHandler {
  call: UpstreamCall | undefined;
  status = 0;
  headers: HeaderList = [];
  readonly chunks: Buffer[] = [];
  readonly headArrived: Promise<void>;
  readonly ended: Promise<Outcome>;
  /** Called for each chunk; its result goes to the transport. */
  onData: (chunk: Buffer) => boolean = () => true;
  onHead: () => void = () => undefined;
  ends = 0;
  /** `data` returned false and nothing has resumed since. */
  paused = false;
  #arrive: () => void = () => undefined;
  #end: (outcome: Outcome) => void = () => undefined;

  constructor() {
    this.headArrived = new Promise((resolve) => (this.#arrive = resolve));
    this.ended = new Promise((resolve) => (this.#end = resolve));
  }

  head(status: number, headers: HeaderList): void {
    if (this.ends > 0) throw new Error('head after the end');
    this.status = status;
    this.headers = headers;
    this.#arrive();
    this.onHead();
  }

  data(chunk: Buffer): boolean {
    if (this.ends > 0) throw new Error('data after the end');
    if (this.paused) throw new Error('data while paused');
    this.chunks.push(chunk);
    this.paused = true;
    const more = this.onData(chunk);
    // A `resume` from inside `onData` counts.
    if (more) this.paused = false;
    return more;
  }

  /** Takes data again. */
  resume(): void {
    this.paused = false;
    this.call?.resume();
  }

  end(): void {
    this.#settle(undefined, undefined);
  }

  fail(error: GatewayError, facts: FailureFacts): void {
    this.#settle(error, facts);
  }

  #settle(error: GatewayError | undefined, facts: FailureFacts | undefined): void {
    this.ends += 1;
    if (this.ends > 1) throw new Error('ended twice');
    if (this.paused && error === undefined) throw new Error('ended while paused');
    const body = Buffer.concat(this.chunks);
    this.#end({ status: this.status, headers: this.headers, body, error, facts });
  }
}

/** Sends and records. Timeouts default to values that no test reaches. */
export function send(
  transport: UndiciTransport,
  request: Partial<UpstreamRequest> & { origin: string },
  recorder = new Recorder(),
): Recorder {
  recorder.call = transport.send(
    {
      method: 'GET',
      path: '/',
      headers: [],
      body: null,
      connectTimeoutMs: 10_000,
      headTimeoutMs: 10_000,
      idleTimeoutMs: 10_000,
      ...request,
      // A getter of a server, which spreading leaves out.
      origin: request.origin,
    },
    recorder,
  );
  return recorder;
}

/** A raw TCP server that runs `serve` for each connection. */
export class RawServer {
  readonly sockets = new Set<Socket>();
  /** Connections accepted so far. */
  accepted = 0;
  readonly #server: Server;

  private constructor(serve: (socket: Socket, index: number) => void) {
    this.#server = createServer((socket) => {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
      socket.on('error', () => undefined);
      this.accepted += 1;
      serve(socket, this.accepted - 1);
    });
  }

  static async start(serve: (socket: Socket, index: number) => void): Promise<RawServer> {
    const server = new RawServer(serve);
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

/** A scripted server's reaction to one request. */
export type Reply = (socket: Socket) => unknown;

/** Answers each request (a head without a body) with the next of `replies`. */
export function scripted(...replies: readonly Reply[]): (socket: Socket) => void {
  let next = 0;
  return (socket) => {
    let seen = '';
    socket.on('data', (chunk: Buffer) => {
      seen += chunk.toString('latin1');
      while (seen.includes('\r\n\r\n')) {
        seen = seen.slice(seen.indexOf('\r\n\r\n') + 4);
        replies[Math.min(next, replies.length - 1)]?.(socket);
        next += 1;
      }
    });
  };
}

/** Waits until `condition` holds; fails after half a minute. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`not within half a minute: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
