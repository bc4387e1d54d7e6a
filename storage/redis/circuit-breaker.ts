import type { Clock } from '../../core/ports/clock.ts';

const firstCoolDownMs = 100;
const longestCoolDownMs = 5000;
/** Standing so long without a trip, a server is trusted like a new one. */
const trustedAfterMs = 30_000;

/** What `CircuitBreaker` needs. */
export interface CircuitBreakerOptions {
  readonly clock: Clock;
  /** So many calls in a row without an answer in time, each begun after the one before was given up, open it. */
  readonly misses: number;
  /** A probe without any answer for so long means that the connection is dead. */
  readonly deadAfterMs: number;
  /** Asks the server for a sign of life: true when it came in time, false when later. Rejects when it cannot be asked. */
  probe(): Promise<boolean>;
  onOpen(): void;
  onClose(): void;
  /** The connection is dead; drop it. */
  onDead(): void;
}

/**
 * Keeps calls away from a server that answers too slowly or not at all, until it has answered a probe in time.
 * No request is ever the probe, so none waits for it. The pause before a probe doubles with each trip (100 ms to 5 s).
 */
export class CircuitBreaker {
  private readonly options: CircuitBreakerOptions;
  private tripped = false;
  private trips = 0;
  private missed = 0;
  private missedAt = -Infinity;
  private closedAt = -Infinity;
  private probing = false;
  private cancelPause: (() => void) | undefined;
  private cancelDead: (() => void) | undefined;
  private ended = false;

  constructor(options: CircuitBreakerOptions) {
    this.options = options;
  }

  /** True while no call may be sent. */
  get isOpen(): boolean {
    return this.tripped;
  }

  /** A call was answered in time. */
  hit(): void {
    this.missed = 0;
  }

  /** A call that began at `begunAt` was not answered in time. Those that wait together for one pause are one miss. */
  miss(begunAt: number): void {
    if (this.tripped || this.ended || begunAt < this.missedAt) return;
    this.missedAt = this.options.clock.monotonic();
    this.missed += 1;
    if (this.missed >= this.options.misses) this.trip();
  }

  private trip(): void {
    this.missed = 0;
    const sinceClosed = this.options.clock.monotonic() - this.closedAt;
    this.trips = sinceClosed > trustedAfterMs ? 1 : this.trips + 1;
    this.tripped = true;
    this.options.onOpen();
    this.pause();
  }

  /** The connection is new: asks at once instead of after the pause. */
  probeNow(): void {
    if (!this.tripped || this.ended) return;
    this.cancelPause?.();
    this.probe();
  }

  /** Stops its timers for good. */
  end(): void {
    this.ended = true;
    this.cancelPause?.();
    this.cancelDead?.();
  }

  private pause(): void {
    if (this.ended) return;
    const coolDownMs = Math.min(longestCoolDownMs, firstCoolDownMs * 2 ** (this.trips - 1));
    this.cancelPause = this.options.clock.after(coolDownMs, () => this.probe());
  }

  private probe(): void {
    if (this.probing) return;
    this.probing = true;
    const { clock, deadAfterMs } = this.options;
    this.cancelDead = clock.after(deadAfterMs, () => this.options.onDead());
    this.options.probe().then(
      (inTime) => this.probed(inTime),
      () => this.probed(false),
    );
  }

  private probed(inTime: boolean): void {
    this.probing = false;
    this.cancelDead?.();
    if (this.ended) return;
    if (!inTime) return this.pause();
    this.tripped = false;
    this.closedAt = this.options.clock.monotonic();
    this.options.onClose();
  }
}
