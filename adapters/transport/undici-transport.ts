import type { Clock } from '../../core/ports/clock.ts';
import { type Deadline, DeadlineWheel } from '../../core/base/deadline.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import type {
  Transport,
  UpgradeAnswer,
  UpgradeCall,
  UpstreamCall,
  UpstreamHandler,
  UpstreamRequest,
} from '../../core/ports/transport.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { type AddressGuard, createAddressGuard, type Resolve } from '../addresses/address-guard.ts';
import { HttpCall, type HttpCallEnvironment, toHeaderList, wireHeaders } from './http-call.ts';
import { type Connection, TlsSessions } from './connection.ts';
import { OriginPool, type PoolOwner } from './origin-pool.ts';
import { type FailurePlace, transportErrors } from './transport-errors.ts';
import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { HeaderList } from '../../core/ports/header-list.ts';

export interface UndiciTransportOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Upper bound of calls in flight to one origin; one more fails with `upstream_busy`. Default 10,000. */
  readonly maxPerOrigin?: number;
  /**
   * Upper bound of origins with open connections; beyond it the least recently used idle one is closed. Default 1,000.
   */
  readonly maxOrigins?: number;
  /** Same for origins named by requests. Default 100. */
  readonly maxGuardedOrigins?: number;
  /** Resolves the names of guarded origins. Default: the system's resolver. */
  readonly resolve?: Resolve;
}

export interface UndiciTransport extends Transport {
  upgrade(request: UpstreamRequest): UpgradeCall;
  stats(): TransportStats;
}

/**
 * The transport over undici's HTTP/1.1 client: one connection per call in flight, kept for the next one. Guarded and
 * other calls never share connections or connection limits. Reads no proxy settings from the environment. `close` ends
 * calls in flight with `shutting_down`.
 */
export function createUndiciTransport(options: UndiciTransportOptions): UndiciTransport {
  return new PooledTransport(options);
}

class PooledTransport implements UndiciTransport, PoolOwner {
  readonly sessions = new TlsSessions();
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #maxPerOrigin: number;
  readonly #maxOrigins: number;
  readonly #maxGuardedOrigins: number;
  readonly #guard: AddressGuard;
  readonly #metrics: TransportMetrics;
  readonly #environment: HttpCallEnvironment;
  readonly #pools = new Map<string, OriginPool>();
  readonly #guardedPools = new Map<string, OriginPool>();
  #sockets = 0;
  #calls = 0;
  #closing: Promise<void> | undefined;
  #lastClosed: () => void = () => undefined;

  constructor(options: UndiciTransportOptions) {
    const { log, clock, metrics, maxPerOrigin = 10_000, maxOrigins = 1_000 } = options;
    this.#maxGuardedOrigins = options.maxGuardedOrigins ?? 100;
    this.#guard = createAddressGuard(options.resolve);
    this.#log = log;
    this.#clock = clock;
    this.#maxPerOrigin = maxPerOrigin;
    this.#maxOrigins = maxOrigins;
    this.#metrics = transportMetrics(metrics, () => this.stats());
    this.#environment = { log, deadlines: new DeadlineWheel(), countFailure: this.#metrics.failed };
  }

  send(request: UpstreamRequest, handler: UpstreamHandler): UpstreamCall {
    const pool = this.#admit(request);
    if (!(pool instanceof OriginPool)) return this.#refuse(handler, pool);
    const call = new HttpCall(request, handler, pool, this.#environment);
    call.start();
    return call;
  }

  upgrade(request: UpstreamRequest): UpgradeCall {
    const pool = this.#admit(request);
    if (!(pool instanceof OriginPool)) {
      this.#metrics.failed(pool.code);
      return { answer: Promise.reject(pool), abort: () => undefined };
    }
    const call = new HttpUpgrade(request, pool, this.#environment);
    call.start();
    return call;
  }

  stats(): TransportStats {
    let pending = 0;
    let running = 0;
    const pools = this.#allPools();
    for (const pool of pools) {
      pending += pool.pending;
      running += pool.running;
    }
    return { origins: pools.length, connections: this.#sockets, pending, running };
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  poolEmpty(pool: OriginPool): void {
    const pools = this.#poolsOf(pool.guard);
    if (pools.get(pool.key) === pool) pools.delete(pool.key);
  }

  opened(): number {
    this.#sockets += 1;
    return this.#clock.monotonic();
  }

  connected(openedAt: number): void {
    this.#metrics.connected((this.#clock.monotonic() - openedAt) / 1_000);
  }

  closed(): void {
    this.#sockets -= 1;
    if (this.#sockets === 0) this.#lastClosed();
  }

  async #closeAll(): Promise<void> {
    this.#metrics.dispose();
    for (const pool of this.#allPools()) pool.close(transportErrors.closed());
    // Sockets of calls that have just ended are no longer in a pool, but may still be closing.
    if (this.#sockets > 0) await new Promise<void>((resolve) => (this.#lastClosed = resolve));
  }

  /** The pool for one more call, or the error that there is none. */
  #admit(request: UpstreamRequest): OriginPool | GatewayError {
    if (this.#closing !== undefined) return transportErrors.closed();
    const guard = request.guarded === true ? this.#guard : undefined;
    const pool = this.#poolsOf(guard).get(request.origin) ?? this.#open(request.origin, guard);
    if (!(pool instanceof OriginPool)) return pool;
    if (pool.inFlight >= this.#maxPerOrigin) {
      const what = `${this.#maxPerOrigin} requests to ${pool.peer} are in flight, the most that are allowed`;
      return transportBusy(what);
    }
    this.#calls += 1;
    pool.lastUsed = this.#calls;
    return pool;
  }

  #poolsOf(guard: AddressGuard | undefined): Map<string, OriginPool> {
    return guard === undefined ? this.#pools : this.#guardedPools;
  }

  #allPools(): OriginPool[] {
    return [...this.#pools.values(), ...this.#guardedPools.values()];
  }

  #open(origin: string, guard: AddressGuard | undefined): OriginPool | GatewayError {
    const pools = this.#poolsOf(guard);
    const most = guard === undefined ? this.#maxOrigins : this.#maxGuardedOrigins;
    if (pools.size >= most && !this.#evict(pools)) {
      return transportBusy(`${most} origins have requests in flight, the most that are allowed`);
    }
    try {
      const pool = new OriginPool(origin, this, guard);
      pools.set(origin, pool);
      return pool;
    } catch (cause) {
      return transportErrors.of(cause, { peer: origin, phase: 'connecting', receivedBytes: 0 });
    }
  }

  /** Closes the least recently used idle pool; false when every one has calls in flight. */
  #evict(pools: Map<string, OriginPool>): boolean {
    let oldest: OriginPool | undefined;
    for (const pool of pools.values()) {
      if (pool.inFlight === 0 && (oldest === undefined || pool.lastUsed < oldest.lastUsed)) oldest = pool;
    }
    if (oldest === undefined) return false;
    pools.delete(oldest.key);
    oldest.close(transportErrors.closed());
    this.#log.debug('closed the connections of an idle origin to make room for another', {
      origin: oldest.key,
    });
    return true;
  }

  #refuse(handler: UpstreamHandler, error: GatewayError): UpstreamCall {
    this.#metrics.failed(error.code);
    let ended = false;
    const report = (reason: GatewayError): void => {
      if (ended) return;
      ended = true;
      handler.fail(reason, { stale: false });
    };
    queueMicrotask(() => report(error));
    return { resume: () => undefined, abort: report };
  }
}

/** Present state of the transport. */
interface TransportStats {
  readonly origins: number;
  /** Sockets that are open, opening or closing. */
  readonly connections: number;
  /** Calls that wait for a connection. */
  readonly pending: number;
  /** Calls whose request is on the wire. */
  readonly running: number;
}

/** Metrics of the transport. */
interface TransportMetrics {
  /** A socket was connected after this many seconds. */
  connected(seconds: number): void;
  /** A call failed with this error code. */
  failed(code: string): void;
  dispose(): void;
}

/** Defines the transport's families; gauges are read from `stats` at each scrape. */
function transportMetrics(metrics: Metrics, stats: () => TransportStats): TransportMetrics {
  const connect = metrics.histogram({
    name: 'weir_upstream_connect_seconds',
    help: 'Time to establish a new connection to a provider, TLS included.',
    labels: [],
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  })({});
  const failures = metrics.counter({
    name: 'weir_upstream_failures_total',
    help: 'Calls to providers that ended without a complete answer, by error code.',
    labels: ['code'],
  });
  const gauge = (name: string, help: string) => metrics.gauge({ name, help, labels: [] })({});
  const connections = gauge('weir_upstream_connections', 'Open connections to providers.');
  const origins = gauge('weir_upstream_origins', 'Providers (origins) with open connections.');
  const pending = gauge('weir_upstream_calls_pending', 'Calls that wait for a connection to a provider.');
  const running = gauge('weir_upstream_calls_running', 'Calls whose request has been sent to a provider.');
  const dispose = metrics.onScrape(() => {
    const now = stats();
    connections.set(now.connections);
    origins.set(now.origins);
    pending.set(now.pending);
    running.set(now.running);
  });
  return {
    connected: (seconds) => connect.observe(seconds),
    failed: (code) => failures({ code }).inc(),
    dispose,
  };
}

/** Upper bound of an HTTP answer to a WebSocket upgrade, in bytes. */
const maxDeclinedBytes = 1_048_576;

/** `open`: the protocol was switched, and the connection is open. */
type UpgradePhase = 'connecting' | 'head' | 'body' | 'open' | 'done';

/**
 * One WebSocket upgrade request, always on a connection of its own. It counts as a call to its origin until the
 * switched connection has closed.
 */
class HttpUpgrade implements UpgradeCall, UpstreamCall, Dispatcher.DispatchHandler {
  readonly answer: Promise<UpgradeAnswer>;
  readonly #request: UpstreamRequest;
  readonly #pool: OriginPool;
  readonly #environment: HttpCallEnvironment;
  readonly #deadline: Deadline;
  readonly #connection: Connection;
  #resolve: (answer: UpgradeAnswer) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #phase: UpgradePhase = 'connecting';
  #switched: Duplex | undefined;
  #status = 0;
  #headers: HeaderList = [];
  #chunks: Buffer[] = [];
  #receivedBytes = 0;

  constructor(request: UpstreamRequest, pool: OriginPool, environment: HttpCallEnvironment) {
    this.#request = request;
    this.#pool = pool;
    this.#environment = environment;
    this.#deadline = environment.deadlines.create(() => this.#timedOut());
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#connection = pool.open();
    this.#connection.call = this;
    pool.pending += 1;
  }

  start(): void {
    const { method, path, headers, connectTimeoutMs } = this.#request;
    this.#deadline.set(connectTimeoutMs);
    this.#connection.dispatch(
      { method, path, headers: wireHeaders(headers, true) as string[], body: null, upgrade: 'websocket' },
      this,
    );
  }

  resume(): void {
    // It never pauses: an HTTP answer is collected, and a switched connection belongs to its receiver.
  }

  abort(error: GatewayError): void {
    if (this.#phase === 'open') this.#switched?.destroy();
    else this.#fail(error);
  }

  onConnect(): void {
    if (this.#phase !== 'connecting') return;
    this.#phase = 'head';
    this.#pool.pending -= 1;
    this.#pool.running += 1;
    this.#connection.requestStarts();
    this.#deadline.set(this.#request.headTimeoutMs);
  }

  onUpgrade(_status: number, rawHeaders: Buffer[] | string[] | null, socket: Duplex): void {
    if (this.#phase !== 'head') {
      socket.destroy();
      return;
    }
    this.#phase = 'open';
    this.#deadline.clear();
    this.#connection.switched();
    this.#switched = socket;
    socket.once('close', () => this.#release());
    this.#resolve({ kind: 'switched', headers: headerList(rawHeaders), connection: socket });
  }

  onHeaders(status: number, rawHeaders: Buffer[]): boolean {
    if (this.#phase !== 'head' || status < 200) return true;
    this.#phase = 'body';
    this.#status = status;
    this.#headers = headerList(rawHeaders);
    this.#deadline.set(this.#request.idleTimeoutMs);
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#phase !== 'body') return true;
    this.#deadline.refresh();
    this.#receivedBytes += chunk.length;
    if (this.#receivedBytes > maxDeclinedBytes) this.#fail(declinedTooLargeError(this.#pool.peer));
    else this.#chunks.push(chunk);
    return true;
  }

  onComplete(): void {
    if (this.#phase !== 'body') return;
    this.#phase = 'done';
    this.#deadline.clear();
    this.#pool.running -= 1;
    this.#connection.answerEnds();
    const body = Buffer.concat(this.#chunks);
    this.#resolve({ kind: 'declined', status: this.#status, headers: this.#headers, body });
  }

  onError(cause: unknown): void {
    if (this.#phase === 'open' || this.#phase === 'done') return;
    this.#fail(transportErrors.of(cause, this.#place()));
  }

  #timedOut(): void {
    const { connectTimeoutMs, headTimeoutMs, idleTimeoutMs } = this.#request;
    if (this.#phase === 'connecting')
      this.#fail(transportErrors.connectTimedOut(this.#pool.peer, connectTimeoutMs));
    else
      this.#fail(
        transportErrors.answerTimedOut(this.#place(), this.#phase === 'head' ? headTimeoutMs : idleTimeoutMs),
      );
  }

  #place(): FailurePlace {
    const phase = this.#phase === 'open' ? 'body' : this.#phase;
    return { peer: this.#pool.peer, phase, receivedBytes: this.#receivedBytes };
  }

  #fail(error: GatewayError): void {
    if (this.#phase === 'done') return;
    this.#release();
    this.#chunks = [];
    this.#environment.countFailure(error.code);
    this.#reject(error);
  }

  #release(): void {
    if (this.#phase === 'connecting') this.#pool.pending -= 1;
    else this.#pool.running -= 1;
    // First, because releasing the connection makes undici report its end.
    this.#phase = 'done';
    this.#deadline.clear();
    this.#connection.call = null;
    this.#connection.destroy();
  }
}

/** undici passes an upgrade's headers unchanged; its typings allow for texts, too. */
function headerList(rawHeaders: Buffer[] | string[] | null): HeaderList {
  const list: Buffer[] = [];
  for (const item of rawHeaders ?? [])
    list.push(typeof item === 'string' ? Buffer.from(item, 'latin1') : item);
  return toHeaderList(list);
}

function declinedTooLargeError(peer: string): GatewayError {
  return new GatewayError(
    'upstream_too_large',
    `${peer} declined WebSocket with an answer of more than ${maxDeclinedBytes} bytes; check that base_url and path serve WebSocket`,
    { source: 'provider' },
  );
}

/** The bound of requests in flight, or of origins in use, is reached. */
function transportBusy(what: string): GatewayError {
  return new GatewayError('upstream_busy', `${what}; try again when some of them have ended`);
}
