import { createHash } from 'node:crypto';
import { Duplex } from 'node:stream';
import type { Clock } from '../../core/ports/clock.ts';

/** Upper bound of bytes in one client message. */
const maxMessageBytes = 4 * 1024 * 1024;
/** Pending answers at which reading stops. */
const maxWaiting = 32;
/** Constant that every handshake appends to the client's key (RFC 6455, section 1.3). */
const handshakeGuid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** Messages of a WebSocket conversation. Each text is a message in one frame. */
export interface SocketSession {
  /** Sent as soon as the connection is open. */
  readonly greeting: Iterable<string>;
  /** Answers to a message; read piece by piece, when there is room. */
  receive(message: string): Iterable<string>;
}

/** Settings of a connection's session. */
interface MockSocketOptions {
  readonly session: SocketSession;
  readonly clock: Clock;
  /** Milliseconds between two messages. Default 0. */
  readonly pauseMs?: number | undefined;
  /** The connection is cut after this many messages of the session. */
  readonly resetAfter?: number | undefined;
}

/** `Sec-WebSocket-Accept` for the client's key. */
export function acceptOf(key: string): string {
  return createHash('sha1')
    .update(key + handshakeGuid)
    .digest('base64');
}

/** Server end of a WebSocket connection in this process (RFC 6455, without extensions), driven by a session. */
export class MockSocket extends Duplex {
  readonly #options: MockSocketOptions;
  readonly #waiting: Iterator<string>[] = [];
  #unread: Buffer = Buffer.alloc(0);
  #parts: Buffer[] = [];
  #partBytes = 0;
  #hasRoom = false;
  #closing = false;
  #said = 0;
  #stopPause: (() => void) | undefined;
  #readOn: (() => void) | undefined;

  constructor(options: MockSocketOptions) {
    super({ allowHalfOpen: true });
    this.#options = options;
    this.#waiting.push(options.session.greeting[Symbol.iterator]());
  }

  override _read(): void {
    this.#hasRoom = true;
    this.#speak();
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
    this.#readFrames(done);
  }

  override _final(done: () => void): void {
    this.#end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#stopPause?.();
    this.#waiting.length = 0;
    done(error);
  }

  /** Reads the received bytes, until too many answers are pending. */
  #readFrames(done: () => void): void {
    while (!this.#closing) {
      if (this.#waiting.length > maxWaiting) {
        this.#readOn = () => this.#readFrames(done);
        return;
      }
      const frame = takeFrame(this.#unread);
      if (frame === undefined) break;
      if (typeof frame === 'number') {
        this.#close(frame);
        break;
      }
      this.#unread = frame.rest;
      this.#hear(frame);
    }
    if (this.#closing) this.#unread = Buffer.alloc(0);
    done();
  }

  #hear({ opcode, final, payload }: Frame): void {
    switch (opcode) {
      case opcodes.close:
        this.#close(payload.length >= 2 ? payload.readUInt16BE(0) : undefined);
        return;
      case opcodes.ping:
        this.#put(opcodes.pong, payload);
        return;
      case opcodes.pong:
        return;
      case opcodes.binary:
        this.#close(1003);
        return;
      case opcodes.text:
      case opcodes.continuation:
        if ((opcode === opcodes.text) !== (this.#parts.length === 0)) this.#close(1002);
        else this.#add(payload, final);
        return;
      default:
        this.#close(1002);
    }
  }

  #add(payload: Buffer, final: boolean): void {
    this.#parts.push(payload);
    this.#partBytes += payload.length;
    if (this.#partBytes > maxMessageBytes || this.#parts.length > 10_000) {
      this.#close(1009);
      return;
    }
    if (!final) return;
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#partBytes = 0;
    let text: string;
    try {
      text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch {
      this.#close(1007);
      return;
    }
    this.#waiting.push(this.#options.session.receive(text)[Symbol.iterator]());
    this.#speak();
  }

  /** Sends pending messages while there is room and no pause. */
  #speak(): void {
    const { clock, pauseMs = 0, resetAfter } = this.#options;
    while (this.#hasRoom && this.#stopPause === undefined && !this.#closing) {
      const next = this.#waiting[0]?.next();
      if (next === undefined) return;
      if (next.done === true) {
        this.#waiting.shift();
        const readOn = this.#readOn;
        this.#readOn = undefined;
        readOn?.();
        continue;
      }
      if (this.#said === resetAfter) {
        this.destroy(new Error('The mock provider cut the connection, as `reset_after_chunks` asks.'));
        return;
      }
      this.#said += 1;
      this.#put(opcodes.text, Buffer.from(next.value));
      if (pauseMs === 0) continue;
      this.#stopPause = clock.after(pauseMs, () => {
        this.#stopPause = undefined;
        this.#speak();
      });
    }
  }

  #put(opcode: number, payload: Buffer): void {
    if (!this.#closing) this.#hasRoom = this.push(serverFrame(opcode, payload));
  }

  /** Sends a close frame with the client's code or a reason, and ends. */
  #close(code: number | undefined): void {
    const payload = Buffer.alloc(code === undefined ? 0 : 2);
    if (code !== undefined) payload.writeUInt16BE(code, 0);
    this.#put(opcodes.close, payload);
    this.#end();
  }

  #end(): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#stopPause?.();
    this.#waiting.length = 0;
    this.push(null);
    const readOn = this.#readOn;
    this.#readOn = undefined;
    readOn?.();
  }
}

interface Frame {
  readonly opcode: number;
  readonly final: boolean;
  readonly payload: Buffer;
  readonly rest: Buffer;
}

/** The first frame of the bytes, undefined while it is incomplete, or the close code for an invalid one. */
function takeFrame(bytes: Buffer): Frame | number | undefined {
  if (bytes.length < 2) return undefined;
  const [first, second] = [bytes[0] as number, bytes[1] as number];
  const opcode = first & 0x0f;
  const final = (first & 0x80) !== 0;
  let length = second & 0x7f;
  const isControl = opcode >= 8;
  // No extension was negotiated, and clients mask their frames.
  if ((first & 0x70) !== 0 || (second & 0x80) === 0 || (isControl && (!final || length > 125))) return 1002;
  let at = 2;
  if (length >= 126) {
    const size = length === 126 ? 2 : 8;
    if (bytes.length < 2 + size) return undefined;
    length = size === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
    at += size;
  }
  if (length > maxMessageBytes) return 1009;
  if (bytes.length < at + 4 + length) return undefined;
  const mask = bytes.subarray(at, at + 4);
  const payload = Buffer.from(bytes.subarray(at + 4, at + 4 + length));
  for (let i = 0; i < length; i++) payload[i] = (payload[i] as number) ^ (mask[i % 4] as number);
  return { opcode, final, payload, rest: bytes.subarray(at + 4 + length) };
}

function serverFrame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = 0x80 | opcode;
  if (length < 126) head[1] = length;
  else if (length < 65_536) {
    head[1] = 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([head, payload]);
}
