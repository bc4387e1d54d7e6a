import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { joinChunks } from '../base/bytes.ts';
import { atTurnEnd, type Waiting } from '../base/turns.ts';

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
