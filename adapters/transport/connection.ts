import { connect as connectTcp, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import type { UpstreamCall } from '../../core/ports/transport.ts';
import type { AddressGuard } from '../addresses/address-guard.ts';
import { connect as connectTls, type TLSSocket } from 'node:tls';

/** Destination of a socket. */
interface SocketTarget {
  readonly secure: boolean;
  /** Name or address, without brackets. */
  readonly host: string;
  readonly port: number;
  /** Name for SNI and the certificate, when it differs from the host. */
  readonly servername: string | undefined;
  /** Resolves the name instead of the system. */
  readonly lookup: LookupFunction | undefined;
}

/**
 * The last TLS session of each server, so that the next connection to it resumes the session. Holds 1,000; the oldest
 * is evicted.
 */
export class TlsSessions {
  readonly #sessions = new Map<string, Buffer>();

  get(server: string): Buffer | undefined {
    return this.#sessions.get(server);
  }

  set(server: string, session: Buffer): void {
    this.#sessions.delete(server);
    this.#sessions.set(server, session);
    if (this.#sessions.size <= 1_000) return;
    for (const oldest of this.#sessions.keys()) {
      this.#sessions.delete(oldest);
      return;
    }
  }
}

/** Upper bound of bytes in one libuv read. */
const readBytes = 65_536;

/**
 * Shared read buffer of all sockets: a read is finished, and its bytes copied, before the next one of any socket
 * starts. Without it Node allocates 64 KiB for each read and frees most of it, which costs more than all other work for
 * a small piece of an answer. Deno and Windows read into memory that must remain the socket's own.
 */
const readOptions: { readonly onread?: OnReadOpts } =
  process.versions['deno'] !== undefined || process.platform === 'win32'
    ? {}
    : { onread: { buffer: Buffer.allocUnsafeSlow(readBytes), callback: passOn } };

/** Called on the socket after a read; false stops reading. */
function passOn(this: unknown, length: number, read: Uint8Array): boolean {
  const piece = Buffer.allocUnsafe(length);
  piece.set(read.subarray(0, length));
  return (this as Socket).push(piece);
}

/** Opens a TCP or TLS connection with TCP_NODELAY and keep-alive. Sets no timeout: the caller has the timer. */
function openSocket(target: SocketTarget, sessions: TlsSessions): Socket {
  const socket = target.secure ? openTls(target, sessions) : openTcp(target);
  socket.setNoDelay(true);
  socket.setKeepAlive(true, 60_000);
  return socket;
}

function openTcp(target: SocketTarget): Socket {
  // With a mark below the size of a read, reading would stop and restart for each. (Node passes the option to the
  // stream; its typings do not list it, hence the constant.)
  const { host, port, lookup } = target;
  const options = {
    host,
    port,
    highWaterMark: readBytes,
    ...readOptions,
    ...(lookup === undefined ? {} : { lookup }),
  };
  return connectTcp(options);
}

function openTls(target: SocketTarget, sessions: TlsSessions): TLSSocket {
  const servername = target.servername ?? (isIP(target.host) === 0 ? target.host : undefined);
  const server = `${servername ?? ''}@${target.host}:${target.port}`;
  const session = sessions.get(server);
  const socket = connectTls({
    host: target.host,
    port: target.port,
    ALPNProtocols: ['http/1.1'],
    ...readOptions,
    ...(servername === undefined ? {} : { servername }),
    ...(session === undefined ? {} : { session }),
    ...(target.lookup === undefined ? {} : { lookup: target.lookup }),
  });
  socket.on('session', (latest: Buffer) => sessions.set(server, latest));
  return socket;
}

const headEnd = Buffer.from('\r\n\r\n');
const prefix = Buffer.from('HTTP/1.');
const maxHeldBytes = 16_384;

/**
 * Removes informational answers (100 Continue, 103 Early Hints) before the final answer.
 *
 * undici closes a connection on an unrequested `100 Continue`, which servers may send at any time. After the start of a
 * final head, bytes pass untouched until the next `arm`. Holds at most 16 KiB.
 */
export class InformationalFilter {
  #armed = false;
  #held: Buffer | undefined;

  /** Call for each request: the next bytes start a head. */
  arm(): void {
    this.#armed = true;
    this.#held = undefined;
  }

  /** Bytes of the final answer, or undefined when all of them were informational or are held. */
  pass(chunk: Buffer): Buffer | undefined {
    if (!this.#armed) return chunk;
    let data = this.#held === undefined ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = undefined;
    while (data.length > 0) {
      const verdict = classify(data);
      if (verdict === 'final') {
        this.#armed = false;
        return data;
      }
      const end = verdict === 'unknown' ? -1 : data.indexOf(headEnd);
      if (end >= 0) {
        data = data.subarray(end + headEnd.length);
      } else if (data.length > maxHeldBytes) {
        this.#armed = false;
        return data;
      } else {
        this.#held = data;
        return undefined;
      }
    }
    return undefined;
  }
}

/** `unknown` while there are too few bytes to distinguish `HTTP/1.1 1xx` from anything else. */
function classify(data: Buffer): 'informational' | 'final' | 'unknown' {
  const known = Math.min(data.length, prefix.length);
  if (data.compare(prefix, 0, known, 0, known) !== 0) return 'final';
  if (data.length > 9 && data[9] !== 0x31) return 'final';
  if (data.length < 12) return 'unknown';
  // 101 is a final answer: the server leaves HTTP. undici reports it.
  return data[10] === 0x30 && data[11] === 0x31 ? 'final' : 'informational';
}

/** Receives the events of a connection. */
export interface ConnectionOwner {
  /** The connection can take the next call. */
  connectionIdle(connection: Connection): void;
  /** The connection is unusable and must be removed. */
  connectionGone(connection: Connection): void;
}

/** State shared by all sockets, and their counters. */
export interface SocketObserver {
  readonly sessions: TlsSessions;
  /** Returns the argument for `connected`. */
  opened(): number;
  connected(openedAt: number): void;
  closed(): void;
}

/**
 * One undici `Client`: at most one socket and one call at a time, so that failures, timeouts and aborts of a call never
 * affect another one.
 */
export class Connection {
  /** The call in progress, or null. */
  call: UpstreamCall | null = null;
  /** Neighbours in the owner's list of idle connections. */
  above: Connection | null = null;
  below: Connection | null = null;

  readonly #client: Client;
  readonly #owner: ConnectionOwner;
  readonly #observer: SocketObserver;
  readonly #guard: AddressGuard | undefined;
  readonly #filter = new InformationalFilter();
  #connecting: Socket | null = null;
  /** Start time of the connecting socket. */
  #openedAt = 0;
  #connected: buildConnector.Callback | undefined;
  #socket: Socket | null = null;
  /** Number of answers on the present socket. */
  #served = 0;
  #receiving = false;
  #held = false;
  #gone = false;

  /** With a `guard` it connects to public addresses only. `origin` is a `URL` so that it is shared, not copied. */
  constructor(
    origin: string | URL,
    owner: ConnectionOwner,
    observer: SocketObserver,
    guard: AddressGuard | undefined,
  ) {
    this.#guard = guard;
    this.#owner = owner;
    this.#observer = observer;
    this.#client = new Client(origin, {
      connect: this.#connect.bind(this),
      pipelining: 1,
      // The call has its own timers.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: 30_000,
    });
    this.#client.on('drain', () => {
      if (this.call === null && !this.#gone) owner.connectionIdle(this);
    });
    // With a call waiting to be written, undici reconnects by itself.
    this.#client.on('disconnect', () => {
      if (this.call === null) this.destroy();
    });
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#client.dispatch(options, handler);
  }

  /** The request of the present call is being written. */
  requestStarts(): void {
    this.#receiving = false;
    this.#filter.arm();
  }

  /** The answer of the present call is complete. */
  answerEnds(): void {
    this.#served += 1;
    this.#held = false;
    this.call = null;
  }

  /**
   * Gives undici no more bytes until `flow`; bytes already read stay in the socket, which then stops reading. (undici's
   * own pause leaves its parser in a state in which the end of the connection throws from an event.)
   */
  hold(): void {
    this.#held = true;
  }

  /** Must not be called from a callback of undici's parser. */
  flow(): void {
    this.#held = false;
    this.#socket?.emit('readable');
  }

  /** The socket has served an answer before, and the present call has received no byte. */
  get stale(): boolean {
    return this.#served > 0 && !this.#receiving;
  }

  /** The present call left HTTP and took over the socket: undici reads no more from it. */
  switched(): void {
    if (this.#socket !== null) Reflect.deleteProperty(this.#socket, 'read');
  }

  /** Closes the socket in any state. */
  destroy(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#owner.connectionGone(this);
    this.#connecting?.destroy();
    this.#client.destroy(noop);
  }

  // Objects reachable from its listeners stay in memory while the socket is open: there may be thousands of streams.
  #connect(options: buildConnector.Options, callback: buildConnector.Callback): void {
    const secure = options.protocol === 'https:';
    const guard = this.#guard;
    const refused = guard?.refusal(options.hostname);
    if (refused !== undefined) {
      queueMicrotask(() => callback(refused, null));
      return;
    }
    const socket = openSocket(
      {
        secure,
        host: options.hostname,
        port: Number(options.port) || (secure ? 443 : 80),
        servername: options.servername ?? undefined,
        lookup: guard?.lookup,
      },
      this.#observer.sessions,
    );
    this.#connecting = socket;
    this.#connected = callback;
    this.#served = 0;
    this.#openedAt = this.#observer.opened();
    // Before other listeners learn of the connection, so that a refused peer receives no byte.
    if (guard !== undefined) this.#checkPeer(socket, options.hostname, guard);
    this.#listen(socket, secure);
  }

  #checkPeer(socket: Socket, hostname: string, guard: AddressGuard): void {
    socket.prependOnceListener('connect', () => {
      const peer = socket.remoteAddress;
      const error = peer === undefined ? closedWhileConnecting() : guard.remoteRefusal(hostname, peer);
      if (error === undefined) return;
      this.#settle(socket, error);
      socket.destroy();
    });
  }

  #listen(socket: Socket, secure: boolean): void {
    socket.once(secure ? 'secureConnect' : 'connect', () => this.#settle(socket, null));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (this.#socket === socket) disguiseReset(error);
      this.#settle(socket, error);
    });
    socket.once('close', () => {
      if (this.#socket === socket) this.#socket = null;
      this.#settle(socket, new Error('the socket was closed while it connected'));
      this.#observer.closed();
    });
  }

  /** Reports the result of connecting to undici; only the first time for each socket. */
  #settle(socket: Socket, error: Error | null): void {
    const callback = this.#connected;
    if (this.#connecting !== socket || callback === undefined) return;
    this.#connecting = null;
    this.#connected = undefined;
    if (error !== null) {
      callback(error, null);
      return;
    }
    this.#socket = socket;
    this.#observer.connected(this.#openedAt);
    this.#watch(socket);
    callback(null, socket);
  }

  /** Sees every byte before undici: to hold it, to detect a stale connection, to drop informational answers. */
  #watch(socket: Socket): void {
    const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
    socket.read = (size?: number): Buffer | null => {
      // A read with a size is Node's own, to fill the buffer.
      if (this.#held && size === undefined) return null;
      let chunk = read(size);
      while (chunk !== null) {
        this.#receiving = true;
        const passed = this.#filter.pass(chunk);
        if (passed !== undefined) return passed;
        chunk = read();
      }
      return null;
    };
  }
}

/**
 * undici takes ECONNRESET during an answer without a length for a normal end: a cut stream would look complete. With
 * the code of undici's own socket errors it is reported as a reset. (A reset that arrives together with the last bytes
 * stays an end: libuv reports one, `uv__stream_io` with POLLHUP after a partial read.)
 */
function disguiseReset(error: NodeJS.ErrnoException): void {
  if (error.code === 'ECONNRESET') error.code = 'UND_ERR_SOCKET';
}

function closedWhileConnecting(): NodeJS.ErrnoException {
  return Object.assign(new Error('the socket was closed while it connected'), { code: 'ECONNRESET' });
}

function noop(): void {
  // undici requires a callback; otherwise it would create a promise.
}
