import type { ServerResponse } from 'node:http';

/** Where the answer goes: a head once, bytes with back-pressure, and an end or a cut. */
export class ResponseSink {
  private readonly response: ServerResponse;
  private readonly stallTimeoutMs: number;
  private stallTimer: NodeJS.Timeout | undefined;
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
  }

  /** Runs once when the connection of this answer closes; `complete` tells whether every byte had been handed over. */
  onClose(run: (complete: boolean) => void): void {
    this.closeListener = run;
  }

  head(status: number, headers: string[], statusText?: string): void {
    this.headSent = true;
    // Node types the flat list as a plain array; it writes it as it is, repeated names included.
    if (statusText === undefined) this.response.writeHead(status, headers);
    else this.response.writeHead(status, statusText, headers);
  }

  /** Sends the head alone, before a first byte has come. */
  flushHead(): void {
    this.response.flushHeaders();
  }

  /** False: stop until `onDrain`. */
  write(chunk: Buffer): boolean {
    const room = this.response.write(chunk);
    if (!room) this.watchStall();
    return room;
  }

  /** Called whenever a full buffer has drained. */
  onDrain(run: () => void): void {
    this.drainListener = run;
    this.response.on('drain', () => this.drained());
  }

  end(chunk?: Buffer): void {
    this.ended = true;
    if (chunk === undefined) this.response.end();
    else this.response.end(chunk);
    if (this.response.writableNeedDrain) this.watchStall();
  }

  /** Ends without a proper end, so that the client can tell; `last` is still written when there is something to say. */
  cut(last?: Buffer): void {
    this.ended = true;
    const { socket } = this.response;
    if (last !== undefined && socket && !this.response.destroyed) this.response.write(last);
    // destroySoon: what has been written leaves first, then the connection ends without the final chunk.
    if (socket) socket.destroySoon();
    else this.response.destroy();
  }

  private watchStall(): void {
    if (this.stallTimer) return;
    this.stallTimer = setTimeout(() => {
      this.stalled = true;
      this.response.destroy();
    }, this.stallTimeoutMs);
    if (this.ended) return;
    if (!this.drainListener) this.response.once('drain', () => this.drained());
  }

  private drained(): void {
    clearTimeout(this.stallTimer);
    this.stallTimer = undefined;
    this.drainListener?.();
  }

  private closed(): void {
    clearTimeout(this.stallTimer);
    this.stallTimer = undefined;
    this.closeListener?.(this.response.writableFinished);
  }
}
