import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { GatewayError } from '../errors/gateway-error.ts';

/** Bounds of a slow request body. */
export interface PaceLimits {
  /** Longest pause between two chunks. */
  readonly idleTimeoutMs: number;
  /** Minimum average rate once a body takes longer than `idleTimeoutMs`; 0: none. */
  readonly minBytesPerSecond: number;
  readonly totalTimeoutMs: number;
}

/**
 * Measures one body chunk by chunk. The idle timeout of the reader covers pauses; this finds a client that sends a byte
 * now and then. Only time spent waiting for the client counts.
 */
export class BodyPace {
  private readonly limits: PaceLimits;
  private bytes = 0;
  private waitedMs = 0;
  private since: number | undefined;

  constructor(limits: PaceLimits) {
    this.limits = limits;
  }

  /** Starts the time of waiting for the client. */
  wait(): void {
    this.since ??= performance.now();
  }

  /** Stops it: the reader wants no more for now. */
  pause(): void {
    if (this.since === undefined) return;
    this.waitedMs += performance.now() - this.since;
    this.since = undefined;
  }

  /** A chunk has arrived. Returns the reason for refusing the body, if any. */
  received(bytes: number): GatewayError | undefined {
    const { idleTimeoutMs, minBytesPerSecond, totalTimeoutMs } = this.limits;
    this.bytes += bytes;
    this.pause();
    this.wait();
    if (this.waitedMs > totalTimeoutMs) return tookTooLong(totalTimeoutMs);
    if (this.waitedMs > idleTimeoutMs && this.bytes * 1000 < minBytesPerSecond * this.waitedMs)
      return belowMinimumRate(minBytesPerSecond, Math.round(this.waitedMs / 1000));
    return undefined;
  }
}

/** The body exceeds the limit of one request. */
export function tooLarge(maxBytes: number): GatewayError {
  return new GatewayError(
    'body_too_large',
    `The request body is larger than ${maxBytes} bytes. Send less, or raise server.max_body_bytes.`,
  );
}

/** The client paused for too long; its remaining bytes must not be read as a new request. */
export function tooSlow(idleTimeoutMs: number): GatewayError {
  return new GatewayError(
    'body_timeout',
    `No byte of the request body arrived for ${idleTimeoutMs} ms. Send the body without long pauses.`,
    { headers: ['connection', 'close'] },
  );
}

/** Bytes arrive so slowly that the client would hold its connection for ever. `seconds`: the time taken already. */
function belowMinimumRate(minBytesPerSecond: number, seconds: number): GatewayError {
  return new GatewayError(
    'body_timeout',
    `After ${seconds} s the request body comes at less than ${minBytesPerSecond} bytes a second on average. Send it faster, or lower server.body_min_bytes_per_second.`,
    { headers: ['connection', 'close'] },
  );
}

/** The whole body takes longer than the total timeout. */
function tookTooLong(totalTimeoutMs: number): GatewayError {
  return new GatewayError(
    'body_timeout',
    `The request body is not complete after ${totalTimeoutMs} ms. Send it faster, or raise server.body_timeout_ms.`,
    { headers: ['connection', 'close'] },
  );
}

/** The connection ended before the body did. */
export function leftWhileSending(): GatewayError {
  return new GatewayError('client_closed', 'The client left while it was sending its request.');
}

/** All bodies in memory together are at their limit. */
export function overloaded(): GatewayError {
  return new GatewayError(
    'overloaded',
    'The gateway holds as many request bodies as it may. Try again shortly.',
    { headers: ['retry-after', '1'] },
  );
}

/**
 * A request body streamed to the provider, with the back-pressure of both sides. Destroying it leaves the client's
 * connection open, so that an answer can still be written. Breaks with `body_timeout` when the client pauses too long
 * or sends too slowly (not when the provider does), and with `client_closed` when it leaves.
 */
export class StreamedBody extends Readable {
  private readonly message: IncomingMessage;
  private readonly idleTimeoutMs: number;
  private readonly pace: BodyPace;
  private timer: NodeJS.Timeout | undefined;
  private reading = false;

  constructor(message: IncomingMessage, limits: PaceLimits) {
    super();
    this.message = message;
    this.idleTimeoutMs = limits.idleTimeoutMs;
    this.pace = new BodyPace(limits);
    // A reader receives the failure; without a reader it does not matter.
    this.on('error', () => undefined);
    message.on('close', this.onClose);
  }

  override _read(): void {
    if (!this.reading) {
      this.reading = true;
      this.message.on('data', this.onData).on('end', this.onEnd);
    }
    this.timer ??= setTimeout(() => this.destroy(tooSlow(this.idleTimeoutMs)), this.idleTimeoutMs);
    this.pace.wait();
    this.message.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.stopTimer();
    this.message.off('data', this.onData).off('end', this.onEnd).off('close', this.onClose);
    callback(error);
  }

  private readonly onData = (chunk: Buffer): void => {
    const tooSlowly = this.pace.received(chunk.length);
    if (tooSlowly !== undefined) {
      this.destroy(tooSlowly);
      return;
    }
    if (this.push(chunk)) {
      this.timer?.refresh();
      return;
    }
    this.stopTimer();
    this.message.pause();
  };

  private readonly onEnd = (): void => {
    this.stopTimer();
    this.push(null);
  };

  private readonly onClose = (): void => {
    if (!this.message.readableEnded) this.destroy(leftWhileSending());
  };

  private stopTimer(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.pace.pause();
  }
}
