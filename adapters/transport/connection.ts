import { connect as connectTcp, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import type { UpstreamCall } from '../../core/ports/transport.ts';
import type { AddressGuard } from '../addresses/address-guard.ts';
import { connect as connectTls, type TLSSocket } from 'node:tls';

/** Where a socket goes. */
interface SocketTarget {
  readonly secure: boolean;
  /** Name or address, without brackets. */
  readonly host: string;
  readonly port: number;
  /** Name for SNI and the certificate, when it is not the host. */
  readonly servername: string | undefined;
  /** Resolves the name instead of the system. */
  readonly lookup: LookupFunction | undefined;
}

/**
 * The last TLS session of each server, so that the next connection to it resumes instead of negotiating. Holds
 * 1,000; the oldest makes room.
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

/** One libuv read brings as many bytes at the most. */
const readBytes = 65_536;

/**
 * Where all sockets read to: a read is over, and its bytes copied, before the next one of any socket begins. Without it
 * Node allocates 64 KiB for each read and gives most of it back, which costs more than everything else that a small
 * piece of an answer needs. Deno and Windows read into memory that has to stay the socket's own.
 */
const readOptions: { readonly onread?: OnReadOpts } =
  process.versions['deno'] !== undefined || process.platform === 'win32'
    ? {}
    : { onread: { buffer: Buffer.allocUnsafeSlow(readBytes), callback: passOn } };

/** Called on the socket that has read; false: it shall stop reading. */
function passOn(this: unknown, length: number, read: Uint8Array): boolean {
  const piece = Buffer.allocUnsafe(length);
  piece.set(read.subarray(0, length));
  return (this as Socket).push(piece);
}

/** Starts a TCP or TLS connection with TCP_NODELAY and keep-alive. Bounds nothing: the caller holds the timer. */
function openSocket(target: SocketTarget, sessions: TlsSessions): Socket {
  const socket = target.secure ? openTls(target, sessions) : openTcp(target);
  socket.setNoDelay(true);
  socket.setKeepAlive(true, 60_000);
  return socket;
}

function openTcp(target: SocketTarget): Socket {
  // With a smaller mark than a read brings, reading would stop and start again for each. (Node hands the option to the
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
 * Takes informational answers (100 Continue, 103 Early Hints) out of the bytes that precede the final answer.
 *
 * undici gives up a connection on a `100 Continue` that nobody asked for, which servers may send at any time.
 * Once a final head begins, bytes pass untouched until the next `arm`. Holds at most 16 KiB.
 */
export class InformationalFilter {
  #armed = false;
  #held: Buffer | undefined;

  /** Call when a request goes out: the next bytes begin a head. */
  arm(): void {
    this.#armed = true;
    this.#held = undefined;
  }

  /** The bytes that belong to a final answer, or undefined when all of them were informational or are held. */
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

/** `unknown` while too few bytes have come to tell `HTTP/1.1 1xx` from anything else. */
function classify(data: Buffer): 'informational' | 'final' | 'unknown' {
  const known = Math.min(data.length, prefix.length);
  if (data.compare(prefix, 0, known, 0, known) !== 0) return 'final';
  if (data.length > 9 && data[9] !== 0x31) return 'final';
  if (data.length < 12) return 'unknown';
  // 101 is an answer: the server leaves HTTP. undici reports it.
  return data[10] === 0x30 && data[11] === 0x31 ? 'final' : 'informational';
}

/** Hears what becomes of a connection. */
export interface ConnectionOwner {
  /** It may take the next call. */
  connectionIdle(connection: Connection): void;
  /** It is of no more use and must be forgotten. */
  connectionGone(connection: Connection): void;
}

/** What all sockets share, and who counts them. */
export interface SocketObserver {
  readonly sessions: TlsSessions;
  /** Returns what `connected` is to be given. */
  opened(): number;
  connected(openedAt: number): void;
  closed(): void;
}

/**
 * One undici `Client`: at most one socket and at most one call at a time, so that failures, timeouts and aborts of
 * a call never touch another one.
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
  /** Of the socket that is connecting. */
  #openedAt = 0;
  #connected: buildConnector.Callback | undefined;
  #socket: Socket | null = null;
  /** Answers that the present socket has delivered. */
  #served = 0;
  #receiving = false;
  #held = false;
  #gone = false;

  /** With a `guard` it connects to public addresses only. As a `URL`, `origin` is shared, not copied. */
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
      // The call holds its own timers.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: 30_000,
    });
    this.#client.on('drain', () => {
      if (this.call === null && !this.#gone) owner.connectionIdle(this);
    });
    // With a call waiting to be written, undici connects again by itself.
    this.#client.on('disconnect', () => {
      if (this.call === null) this.destroy();
    });
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#client.dispatch(options, handler);
  }

  /** The request of the present call goes on the wire now. */
  requestStarts(): void {
    this.#receiving = false;
    this.#filter.arm();
  }

  /** The present call had its whole answer. */
  answerEnds(): void {
    this.#served += 1;
    this.#held = false;
    this.call = null;
  }

  /**
   * Gives undici no more bytes until `flow`; what is read already stays in the socket, which then stops reading.
   * (undici's own pause leaves its parser in a state in which the end of the connection throws from an event.)
   */
  hold(): void {
    this.#held = true;
  }

  /** Not to be called from inside a callback of undici's parser. */
  flow(): void {
    this.#held = false;
    this.#socket?.emit('readable');
  }

  /** The socket had served an answer before, and the present call got not one byte. */
  get stale(): boolean {
    return this.#served > 0 && !this.#receiving;
  }

  /** The present call left HTTP and took the socket along: nothing is read for undici any more. */
  switched(): void {
    if (this.#socket !== null) Reflect.deleteProperty(this.#socket, 'read');
  }

  /** Closes the socket, whatever it is doing. */
  destroy(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#owner.connectionGone(this);
    this.#connecting?.destroy();
    this.#client.destroy(noop);
  }

  // Objects that its listeners can reach stay in memory as long as the socket is open: thousands of streams may be.
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
    // Before anything else hears that the socket stands, so that a refused peer gets not one byte.
    if (guard !== undefined) this.#checkPeer(socket, options.hostname, guard);
    this.#listen(socket, secure);
  }

  #checkPeer(socket: Socket, hostname: string, guard: AddressGuard): void {
    socket.prependOnceListener('connect', () => {
      const peer = socket.remoteAddress;
      const error = peer === undefined ? endedAtOnce() : guard.remoteRefusal(hostname, peer);
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

  /** Tells undici how connecting ended; only the first time for each socket. */
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

  /** Sees every byte before undici does: to hold it, to tell a stale connection, to drop informational answers. */
  #watch(socket: Socket): void {
    const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
    socket.read = (size?: number): Buffer | null => {
      // With a size it is Node itself that asks, to fill the buffer.
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
 * undici takes ECONNRESET under an answer that ends with its connection for a proper end: a cut stream would look
 * complete. Under the code of its own socket errors a reset is what it is.
 */
function disguiseReset(error: NodeJS.ErrnoException): void {
  if (error.code === 'ECONNRESET') error.code = 'UND_ERR_SOCKET';
}

function endedAtOnce(): NodeJS.ErrnoException {
  return Object.assign(new Error('the socket was closed while it connected'), { code: 'ECONNRESET' });
}

function noop(): void {
  // undici wants a callback where it would otherwise make a promise.
}
