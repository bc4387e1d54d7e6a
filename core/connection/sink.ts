import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { joinChunks } from '../base/join-chunks.ts';
import { atTurnEnd, type Waiting } from '../base/turns.ts';

/** Larger chunks are not copied. */
const maxFramedBytes = 8 * 1024;
/** What may come within one turn of the event loop before it is written. */
const maxTurnBytes = 64 * 1024;
/** A longer answer is not copied to leave as one text with its head. */
const maxTextBytes = 16 * 1024;
/** Deno's answers do not stand on the socket that they show. */
const joinsFrames = process.versions['deno'] === undefined;

/** Where the answer goes: a head once, bytes with back-pressure, and an end or a cut. */
export class ResponseSink implements Waiting {
  private readonly response: ServerResponse;
  /** Milliseconds for which a client may accept no byte. */
  readonly stallTimeoutMs: number;
  private watching = false;
  private hearsTimeout = false;
  private hearsDrain = false;
  private isClosed = false;
  private flushed = true;
  private wasCut = false;
  /** The head has gone out, and this runtime's answers write to the socket that they name. */
  private framesItself = false;
  /** What came with this turn of the event loop and is not written yet. */
  private chunks: Buffer[] | undefined;
  private chunkBytes = 0;
  /** The client has to take something before more is wanted. */
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
    // The client has left before its request was looked at.
    if (response.destroyed) queueMicrotask(() => this.closed());
    else if (response.socket === null) this.watchConnection();
  }

  /**
   * Runs once when the connection of this answer closes; `complete` tells whether every byte had been handed over.
   * Listeners run in the order in which they came.
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
    // Node types the flat list as a plain array; it writes it as it is, repeated names included.
    if (statusText === undefined) this.response.writeHead(status, headers);
    else this.response.writeHead(status, statusText, headers);
  }

  /** The connection was given away after another head than this answer's; it closes when its new owner is done. */
  switchedAway(socket: Duplex): void {
    this.headSent = true;
    socket.once('close', () => this.closed());
  }

  /** Sends the head alone, before a first byte has come. */
  flushHead(): void {
    this.response.flushHeaders();
  }

  /** Leaves at the end of this turn of the event loop, together with what else comes with it. False: stop until `onDrain`. */
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

  /** Writes what has come. */
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
   * One chunk of a chunked answer as one buffer straight to an idle socket. Node would write its length, its end and the
   * chunk as four buffers, which costs more than everything else that happens to a small chunk. Only behind the head,
   * which goes out with the first write, and while nothing waits: whatever needs back-pressure goes Node's own way.
   */
  private writeFramed(chunk: Buffer): boolean {
    const { response } = this;
    const { socket } = response;
    if (socket === null || !response.chunkedEncoding || response.writableLength > 0 || !socket.writable)
      return false;
    const { length } = chunk;
    if (length === 0 || length > maxFramedBytes) return false;
    // Digit by digit: as a text the length would be made and then written by a call out of JavaScript.
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
    // Node says `finish` also of an answer whose connection was destroyed under it.
    response.once('finish', () => (this.flushed = !socket.destroyed));
    this.watchStall();
  }

  /**
   * Node puts a text behind the head and writes both as one, where bytes would be gathered from a list. Ending with the
   * text would still make a list of it and of an empty end, which costs twice as much for an answer of the usual size:
   * the text is written first, and held back just so long that Node does not hold it back until the next turn.
   */
  private endWithText(text: string): void {
    const { response } = this;
    const { socket } = response;
    // Before its turn, or with a frame at its end, it leaves in pieces one way or the other.
    if (socket === null || response.chunkedEncoding) {
      response.end(text, 'latin1');
      return;
    }
    socket.cork();
    response.write(text, 'latin1');
    socket.uncork();
    response.end();
  }

  /** Ends without a proper end, so that the client can tell; `last` is still written when there is something to say. */
  cut(last?: Buffer): void {
    this.run();
    this.ended = true;
    this.wasCut = true;
    const { socket } = this.response;
    if (last !== undefined && socket && !this.response.destroyed) this.response.write(last);
    // destroySoon: what has been written leaves first, then the connection ends without the final chunk.
    if (!socket) {
      this.response.destroy();
      return;
    }
    this.watchStall();
    socket.destroySoon();
  }

  /** The socket's own timer knows of progress within one large write. It belongs to us until the answer has left. */
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

  /** The answer to a pipelined request has no socket before its turn, and never hears that the connection has gone. */
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
