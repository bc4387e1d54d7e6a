import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { StreamSource, StreamTarget } from '../../core/pipeline/answer.ts';
import type { NewLogs } from '../../core/ports/analytics.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { logSummary } from './log-summary.ts';

const pollMs = 1000;
const heartbeatMs = 15_000;
const longestMs = 3_600_000;
const firstRetryMs = 2000;
const longestRetryMs = 30_000;

/** Why a stream of the log ends, in a word for programs and a sentence for people. */
export interface TailEnd {
  readonly reason: 'time' | 'restart' | 'access';
  readonly message: string;
}

/** What a tail works with. */
export interface TailParts {
  readonly clock: Clock;
  /** Entries since the last question; throws a `TailEnded` when the stream has to end. */
  ask(since: string | undefined): Promise<NewLogs>;
  /** The answer to the first question. */
  readonly first: NewLogs;
  /** What clients give back to go on from a place; see `NewLogs.resume`. */
  eventId(resume: string): string;
  /** Runs once, when it is over. */
  onEnd(): void;
}

/** The stream has to end, and says why. */
export class TailEnded extends Error {
  readonly end: TailEnd;

  constructor(end: TailEnd) {
    super(end.message);
    this.end = end;
  }
}

/**
 * Follows the log: server-sent events from the first question until the reader leaves, an hour is over, or `finish`. For a
 * reader that does not keep up entries are counted instead of kept.
 */
export class LogTail implements StreamSource {
  private readonly parts: TailParts;
  private target: StreamTarget | undefined;
  private since: string;
  private id: string;
  private paused = false;
  private skipped = 0;
  private failures = 0;
  private over = false;
  private endsAt = 0;
  private quietSince = 0;
  private cancelTimer: () => void = () => undefined;

  constructor(parts: TailParts) {
    this.parts = parts;
    this.since = parts.first.since;
    this.id = parts.eventId(parts.first.resume);
  }

  pipe(target: StreamTarget): void {
    // It may have had to end before anybody listened.
    if (this.over) return target.end();
    this.target = target;
    const { clock, first } = this.parts;
    this.endsAt = clock.monotonic() + longestMs;
    this.write(`: following the log\nretry: 3000\nid: ${this.id}\n\n`);
    this.tell(first);
    this.wait(pollMs);
  }

  resume(): void {
    this.paused = false;
    this.tellSkipped();
  }

  cancel(): void {
    this.close();
  }

  /** Ends the stream with an event that says why. */
  finish({ reason, message }: TailEnd): void {
    if (this.over) return;
    this.tellSkipped();
    this.write(event('end', { reason, message }, this.id));
    const { target } = this;
    this.close();
    target?.end();
  }

  private close(): void {
    if (this.over) return;
    this.over = true;
    this.cancelTimer();
    this.parts.onEnd();
  }

  private wait(ms: number): void {
    if (this.over) return;
    this.cancelTimer = this.parts.clock.after(ms, () => void this.poll());
  }

  /** Never rejects. */
  private async poll(): Promise<void> {
    if (this.parts.clock.monotonic() >= this.endsAt) {
      return this.finish({ reason: 'time', message: 'A stream ends after an hour. Connect again to go on.' });
    }
    try {
      const found = await this.parts.ask(this.since);
      if (this.over) return;
      this.failures = 0;
      this.since = found.since;
      this.tell(found);
      this.wait(pollMs);
    } catch (error) {
      if (this.over) return;
      if (error instanceof TailEnded) this.finish(error.end);
      else this.tellProblem(error);
    }
  }

  private tell({ records, left, resume }: NewLogs): void {
    const next = this.parts.eventId(resume);
    this.skipped += left;
    if (this.paused) this.skipped += records.length;
    else {
      this.tellSkipped();
      records.forEach((record, index) => {
        // The rest of what came together is told again to whoever is cut off in the middle of it.
        const id = index === records.length - 1 ? next : this.id;
        if (this.paused) this.skipped += 1;
        else this.write(event('log', logSummary(record), id));
      });
    }
    this.id = next;
    const now = this.parts.clock.monotonic();
    if (!this.paused && now - this.quietSince >= heartbeatMs) this.write(`: alive\nid: ${next}\n\n`);
  }

  private tellSkipped(): void {
    if (this.skipped === 0 || this.paused) return;
    const count = this.skipped;
    this.skipped = 0;
    this.write(event('skipped', { count }, this.id));
  }

  /** The store is away, or asks for patience: what comes meanwhile is told when it is back. */
  private tellProblem(error: unknown): void {
    const most = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(this.failures, 8));
    this.failures += 1;
    const { code, message } = GatewayError.is(error)
      ? error
      : { code: 'internal', message: 'The log could not be read.' };
    if (!this.paused) this.write(event('problem', { code, message, retry_ms: most }, this.id));
    this.wait(most);
  }

  private write(text: string): void {
    this.quietSince = this.parts.clock.monotonic();
    if (this.target?.data(Buffer.from(text)) === false) this.paused = true;
  }
}

function event(name: string, data: unknown, id: string): string {
  return `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
}
