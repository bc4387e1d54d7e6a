import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { GatewayError } from '../errors/gateway-error.ts';

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

export interface BodyLimits {
  readonly maxBytes: number;
  readonly idleTimeoutMs: number;
  readonly budget: BufferBudget;
}

/** The client's request as the pipeline needs it: raw, lazy, and the same on every runtime. */
export class IncomingRequest {
  readonly message: IncomingMessage;
  private readonly response: ServerResponse;
  private readonly limits: BodyLimits;
  private readonly expectsContinue: boolean;
  private collector: BodyCollector | undefined;
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

  /** True once somebody reads the body. */
  get bodyConsumed(): boolean {
    return this.consumed;
  }

  /** Reads the whole body. Throws `body_too_large`, `overloaded`, `body_timeout` or `client_closed`. */
  readBody(): Promise<Buffer> {
    const announced = Number(this.header('content-length') ?? 0);
    if (announced > this.limits.maxBytes) return Promise.reject(tooLarge(this.limits));
    this.beginBody();
    return new Promise((resolve, reject) => {
      this.collector = new BodyCollector(this.message, this.limits, resolve, reject);
    });
  }

  /** The unread body, for streaming on. */
  streamBody(): Readable {
    this.beginBody();
    const { message, limits } = this;
    // A socket timeout counts what arrives without making the stream flow.
    message.setTimeout(limits.idleTimeoutMs, () => message.destroy(tooSlow(limits)));
    message.once('end', () => message.setTimeout(0));
    return message;
  }

  /** Gives back the memory that the body was counted with. */
  release(): void {
    this.collector?.release();
    this.collector = undefined;
  }

  private beginBody(): void {
    this.consumed = true;
    if (this.expectsContinue) this.response.writeContinue();
  }
}

/** Gathers one body within its bounds. */
class BodyCollector {
  private readonly limits: BodyLimits;
  private readonly resolve: (body: Buffer) => void;
  private readonly reject: (error: GatewayError) => void;
  private readonly timer: NodeJS.Timeout;
  private chunks: Buffer[] = [];
  private taken = 0;
  private over = false;

  constructor(
    message: IncomingMessage,
    limits: BodyLimits,
    resolve: (body: Buffer) => void,
    reject: (error: GatewayError) => void,
  ) {
    this.limits = limits;
    this.resolve = resolve;
    this.reject = reject;
    this.timer = setTimeout(() => this.refuse(tooSlow(limits)), limits.idleTimeoutMs);
    message.on('data', (chunk: Buffer) => this.add(chunk));
    message.on('end', () => this.finish());
    message.on('close', () => {
      if (!this.over) this.refuse(leftWhileSending());
    });
  }

  release(): void {
    if (this.taken > 0) this.limits.budget.give(this.taken);
    this.taken = 0;
  }

  private add(chunk: Buffer): void {
    // After a refusal the rest is thrown away unread, so that the client can still read why.
    if (this.over) return;
    this.timer.refresh();
    if (this.taken + chunk.length > this.limits.maxBytes) return this.refuse(tooLarge(this.limits));
    if (!this.limits.budget.take(chunk.length)) return this.refuse(overloaded());
    this.taken += chunk.length;
    this.chunks.push(chunk);
  }

  private finish(): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.timer);
    this.resolve(this.chunks.length === 1 ? (this.chunks[0] as Buffer) : Buffer.concat(this.chunks));
    this.chunks = [];
  }

  private refuse(error: GatewayError): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.timer);
    this.chunks = [];
    this.reject(error);
  }
}

function tooLarge({ maxBytes }: BodyLimits): GatewayError {
  return new GatewayError(
    'body_too_large',
    `The request body is larger than ${maxBytes} bytes. Send less, or raise server.max_body_bytes.`,
    { headers: ['connection', 'close'] },
  );
}

function tooSlow({ idleTimeoutMs }: BodyLimits): GatewayError {
  return new GatewayError(
    'body_timeout',
    `No byte of the request body arrived for ${idleTimeoutMs} ms. Send the body without long pauses.`,
    { headers: ['connection', 'close'] },
  );
}

function leftWhileSending(): GatewayError {
  return new GatewayError('client_closed', 'The client left while it was sending its request.');
}

function overloaded(): GatewayError {
  return new GatewayError(
    'overloaded',
    'The gateway holds as many request bodies as it may. Try again shortly.',
    {
      headers: ['retry-after', '1', 'connection', 'close'],
    },
  );
}
