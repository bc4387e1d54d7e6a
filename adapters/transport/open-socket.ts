import { connect as connectTcp, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';

/** Where a socket goes. */
export interface SocketTarget {
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
export function openSocket(target: SocketTarget, sessions: TlsSessions): Socket {
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
