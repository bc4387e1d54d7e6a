import { joinChunks } from '../../core/base/bytes.ts';
import { writeSseFrame } from '../../core/base/sse.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { McpCall, McpHandler, McpHead, McpRequest } from '../../core/ports/mcp.ts';

/** Receives the life of an answer. */
interface AnswerOwner {
  /** Bytes that wait for the reader have come (or gone, if negative). */
  unreadChanged(bytes: number): void;
  /** The head, or the next chunk, has not come in time; `fail` follows. */
  timedOut(answer: MessageAnswer): void;
  /** It has ended, failed or been aborted. Called once. */
  over(answer: MessageAnswer): void;
}

interface AnswerOptions {
  readonly request: McpRequest;
  readonly handler: McpHandler;
  readonly clock: Clock;
  /** Name of the server in errors. */
  readonly peer: string;
  readonly owner: AnswerOwner;
}

/** The answer to one `McpRequest`, made of messages: a whole one, or a stream of events. */
export class MessageAnswer implements McpCall {
  readonly #handler: McpHandler;
  readonly #owner: AnswerOwner;
  readonly #clock: Clock;
  readonly #peer: string;
  readonly #headTimeoutMs: number;
  readonly #idleTimeoutMs: number;
  #phase: 'head' | 'body' | 'ending' | 'over' = 'head';
  #queue: Buffer[] = [];
  #unread = 0;
  #paused = false;
  #draining = false;
  #receivedAt = 0;
  #cancelTimer: () => void = () => undefined;

  constructor({ request, handler, clock, peer, owner }: AnswerOptions) {
    this.#handler = handler;
    this.#owner = owner;
    this.#clock = clock;
    this.#peer = peer;
    this.#headTimeoutMs = request.headTimeoutMs;
    this.#idleTimeoutMs = request.idleTimeoutMs;
    if (this.#headTimeoutMs > 0) {
      this.#cancelTimer = clock.after(this.#headTimeoutMs, () =>
        this.#expire(`no answer within ${this.#headTimeoutMs} ms (head timeout)`),
      );
    }
  }

  /** True once `head` has been called, or never will be. */
  get hasHead(): boolean {
    return this.#phase !== 'head';
  }

  get isOver(): boolean {
    return this.#phase === 'over';
  }

  /** Opens a stream of events, unless it is open. */
  stream(sessionId: string | undefined): void {
    if (this.hasHead) return;
    this.#head(headOf(200, 'text/event-stream', sessionId));
    this.#watchIdle(this.#idleTimeoutMs);
  }

  /** Sends a message as an event of the open stream. */
  event(text: string): void {
    if (this.#phase === 'body') this.#write(writeSseFrame(text, 'message'));
  }

  /** Ends the answer after what waits for the reader. */
  end(): void {
    if (this.#phase === 'over') return;
    this.#phase = 'ending';
    this.#cancelTimer();
    this.#drain();
  }

  /** A whole answer. Nothing happens when it has a head. */
  whole(head: McpHead, body: Buffer | undefined): void {
    if (this.hasHead) return;
    this.#head(head);
    if (body !== undefined && body.length > 0) this.#write(body);
    this.end();
  }

  fail(error: GatewayError): void {
    if (this.#phase === 'over') return;
    this.#close();
    this.#handler.fail(error);
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#receivedAt = this.#clock.monotonic();
    this.#drain();
  }

  abort(error: GatewayError): void {
    this.fail(error);
  }

  #head(head: McpHead): void {
    this.#phase = 'body';
    this.#cancelTimer();
    this.#receivedAt = this.#clock.monotonic();
    this.#handler.head(head);
  }

  #write(chunk: Buffer): void {
    if (this.#phase !== 'body') return;
    this.#receivedAt = this.#clock.monotonic();
    this.#queue.push(chunk);
    this.#setUnread(this.#unread + chunk.length);
    this.#drain();
  }

  #drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    while (!this.#paused && this.#phase !== 'over' && this.#queue.length > 0) {
      const chunk = joinChunks(this.#queue);
      this.#queue = [];
      this.#setUnread(0);
      // `resume` from inside `data` counts.
      this.#paused = true;
      if (this.#handler.data(chunk)) this.#paused = false;
    }
    this.#draining = false;
    if (this.#phase !== 'ending' || this.#paused) return;
    this.#close();
    this.#handler.end();
  }

  /** While the reader is slow, the server has no time limit. */
  #watchIdle(ms: number): void {
    if (this.#idleTimeoutMs <= 0 || this.#phase !== 'body') return;
    this.#cancelTimer = this.#clock.after(ms, () => {
      const rest = this.#receivedAt + this.#idleTimeoutMs - this.#clock.monotonic();
      if (this.#paused) this.#watchIdle(this.#idleTimeoutMs);
      else if (rest > 0) this.#watchIdle(Math.ceil(rest));
      else this.#expire(`nothing for ${this.#idleTimeoutMs} ms (idle timeout)`);
    });
  }

  #expire(what: string): void {
    if (this.#phase === 'over') return;
    this.#owner.timedOut(this);
    this.fail(
      new GatewayError('upstream_timeout', `${this.#peer} sent ${what}; raise the timeout or ask for less`),
    );
  }

  #close(): void {
    this.#phase = 'over';
    this.#cancelTimer();
    this.#queue = [];
    this.#setUnread(0);
    this.#owner.over(this);
  }

  #setUnread(bytes: number): void {
    const change = bytes - this.#unread;
    this.#unread = bytes;
    if (change !== 0) this.#owner.unreadChanged(change);
  }
}

/** Head of an answer that needs nothing else. */
export function headOf(status: number, contentType: string, sessionId?: string): McpHead {
  return { status, contentType, sessionId, wwwAuthenticate: undefined };
}
