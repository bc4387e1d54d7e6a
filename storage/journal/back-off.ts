import { randomInt } from 'node:crypto';
import type { Clock } from '../../core/ports/clock.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';

const away = new Set(['store_unavailable', 'query_timeout', 'overloaded', 'shutting_down']);
const longestSentence = 300;
/** Depth of a chain of causes: bounded, because an error may be its own cause. */
const deepest = 5;

/** True for a system error with one of these codes (`ENOENT`, …). */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  const code = codeOf(error);
  return code !== undefined && codes.includes(code);
}

/**
 * True when the store was unreachable, so that the same rows may succeed later: a gateway error that says so, or any
 * error with an alphabetic code (`ECONNRESET`, `UND_ERR_SOCKET`, `CERT_HAS_EXPIRED`), like those of the system and the
 * network. Every other error is about the rows.
 */
export function isStoreUnavailable(error: unknown): boolean {
  if (GatewayError.is(error)) return away.has(error.code);
  let current = error;
  for (let depth = 0; depth < deepest && current instanceof Error; depth += 1) {
    if (current.name === 'AbortError' || current.name === 'TimeoutError') return true;
    if (/^[A-Z][A-Z0-9_]+$/.test(codeOf(current) ?? '')) return true;
    current = current.cause;
  }
  return false;
}

/** The error in one bounded line. */
export function sentenceOf(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > longestSentence ? `${line.slice(0, longestSentence)}…` : line;
}

function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Delays between attempts: doubled each time up to a bound, with jitter, and can be cut short. */
export class BackOff {
  private readonly clock: Clock;
  private readonly firstMs: number;
  private readonly longestMs: number;
  private attempts = 0;
  private wake: (() => void) | undefined;

  constructor(clock: Clock, firstMs: number, longestMs: number) {
    this.clock = clock;
    this.firstMs = firstMs;
    this.longestMs = longestMs;
  }

  /** Failures since the last success. */
  get failures(): number {
    return this.attempts;
  }

  /** Resolves at the time of the next attempt. One waiter at a time. */
  wait(): Promise<void> {
    const most = Math.min(this.longestMs, this.firstMs * 2 ** Math.min(this.attempts, 30));
    this.attempts += 1;
    // Between half of it and all of it, so that many processes do not return at the same moment.
    const ms = (most * randomInt(500, 1001)) / 1000;
    return new Promise((resolve) => {
      const wake = (): void => {
        this.wake = undefined;
        cancel();
        resolve();
      };
      const cancel = this.clock.after(ms, wake);
      this.wake = wake;
    });
  }

  /** Ends a running wait. */
  interrupt(): void {
    this.wake?.();
  }

  /** Resets the delay after a successful attempt. */
  reset(): void {
    this.attempts = 0;
  }
}
