import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import { joinChunks } from '../base/bytes.ts';
import { atTurnEnd, type Waiting } from '../base/turns.ts';
import { withoutHeader } from '../ports/header-list.ts';
import {
  BodyCollector,
  type PaceLimits,
  tooLarge,
  overloaded,
  StreamedBody,
  oneBuffer,
} from './receive-body.ts';

/**
 * Bodies from this length on are counted together with the memory of parsing: their text, their values, the copy that
 * is sent.
 */
const countedParsing = 16_384;

/** Memory of parsing per byte of the body, in bytes. */
const parsingBytesPerByte = 2;

/** Share of the memory reserved for short bodies: slow senders of long ones must not stop ordinary requests. */
const shareOfShort = 1 / 16;

/** Bodies that are forwarded without parsing. */
const upload = /^\s*(?:multipart|audio|image|video)\//i;

/** Upper bound of the memory of parsing, in addition to the body. */
function parsingBytes(bodyBytes: number): number {
  return bodyBytes < countedParsing ? 0 : bodyBytes * parsingBytesPerByte;
}

/** Shared memory bound of all request bodies. */
export class BufferBudget {
  private readonly limit: number;
  private readonly limitOfLong: number;
  private used = 0;

  constructor(limit: number) {
    this.limit = limit;
    this.limitOfLong = Math.floor(limit * (1 - shareOfShort));
  }

  /**
   * Reserves memory; false, without reserving, when there is no room. `isLong`: for a body that leaves a share to the
   * others.
   */
  take(bytes: number, isLong = false): boolean {
    if (!this.hasRoom(bytes, isLong)) return false;
    this.used += bytes;
    return true;
  }

  /** Whether there is room for this number of bytes. */
  hasRoom(bytes: number, isLong = false): boolean {
    return this.used + bytes <= (isLong ? this.limitOfLong : this.limit);
  }

  give(bytes: number): void {
    this.used -= bytes;
  }

  get usedBytes(): number {
    return this.used;
  }
}

export interface BodyLimits extends PaceLimits {
  readonly maxBytes: number;
  readonly budget: BufferBudget;
}

/** The client's request for the pipeline: raw, lazy, and the same on every runtime. */
export class IncomingRequest {
  readonly message: IncomingMessage;
  private readonly response: ServerResponse;
  private readonly limits: BodyLimits;
  private readonly expectsContinue: boolean;
  private collector: BodyCollector | undefined;
  private heldBytes = 0;
  /** The part of these that is counted for parsing. */
  private parsingBytes = 0;
  private consumed = false;

  constructor(
    message: IncomingMessage,
    response: ServerResponse,
    limits: BodyLimits,
    expectsContinue: boolean,
  ) {
    this.message = message;
    this.response = response;
    this.limits = limits;
    this.expectsContinue = expectsContinue;
  }

  header(name: string): string | undefined {
    const value = this.message.headers[name];
    return typeof value === 'string' ? value : value?.[0];
  }

  /** Replaces all headers of this name; undefined removes them. */
  setHeader(name: string, value: string | undefined): void {
    const { message } = this;
    const lower = name.toLowerCase();
    // Node makes `headers` of `rawHeaders` at the first access, so this comes first.
    delete message.headers[lower];
    message.rawHeaders = withoutHeader(message.rawHeaders, lower);
    if (value === undefined) return;
    message.headers[lower] = value;
    message.rawHeaders.push(name, value);
  }

  /** A length or chunked framing announces a body; a GET without either has none. */
  get hasBody(): boolean {
    const { headers } = this.message;
    const length = headers['content-length'];
    return (length !== undefined && length !== '0') || headers['transfer-encoding'] !== undefined;
  }

  /**
   * The client still waits for `100 Continue`: it may never send its body, so the connection serves no other request.
   */
  get awaitsContinue(): boolean {
    return this.expectsContinue && !this.consumed;
  }

  /**
   * The whole body, synchronously when it has arrived. Throws `body_too_large`, `overloaded`, `body_timeout` or
   * `client_closed`.
   */
  readBody(): Buffer | Promise<Buffer> {
    const announced = Number(this.header('content-length') ?? 0);
    if (announced > this.limits.maxBytes) throw tooLarge(this.limits.maxBytes);
    if (this.message.complete) return this.receivedBody();
    const isParsed = !upload.test(this.header('content-type') ?? '');
    // Refused before any byte arrives; reserves only received bytes, so that slow senders do not hold what they
    // announce.
    const memoryFor = (bytes: number): number => bytes + (isParsed ? parsingBytes(bytes) : 0);
    if (!this.limits.budget.hasRoom(memoryFor(announced), announced > oneBuffer)) throw overloaded();
    this.beginBody();
    return new Promise((resolve, reject) => {
      const received = (body: Buffer): void => {
        // Unless it was released meanwhile.
        if (this.collector !== undefined) {
          this.parsingBytes = isParsed ? parsingBytes(body.length) : 0;
          this.heldBytes += body.length + this.parsingBytes;
          this.collector = undefined;
        }
        resolve(body);
      };
      const collected = { announced, memoryFor, received, refused: reject };
      this.collector = new BodyCollector(this.message, this.limits, collected);
    });
  }

  /** Body of a request that has already arrived: most come with their head. */
  private receivedBody(): Buffer {
    const { message, limits } = this;
    this.consumed = true;
    if (message.readableLength > limits.maxBytes) throw tooLarge(limits.maxBytes);
    const body = (message.read() as Buffer | null) ?? Buffer.alloc(0);
    this.hold(body.length);
    if (body.length >= countedParsing && !upload.test(this.header('content-type') ?? ''))
      this.holdParsing(body.length);
    return body;
  }

  /** The unread body, for forwarding as a stream. A client that pauses too long breaks it with `body_timeout`. */
  streamBody(): Readable {
    this.beginBody();
    return new StreamedBody(this.message, this.limits);
  }

  /** Counts memory of this request. Throws `overloaded` when there is no room; `isSpare` leaves a share to others. */
  hold(bytes: number, isSpare = false): void {
    if (!this.limits.budget.take(bytes, isSpare)) throw overloaded();
    this.heldBytes += bytes;
  }

  /**
   * Counts the memory of parsing a body of that length, unless it is counted already. Throws `overloaded` when there is
   * no room.
   */
  holdParsing(bodyBytes: number): void {
    const more = parsingBytes(bodyBytes) - this.parsingBytes;
    if (more <= 0) return;
    this.hold(more);
    this.parsingBytes += more;
  }

  /** Releases the memory of the parsed body. */
  releaseParsing(): void {
    this.limits.budget.give(this.parsingBytes);
    this.heldBytes -= this.parsingBytes;
    this.parsingBytes = 0;
  }

  /** Releases the counted memory. A client that is still sending may finish, for a while. */
  release(): void {
    this.collector?.release();
    this.collector = undefined;
    this.limits.budget.give(this.heldBytes);
    this.heldBytes = this.parsingBytes = 0;
    if (this.hasBody && !this.message.complete) this.dropRest();
  }

  /**
   * Cutting at once would lose the answer in transit; reading without limit would leave the client a connection for
   * nothing.
   */
  private dropRest(): void {
    const { message } = this;
    const timer = setTimeout(() => message.socket.destroy(), this.limits.idleTimeoutMs);
    timer.unref();
    message.once('close', () => clearTimeout(timer));
  }

  private beginBody(): void {
    this.consumed = true;
    if (this.expectsContinue) this.response.writeContinue();
  }
}

/** Larger chunks are not copied. */
const maxFramedBytes = 8 * 1024;

/** Upper bound of bytes gathered in one turn of the event loop before they are written. */
const maxTurnBytes = 64 * 1024;

/** A longer answer is not joined with its head into one text. */
const maxTextBytes = 16 * 1024;

/** Deno's answers do not write to the socket that they expose. */
const joinsFrames = process.versions['deno'] === undefined;

/** The parts of a sink that a request uses. */
export type AnswerSink = Omit<ResponseSink, 'run'>;

/** Sink of an answer: a head once, bytes with back-pressure, and an end or a cut. */
export class ResponseSink implements Waiting {
  private readonly response: ServerResponse;
  /** Longest time without the client accepting a byte, in milliseconds. */
  readonly stallTimeoutMs: number;
  private watching = false;
  private hearsTimeout = false;
  private hearsDrain = false;
  private isClosed = false;
  private flushed = true;
  private wasCut = false;
  /** The head is sent, and this runtime's answers write to the socket that they expose. */
  private framesItself = false;
  /** Chunks of this turn of the event loop, not written yet. */
  private chunks: Buffer[] | undefined;
  private chunkBytes = 0;
  /** Back-pressure: the client must read before more is accepted. */
  private isFull = false;
  private drainListener: (() => void) | undefined;
  private closeListener: ((complete: boolean) => void) | undefined;
  headSent = false;
  ended = false;
  /** The client accepted no byte for the stall timeout. */
  stalled = false;

  constructor(response: ServerResponse, stallTimeoutMs: number) {
    this.response = response;
    this.stallTimeoutMs = stallTimeoutMs;
    response.on('close', () => this.closed());
    // The client left before its request was handled.
    if (response.destroyed) queueMicrotask(() => this.closed());
    else if (response.socket === null) this.watchConnection();
  }

  /**
   * Runs once when the connection of this answer closes; `complete` means that every byte was handed over. Listeners
   * run in the order of registration.
   */
  onClose(run: (complete: boolean) => void): void {
    const before = this.closeListener;
    this.closeListener = before
      ? (complete) => {
          before(complete);
          run(complete);
        }
      : run;
  }

  head(status: number, headers: string[], statusText?: string): void {
    this.headSent = true;
    // Node types the flat list as a plain array; it writes it unchanged, repeated names included.
    if (statusText === undefined) this.response.writeHead(status, headers);
    else this.response.writeHead(status, statusText, headers);
  }

  /** The connection was given away after a head that is not this answer's; it closes when its new owner is done. */
  switchedAway(socket: Duplex): void {
    this.headSent = true;
    socket.once('close', () => this.closed());
  }

  /** Sends the head before the first byte of the body. */
  flushHead(): void {
    this.response.flushHeaders();
  }

  /**
   * Writes at the end of this turn of the event loop, together with other chunks of the turn. False: stop until
   * `onDrain`.
   */
  write(chunk: Buffer): boolean {
    this.chunkBytes += chunk.length;
    if (this.chunks === undefined) {
      this.chunks = [chunk];
      atTurnEnd(this);
    } else {
      this.chunks.push(chunk);
    }
    if (this.chunkBytes > maxTurnBytes) this.run();
    return !this.isFull;
  }

  /** Writes the gathered chunks. */
  run(): void {
    const { chunks } = this;
    if (chunks === undefined) return;
    this.chunks = undefined;
    this.chunkBytes = 0;
    this.writeNow(joinChunks(chunks));
  }

  private writeNow(chunk: Buffer): void {
    if (this.framesItself && this.writeFramed(chunk)) return;
    this.framesItself = joinsFrames;
    if (this.response.write(chunk)) return;
    this.isFull = true;
    this.watchStall();
  }

  /**
   * Writes one chunk of a chunked answer as one buffer straight to an idle socket. Node would write its length, its end
   * and the chunk as four buffers, which costs more than all other work on a small chunk. Only after the head, which
   * goes out with the first write, and only while nothing waits: writes that need back-pressure use Node's own path.
   */
  private writeFramed(chunk: Buffer): boolean {
    const { response } = this;
    const { socket } = response;
    if (socket === null || !response.chunkedEncoding || response.writableLength > 0 || !socket.writable)
      return false;
    const { length } = chunk;
    if (length === 0 || length > maxFramedBytes) return false;
    // Digit by digit: converting to text and writing it would need a native call.
    const digits = length < 0x10 ? 1 : length < 0x100 ? 2 : length < 0x1000 ? 3 : 4;
    const frame = Buffer.allocUnsafe(digits + 4 + length);
    for (let i = 0; i < digits; i++) frame[i] = hexDigit((length >> (4 * (digits - 1 - i))) & 0xf);
    frame[digits] = 0x0d;
    frame[digits + 1] = 0x0a;
    frame.set(chunk, digits + 2);
    frame[digits + 2 + length] = 0x0d;
    frame[digits + 3 + length] = 0x0a;
    socket.write(frame);
    return true;
  }

  /** Called whenever a full buffer has drained. */
  onDrain(run: () => void): void {
    this.drainListener = run;
    this.hearDrain();
  }

  /** Ends the answer. */
  end(chunk?: Buffer): void {
    this.run();
    this.ended = true;
    if (chunk === undefined) this.response.end();
    else if (joinsFrames && chunk.length <= maxTextBytes) this.endWithText(chunk.toString('latin1'));
    else this.response.end(chunk);
    // Bytes that fit into the socket's buffer leave with the next turn; a larger rest needs a client that reads.
    const { response } = this;
    if (response.writableLength <= response.writableHighWaterMark) return;
    this.flushed = false;
    const { socket } = response.req;
    // Node emits `finish` also for an answer whose connection was destroyed.
    response.once('finish', () => (this.flushed = !socket.destroyed));
    this.watchStall();
  }

  /**
   * Node joins a text to the head and writes both at once; bytes would go through a list. Ending with the text would
   * still make a list of it and an empty end, which costs twice as much for an answer of usual size: so the text is
   * written first, corked just long enough that Node does not defer it to the next turn.
   */
  private endWithText(text: string): void {
    const { response } = this;
    const { socket } = response;
    // Without a socket, or chunked with a final frame, it leaves in pieces anyway.
    if (socket === null || response.chunkedEncoding) {
      response.end(text, 'latin1');
      return;
    }
    socket.cork();
    response.write(text, 'latin1');
    socket.uncork();
    response.end();
  }

  /** Ends abnormally, so that the client can tell; writes `last` first if given. */
  cut(last?: Buffer): void {
    this.run();
    this.ended = true;
    this.wasCut = true;
    const { socket } = this.response;
    if (last !== undefined && socket && !this.response.destroyed) this.response.write(last);
    // destroySoon: written bytes leave first, then the connection ends without the final chunk.
    if (!socket) {
      this.response.destroy();
      return;
    }
    this.watchStall();
    socket.destroySoon();
  }

  /** The socket's own timer sees progress within one large write. It is ours until the answer has left. */
  private watchStall(): void {
    if (this.watching) return;
    this.watching = true;
    this.hearDrain();
    if (!this.hearsTimeout) {
      this.hearsTimeout = true;
      this.response.on('timeout', () => {
        this.stalled = true;
        this.response.destroy();
      });
    }
    this.response.setTimeout(this.stallTimeoutMs);
  }

  private hearDrain(): void {
    if (this.hearsDrain) return;
    this.hearsDrain = true;
    this.response.on('drain', () => this.drained());
  }

  private drained(): void {
    if (this.watching) this.response.setTimeout(0);
    this.watching = false;
    this.isFull = false;
    this.drainListener?.();
  }

  /** The answer to a pipelined request has no socket before its turn, and gets no event when the connection closes. */
  private watchConnection(): void {
    const { socket } = this.response.req;
    socket.setMaxListeners(0);
    socket.once('close', () => this.closed());
  }

  private closed(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.chunks = undefined;
    this.closeListener?.(this.ended && !this.wasCut && this.flushed);
  }
}

function hexDigit(value: number): number {
  return value < 10 ? 0x30 + value : 0x57 + value;
}
