import type { Clock } from '../../core/ports/clock.ts';
import { PassingMap } from '../../core/base/recent-map.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** Requests that may wait for one answer; the others make their own call. */
const maxFollowers = 256;

/** An answer for everybody who waits. */
export interface Landed {
  readonly answer: StoredAnswer;
  /** Of the question that it answers; undefined when that is the very same. */
  readonly similarity: number | undefined;
}

/** What became of waiting: the answer, the lead (its own call is what the others wait for now), or nothing. */
export type Landing = Landed | Flight | undefined;

/** Anything whose client may leave. */
interface Leaving {
  readonly aborted: boolean;
  onAbort(run: () => void): () => void;
}

/** The calls that are on their way, by key: who asks the same meanwhile waits for the answer instead of calling too. */
export class Flights {
  private readonly open = new PassingMap<string, Flight>();

  /** The call for this key that is on its way. */
  find(key: string): Flight | undefined {
    return this.open.get(key);
  }

  /** Opens one; whoever does must `land`, `release` or `handOver` it in the end. Call it only when there is none. */
  takeOff(key: string): Flight {
    const flight = new Flight(this.open, key);
    this.open.set(key, flight);
    return flight;
  }
}

/** One call and those who wait for it. All three ways to end it do nothing when it has ended already. */
export class Flight {
  private readonly open: PassingMap<string, Flight>;
  private readonly key: string;
  /** Made for the first one: most calls are followed by nobody. */
  private followers: Set<(landing: Landing) => void> | undefined;
  private over = false;

  /** It stands in `open` under this key until it ends. */
  constructor(open: PassingMap<string, Flight>, key: string) {
    this.open = open;
    this.key = key;
  }

  /** Waits for the answer, until the client leaves, and `waitMs` at the most. Undefined when too many wait already. */
  follow(clock: Clock, waitMs: number, client: Leaving): Promise<Landing> | undefined {
    const followers = (this.followers ??= new Set());
    if (followers.size >= maxFollowers) return undefined;
    if (client.aborted) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const done = (landing: Landing): void => {
        followers.delete(done);
        stopTimer();
        stopListening();
        resolve(landing);
      };
      followers.add(done);
      const stopTimer = clock.after(waitMs, () => done(undefined));
      const stopListening = client.onAbort(() => done(undefined));
    });
  }

  /** Here is the answer. */
  land(answer: StoredAnswer, similarity?: number): void {
    this.end({ answer, similarity });
  }

  /** There will be no answer to share: everybody goes on alone, all at once. */
  release(): void {
    this.end(undefined);
  }

  /** The one who called has left: the one who waits longest calls in its place, and the others go on waiting. */
  handOver(): void {
    if (this.over) return;
    for (const next of this.followers ?? []) return next(this);
    this.end(undefined);
  }

  private end(landing: Landed | undefined): void {
    if (this.over) return;
    this.over = true;
    this.open.delete(this.key);
    if (this.followers === undefined) return;
    for (const follower of this.followers) follower(landing);
  }
}
