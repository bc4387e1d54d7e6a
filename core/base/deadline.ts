import type { Clock } from '../ports/clock.ts';

/** Interval at which deadlines are checked, in milliseconds; expiry is noticed at most two checks late, never early. */
const tickMs = 25;

/**
 * Deadlines of requests in flight. A `setTimeout` for each phase of a request would cost microseconds per request to
 * catch a rare case; here one timer checks all of them, every 25 ms while there are any. It keeps no process alive.
 */
export class DeadlineWheel {
  private first: Deadline | undefined;
  private timer: NodeJS.Timeout | undefined;

  /** A stopped deadline; `expire` is called at each expiry. */
  create(expire: () => void): Deadline {
    return new Deadline(this, expire);
  }

  /** For `Deadline` only. */
  link(deadline: Deadline): void {
    deadline.next = this.first;
    if (this.first) this.first.previous = deadline;
    this.first = deadline;
    this.timer ??= setInterval(() => this.tick(), tickMs).unref();
  }

  /** For `Deadline` only. */
  unlink(deadline: Deadline): void {
    if (deadline.previous) deadline.previous.next = deadline.next;
    else this.first = deadline.next;
    if (deadline.next) deadline.next.previous = deadline.previous;
    deadline.previous = deadline.next = undefined;
  }

  private tick(): void {
    const now = performance.now();
    for (let deadline = this.first; deadline;) {
      // `expire` may unlink this deadline, and others.
      const next: Deadline | undefined = deadline.next;
      deadline.expireIfPast(now);
      deadline = next;
    }
    // Only an idle wheel stops, and only at a tick: under load the timer is created once.
    if (this.first || !this.timer) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }
}

/** One time limit, set and moved as often as needed. */
export class Deadline {
  /** Neighbours in the wheel. */
  previous: Deadline | undefined;
  next: Deadline | undefined;
  private readonly wheel: DeadlineWheel;
  private readonly expire: () => void;
  private limitMs = 0;
  /** Set since the last check, from which the limit then counts: reading the clock at every chunk would cost more. */
  private fresh = false;
  private at = 0;
  private running = false;

  constructor(wheel: DeadlineWheel, expire: () => void) {
    this.wheel = wheel;
    this.expire = expire;
  }

  /** Expires `ms` from now and replaces any earlier limit; 0 or less stops it. */
  set(ms: number): void {
    if (ms <= 0) return this.clear();
    this.limitMs = ms;
    this.fresh = true;
    if (this.running) return;
    this.running = true;
    this.wheel.link(this);
  }

  /** Restarts the same limit, if running. */
  refresh(): void {
    this.fresh = this.running;
  }

  clear(): void {
    if (!this.running) return;
    this.running = false;
    this.wheel.unlink(this);
  }

  /** For the wheel only. */
  expireIfPast(now: number): void {
    if (this.fresh) {
      this.fresh = false;
      this.at = now + this.limitMs;
    }
    if (!this.running || now < this.at) return;
    this.clear();
    this.expire();
  }
}

/** How long to wait and what to report when it was not enough. */
interface Bound {
  readonly clock: Clock;
  /** Milliseconds. */
  readonly ms: number;
  /** The error to reject with when the time is up. */
  readonly late: () => Error;
}

/**
 * Runs `work` and settles as it does, or rejects with `late()` once the time is up. The work itself cannot be
 * stopped: the caller must cope with it ending later. A throw becomes a rejection.
 */
export function bounded<T>(work: () => T | Promise<T>, bound: Bound): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = bound.clock.after(bound.ms, () => reject(bound.late()));
    const running = async (): Promise<T> => work();
    void running().then(resolve, reject).finally(cancel);
  });
}
