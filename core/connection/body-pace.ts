import type { GatewayError } from '../errors/gateway-error.ts';
import { belowMinimumRate, tookTooLong } from './body-errors.ts';

/** How slowly a request body may come. */
export interface PaceLimits {
  /** Longest pause between two pieces. */
  readonly idleTimeoutMs: number;
  /** Average rate that is asked for once a body takes longer than `idleTimeoutMs`; 0: none. */
  readonly minBytesPerSecond: number;
  readonly totalTimeoutMs: number;
}

/**
 * Measures one body piece by piece. A pause without any byte is for the idle timeout of the reader; here a client is
 * found that sends a byte now and then. Only time spent waiting for the client counts.
 */
export class BodyPace {
  private readonly limits: PaceLimits;
  private bytes = 0;
  private waitedMs = 0;
  private since: number | undefined;

  constructor(limits: PaceLimits) {
    this.limits = limits;
  }

  /** From now on the client's bytes are waited for. */
  wait(): void {
    this.since ??= performance.now();
  }

  /** The reader wants no more for now. */
  pause(): void {
    if (this.since === undefined) return;
    this.waitedMs += performance.now() - this.since;
    this.since = undefined;
  }

  /** A piece has come. Returns why the body is refused, if it is. */
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
