import type { Clock } from '../../core/ports/clock.ts';
import { DeadlineWheel } from '../../core/base/deadline.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Metrics } from '../../core/ports/metrics.ts';
import type {
  Transport,
  UpgradeCall,
  UpstreamCall,
  UpstreamHandler,
  UpstreamRequest,
} from '../../core/ports/transport.ts';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { type AddressGuard, createAddressGuard, type Resolve } from '../addresses/address-guard.ts';
import { HttpCall, type HttpCallEnvironment } from './http-call.ts';
import { TlsSessions } from './connection.ts';
import { OriginPool, type PoolOwner } from './origin-pool.ts';
import { transportBusy, transportClosed, transportError } from './transport-errors.ts';
import { HttpUpgrade } from './upgrade-call.ts';

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
    for (const pool of this.#allPools()) pool.close(transportClosed());
    // Sockets of calls that have just ended are no longer in a pool, but may still be closing.
    if (this.#sockets > 0) await new Promise<void>((resolve) => (this.#lastClosed = resolve));
  }

  /** The pool for one more call, or the error that there is none. */
  #admit(request: UpstreamRequest): OriginPool | GatewayError {
    if (this.#closing !== undefined) return transportClosed();
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
      return transportError(cause, { peer: origin, phase: 'connecting', receivedBytes: 0 });
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
    oldest.close(transportClosed());
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
