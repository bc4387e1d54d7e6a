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
  private taken = 0;
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
    if (announced > this.limits.maxBytes) return Promise.reject(this.tooLarge());
    this.beginBody();
    return new Promise((resolve, reject) => this.collect(resolve, reject));
  }

  /** The unread body, for streaming on. */
  streamBody(): Readable {
    this.beginBody();
    const { message, limits } = this;
    // A socket timeout counts what arrives without making the stream flow.
    message.setTimeout(limits.idleTimeoutMs, () => message.destroy(this.tooSlow()));
    message.once('end', () => message.setTimeout(0));
    return message;
  }

  /** Gives back the memory that the body was counted with. */
  release(): void {
    if (this.taken > 0) this.limits.budget.give(this.taken);
    this.taken = 0;
  }

  private beginBody(): void {
    this.consumed = true;
    if (this.expectsContinue) this.response.writeContinue();
  }

  private collect(resolve: (body: Buffer) => void, reject: (error: GatewayError) => void): void {
    const { message, limits } = this;
    const chunks: Buffer[] = [];
    const finish = (error?: GatewayError): void => {
      clearTimeout(timer);
      message.off('data', onData).off('end', onEnd).off('close', onClose);
      if (error) {
        // The rest is thrown away unread, so that the refusal can still be read by the client.
        message.resume();
        reject(error);
      } else {
        resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
      }
    };
    const onData = (chunk: Buffer): void => {
      timer.refresh();
      if (this.taken + chunk.length > limits.maxBytes) return finish(this.tooLarge());
      if (!limits.budget.take(chunk.length)) return finish(overloaded());
      this.taken += chunk.length;
      chunks.push(chunk);
    };
    const onEnd = (): void => finish();
    const onClose = (): void =>
      finish(new GatewayError('client_closed', 'The client left while it was sending its request.'));
    const timer = setTimeout(() => finish(this.tooSlow()), limits.idleTimeoutMs);
    message.on('data', onData).on('end', onEnd).on('close', onClose);
  }

  private tooLarge(): GatewayError {
    return new GatewayError(
      'body_too_large',
      `The request body is larger than ${this.limits.maxBytes} bytes. Send less, or raise server.max_body_bytes.`,
      { headers: ['connection', 'close'] },
    );
  }

  private tooSlow(): GatewayError {
    return new GatewayError(
      'body_timeout',
      `No byte of the request body arrived for ${this.limits.idleTimeoutMs} ms. Send the body without long pauses.`,
      { headers: ['connection', 'close'] },
    );
  }
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
