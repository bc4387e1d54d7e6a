/** How often deadlines are looked at, in milliseconds; one is noticed at most two looks late, and never early. */
const tickMs = 25;

/**
 * Deadlines of requests under way. Setting a `setTimeout` for each of a request's phases costs microseconds of
 * every request, to catch what almost never happens; here one timer looks at all of them, every 25 ms while there
 * are any. It keeps no process alive.
 */
export class DeadlineWheel {
  private first: Deadline | undefined;
  private timer: NodeJS.Timeout | undefined;

  /** A deadline that is not running yet; `expire` is called each time it runs out. */
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
      // Expiring may unlink this one, and others.
      const next: Deadline | undefined = deadline.next;
      deadline.expireIfPast(now);
      deadline = next;
    }
    // Only an idle wheel stops, and only at a tick: under load the timer is made once.
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
  /** Set since the last look, which counts the limit from then on: asking for the time at every chunk would cost more. */
  private fresh = false;
  private at = 0;
  private running = false;

  constructor(wheel: DeadlineWheel, expire: () => void) {
    this.wheel = wheel;
    this.expire = expire;
  }

  /** Runs out `ms` from now instead of any earlier limit; 0 or less stops it. */
  set(ms: number): void {
    if (ms <= 0) return this.clear();
    this.limitMs = ms;
    this.fresh = true;
    if (this.running) return;
    this.running = true;
    this.wheel.link(this);
  }

  /** Starts the same limit again, when one is running. */
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
