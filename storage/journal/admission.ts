import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Bounds } from './bounds.ts';

/** Requests that may wait at once; each of them holds a connection. */
const mostWaiting = 1000;

interface Waiter {
  readonly resolve: () => void;
  readonly cancel: () => void;
}

/** Lets requests wait while a journal's room is scarce: what cannot be logged must not be spent. */
export class Admission {
  /** Requests that waited and were let in. */
  waited = 0;
  /** Requests that were refused. */
  refused = 0;
  private readonly bounds: Bounds;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly blockMs: number;
  private waiters: Waiter[] = [];
  private reported = false;

  /** `blockMs`: how long a request waits at most. */
  constructor(parts: { bounds: Bounds; clock: Clock; log: Log; blockMs: number }) {
    this.bounds = parts.bounds;
    this.clock = parts.clock;
    this.log = parts.log;
    this.blockMs = parts.blockMs;
    this.bounds.onRelief = () => this.letIn();
  }

  /** Requests that wait now. */
  get waiting(): number {
    return this.waiters.length;
  }

  /** Nothing while there is room; see the port. */
  admit(): Promise<void> | undefined {
    return this.bounds.scarce ? this.wait() : undefined;
  }

  /** Everybody may go on: nothing is decided here any more. */
  close(): void {
    this.reported = false;
    this.letIn();
  }

  private wait(): Promise<void> {
    if (!this.reported) {
      this.reported = true;
      this.log.error(
        'journal: its disk bound is all but reached, requests wait for room and are refused with journal_full after storage.journal.block_ms; bring the analytics store back, free the disk, or raise storage.journal.max_bytes where it is set',
      );
    }
    if (this.blockMs === 0 || this.waiters.length >= mostWaiting) return Promise.reject(this.refusal());
    return new Promise((resolve, reject) => {
      const cancel = this.clock.after(this.blockMs, () => {
        this.waiters.splice(this.waiters.indexOf(waiter), 1);
        reject(this.refusal());
      });
      const waiter: Waiter = { resolve, cancel };
      this.waiters.push(waiter);
    });
  }

  private letIn(): void {
    const { waiters } = this;
    if (this.reported)
      this.log.info('journal: there is room again, requests go on', { waiting: waiters.length });
    this.reported = false;
    if (waiters.length === 0) return;
    this.waiters = [];
    this.waited += waiters.length;
    for (const { cancel, resolve } of waiters) {
      cancel();
      resolve();
    }
  }

  private refusal(): GatewayError {
    this.refused += 1;
    return new GatewayError(
      'journal_full',
      'The gateway cannot log this request, and was told to serve none that it cannot log. Nothing was sent to a provider; try again later.',
      { headers: ['retry-after', '5'] },
    );
  }
}
