import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { AddressGuard } from '../addresses/address-guard.ts';
import { Connection, type ConnectionOwner, type SocketObserver } from './connection.ts';

/** Receives the events of a pool and of its sockets. */
export interface PoolOwner extends SocketObserver {
  /** No connection and no call is left. */
  poolEmpty(pool: OriginPool): void;
}

/**
 * The connections to one origin, one per concurrent call; idle ones are taken last in, first out, so that surplus ones
 * of a burst time out. (undici's `Pool` walks all its connections for every request, which with thousands of open
 * streams costs more than the request.)
 */
export class OriginPool implements ConnectionOwner {
  /** The origin in the spelling of callers. */
  readonly key: string;
  /** `host:port`, for messages. */
  readonly peer: string;
  /** Calls that wait for a connection. */
  pending = 0;
  /** Calls whose request is on the wire. */
  running = 0;
  /** It takes no more calls. */
  closed = false;
  /** Time of the last use, counted in calls of the transport. */
  lastUsed = 0;

  /** Set when its connections may reach public addresses only. */
  readonly guard: AddressGuard | undefined;

  readonly #origin: URL;
  readonly #owner: PoolOwner;
  readonly #connections = new Set<Connection>();
  #top: Connection | null = null;

  /** Throws when `origin` is not an http or https URL. */
  constructor(origin: string, owner: PoolOwner, guard: AddressGuard | undefined) {
    const url = new URL(origin);
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      const message = `cannot connect to ${origin}: only http and https are spoken; correct base_url`;
      throw new GatewayError('upstream_unreachable', message);
    }
    this.key = origin;
    this.guard = guard;
    this.#origin = new URL(url.origin);
    this.peer = `${url.hostname}:${url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port}`;
    this.#owner = owner;
  }

  get inFlight(): number {
    return this.pending + this.running;
  }

  /** An idle connection, or a new one. */
  acquire(): Connection {
    const connection = this.#top;
    if (connection !== null) {
      this.#unlink(connection);
      return connection;
    }
    return this.open();
  }

  /** A new connection. */
  open(): Connection {
    const fresh = new Connection(this.#origin, this, this.#owner, this.guard);
    this.#connections.add(fresh);
    return fresh;
  }

  /** Removes itself from the transport when nothing is left. */
  settle(): void {
    if (this.#connections.size === 0 && this.inFlight === 0) this.#owner.poolEmpty(this);
  }

  /** Ends every call with `reason` and closes every connection. */
  close(reason: GatewayError): void {
    this.closed = true;
    for (const connection of [...this.#connections]) {
      connection.call?.abort(reason);
      connection.destroy();
    }
  }

  connectionIdle(connection: Connection): void {
    if (connection === this.#top || connection.above !== null || connection.below !== null) return;
    connection.below = this.#top;
    if (this.#top !== null) this.#top.above = connection;
    this.#top = connection;
  }

  connectionGone(connection: Connection): void {
    this.#unlink(connection);
    this.#connections.delete(connection);
    this.settle();
  }

  #unlink(connection: Connection): void {
    if (connection.above !== null) connection.above.below = connection.below;
    else if (this.#top === connection) this.#top = connection.below;
    if (connection.below !== null) connection.below.above = connection.above;
    connection.above = null;
    connection.below = null;
  }
}
