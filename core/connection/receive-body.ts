// A body that comes while the client's connection is open: collected, or streamed on, within bounds of time and memory.
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { joinChunks } from '../base/bytes.ts';
import { type Deadline, DeadlineWheel } from '../base/deadline.ts';
import { atTurnEnd } from '../base/turns.ts';
import { GatewayError } from '../errors/gateway-error.ts';

/** Longer bodies are received into one buffer of their length, and leave a share of the memory to the others. */
export const oneBuffer = 262_144;

/** Bytes counted at first for a body not yet received; later twice the received amount. */
const firstStep = 65_536;

const deadlines = new DeadlineWheel();

/** Bounds of a collected body. */
interface CollectorLimits extends PaceLimits {
  readonly maxBytes: number;
  /** The memory of all bodies. */
  readonly budget: { take(bytes: number, isLong?: boolean): boolean; give(bytes: number): void };
}

/** Callbacks and facts of a body that is being collected. */
interface Gathering {
  /** Its length; 0 when unknown. */
  readonly announced: number;
  /** Memory for a body of this many bytes, that of parsing included. */
  readonly memoryFor: (bytes: number) => number;
  /** Takes over the memory counted for it. */
  readonly received: (body: Buffer) => void;
  readonly refused: (error: GatewayError) => void;
}

/** State of a collector until the body is complete or refused. */
interface Collecting extends Gathering {
  readonly deadline: Deadline;
  readonly chunks: Buffer[];
  /** Buffer for all chunks of a long body of known length: joining them at the end would hold up all others. */
  readonly whole: Buffer | undefined;
}

/**
 * Collects one body within its bounds. Its listeners keep it alive as long as the request; it releases everything else
 * at once.
 */
export class BodyCollector {
  private readonly limits: CollectorLimits;
  private readonly pace: BodyPace;
  private collecting: Collecting | undefined;
  private length = 0;
  private counted = 0;

  constructor(message: IncomingMessage, limits: CollectorLimits, gathering: Gathering) {
    this.limits = limits;
    this.pace = new BodyPace(limits);
    this.pace.wait();
    const deadline = deadlines.create(() => this.refuse(tooSlow(limits.idleTimeoutMs)));
    deadline.set(limits.idleTimeoutMs);
    const { announced } = gathering;
    // Memory is not committed before it is written to.
    const whole = announced > oneBuffer ? Buffer.allocUnsafeSlow(announced) : undefined;
    this.collecting = { ...gathering, deadline, chunks: [], whole };
    message.on('data', (chunk: Buffer) => this.add(chunk));
    message.on('end', () => this.finish());
    message.on('close', () => {
      if (this.collecting !== undefined) this.refuse(leftWhileSending());
    });
    if (!this.count(this.collecting, 0)) this.refuse(overloaded());
  }

  /** Releases the memory counted for an incomplete or refused body. */
  release(): void {
    if (this.counted > 0) this.limits.budget.give(this.counted);
    this.counted = 0;
  }

  private add(chunk: Buffer): void {
    const { collecting, limits } = this;
    // After a refusal the rest is discarded, so that the client can still read the reason.
    if (collecting === undefined) return;
    collecting.deadline.refresh();
    const tooSlowly = this.pace.received(chunk.length);
    if (tooSlowly !== undefined) return this.refuse(tooSlowly);
    const length = this.length + chunk.length;
    if (length > limits.maxBytes) return this.refuse(tooLarge(limits.maxBytes));
    if (!this.count(collecting, length)) return this.refuse(overloaded());
    const { whole, chunks } = collecting;
    if (whole === undefined) chunks.push(chunk);
    else chunk.copy(whole, this.length);
    this.length = length;
  }

  /** Counts the memory of this many bytes, and in advance some of an announced body. False when there is no room. */
  private count({ announced, memoryFor }: Gathering, length: number): boolean {
    if (length > 0 && memoryFor(length) <= this.counted) return true;
    const ahead = announced > length ? Math.min(announced, Math.max(2 * length, firstStep)) : length;
    const more = memoryFor(ahead) - this.counted;
    if (!this.limits.budget.take(more, Math.max(announced, length) > oneBuffer)) return false;
    this.counted += more;
    return true;
  }

  private finish(): void {
    const { collecting } = this;
    if (collecting === undefined) return;
    this.collecting = undefined;
    const { deadline, chunks, whole, received } = collecting;
    deadline.clear();
    const body = whole?.subarray(0, this.length) ?? joinChunks(chunks);
    atTurnEnd({ run: () => received(body) });
  }

  private refuse(error: GatewayError): void {
    const { collecting } = this;
    if (collecting === undefined) return;
    this.collecting = undefined;
    collecting.deadline.clear();
    collecting.refused(error);
  }
}

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
class BodyPace {
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
function tooSlow(idleTimeoutMs: number): GatewayError {
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
function leftWhileSending(): GatewayError {
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
