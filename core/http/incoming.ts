import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { GatewayError } from '../errors/gateway-error.ts';
import { DeadlineWheel, type Deadline } from '../ports/deadline.ts';
import { joinChunks } from '../ports/join-chunks.ts';
import { atTurnEnd } from '../ports/turn-end.ts';
import { BodyPace, type PaceLimits } from './body-pace.ts';
import { leftWhileSending, overloaded, tooLarge, tooSlow } from './body-errors.ts';
import { StreamedBody } from './streamed-body.ts';

/** All request bodies held in memory together, against one bound. */
export class BufferBudget {
  private readonly limit: number;
  private used = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** False when there is no room; nothing is taken then. */
  take(bytes: number): boolean {
    if (this.used + bytes > this.limit) return false;
    this.used += bytes;
    return true;
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

/** The client's request as the pipeline needs it: raw, lazy, and the same on every runtime. */
export class IncomingRequest {
  readonly message: IncomingMessage;
  private readonly response: ServerResponse;
  private readonly limits: BodyLimits;
  private readonly expectsContinue: boolean;
  private collector: BodyCollector | undefined;
  private heldBytes = 0;
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

  /** A body is announced by its length or by chunked framing; a GET without either has none. */
  get hasBody(): boolean {
    const { headers } = this.message;
    const length = headers['content-length'];
    return (length !== undefined && length !== '0') || headers['transfer-encoding'] !== undefined;
  }

  /** The client still waits for `100 Continue`: it may never send its body, so the connection serves no other request. */
  get awaitsContinue(): boolean {
    return this.expectsContinue && !this.consumed;
  }

  /** The whole body, at once when it is there. Throws `body_too_large`, `overloaded`, `body_timeout` or `client_closed`. */
  readBody(): Buffer | Promise<Buffer> {
    const announced = Number(this.header('content-length') ?? 0);
    if (announced > this.limits.maxBytes) throw tooLarge(this.limits.maxBytes);
    if (this.message.complete) return this.receivedBody();
    this.beginBody();
    return new Promise((resolve, reject) => {
      this.collector = new BodyCollector(this.message, this.limits, resolve, reject);
    });
  }

  /** The body of a request that is there already: most come with their head, and nothing has to be waited for. */
  private receivedBody(): Buffer {
    const { message, limits } = this;
    this.consumed = true;
    if (message.readableLength > limits.maxBytes) throw tooLarge(limits.maxBytes);
    const body = (message.read() as Buffer | null) ?? Buffer.alloc(0);
    this.hold(body.length);
    return body;
  }

  /** The unread body, for streaming on. A client that pauses too long breaks it with `body_timeout`. */
  streamBody(): Readable {
    this.beginBody();
    return new StreamedBody(this.message, this.limits);
  }

  /** Counts memory that this request takes. Throws `overloaded` when there is no room. */
  hold(bytes: number): void {
    if (!this.limits.budget.take(bytes)) throw overloaded();
    this.heldBytes += bytes;
  }

  /** Gives back the memory that was counted. A client that is still sending may finish, for a while. */
  release(): void {
    this.collector?.release();
    this.collector = undefined;
    this.limits.budget.give(this.heldBytes);
    this.heldBytes = 0;
    if (this.hasBody && !this.message.complete) this.dropRest();
  }

  /** Cutting at once would lose the answer on its way; reading on for ever would give the client a connection for nothing. */
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

const deadlines = new DeadlineWheel();

/** What a collector needs until the body is there or refused. */
interface Collecting {
  readonly resolve: (body: Buffer) => void;
  readonly reject: (error: GatewayError) => void;
  readonly deadline: Deadline;
  readonly chunks: Buffer[];
}

/** Gathers one body within its bounds. Its listeners keep it alive as long as the request; the rest it lets go at once. */
class BodyCollector {
  private readonly limits: BodyLimits;
  private readonly pace: BodyPace;
  private collecting: Collecting | undefined;
  private taken = 0;

  constructor(
    message: IncomingMessage,
    limits: BodyLimits,
    resolve: (body: Buffer) => void,
    reject: (error: GatewayError) => void,
  ) {
    this.limits = limits;
    this.pace = new BodyPace(limits);
    this.pace.wait();
    const deadline = deadlines.create(() => this.refuse(tooSlow(limits.idleTimeoutMs)));
    deadline.set(limits.idleTimeoutMs);
    this.collecting = { resolve, reject, deadline, chunks: [] };
    message.on('data', (chunk: Buffer) => this.add(chunk));
    message.on('end', () => this.finish());
    message.on('close', () => {
      if (this.collecting !== undefined) this.refuse(leftWhileSending());
    });
  }

  release(): void {
    if (this.taken > 0) this.limits.budget.give(this.taken);
    this.taken = 0;
  }

  private add(chunk: Buffer): void {
    const { collecting, limits } = this;
    // After a refusal the rest is thrown away unread, so that the client can still read why.
    if (collecting === undefined) return;
    collecting.deadline.refresh();
    const tooSlowly = this.pace.received(chunk.length);
    if (tooSlowly !== undefined) return this.refuse(tooSlowly);
    if (this.taken + chunk.length > limits.maxBytes) return this.refuse(tooLarge(limits.maxBytes));
    if (!limits.budget.take(chunk.length)) return this.refuse(overloaded());
    this.taken += chunk.length;
    collecting.chunks.push(chunk);
  }

  private finish(): void {
    const { collecting } = this;
    if (collecting === undefined) return;
    this.collecting = undefined;
    const { deadline, chunks, resolve } = collecting;
    deadline.clear();
    const body = joinChunks(chunks);
    atTurnEnd({ run: () => resolve(body) });
  }

  private refuse(error: GatewayError): void {
    const { collecting } = this;
    if (collecting === undefined) return;
    this.collecting = undefined;
    collecting.deadline.clear();
    collecting.reject(error);
  }
}
