import { randomInt } from 'node:crypto';
import type { Clock } from '../../core/ports/clock.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';

const away = new Set(['store_unavailable', 'query_timeout', 'overloaded', 'shutting_down']);
const longestSentence = 300;
/** A cause has a cause …: bounded, because an error may be its own. */
const deepest = 5;

/** True for an error of the system with one of these codes (`ENOENT`, …). */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  const code = codeOf(error);
  return code !== undefined && codes.includes(code);
}

/**
 * True when the store could not be asked, so that the same rows may succeed later: an error of the gateway that
 * says so, or anything that carries a code in letters (`ECONNRESET`, `UND_ERR_SOCKET`, `CERT_HAS_EXPIRED`), as
 * those of the system and the network do. Everything else is about the rows.
 */
export function isStoreAway(error: unknown): boolean {
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

/** Waits between attempts: twice as long each time up to a bound, with jitter, and can be cut short. */
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

  /** Resolves when it is time for the next attempt. One waiter at a time. */
  wait(): Promise<void> {
    const most = Math.min(this.longestMs, this.firstMs * 2 ** Math.min(this.attempts, 30));
    this.attempts += 1;
    // Between half of it and all of it, so that many processes do not come back at the same moment.
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

  /** Ends a wait that is under way. */
  interrupt(): void {
    this.wake?.();
  }

  /** An attempt succeeded: the next wait is short again. */
  reset(): void {
    this.attempts = 0;
  }
}
