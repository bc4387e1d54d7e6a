import { mapInTurns } from '../../../core/base/turns.ts';
import type { StreamSource, StreamTarget } from '../../../core/pipeline/answer.ts';
import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { LeftOut, LogRecord, NewLogs, NewLogsQuery, Visibility } from '../../../core/ports/analytics.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import { logSummary } from './record.ts';

const heartbeatMs = 15_000;
const longestMs = 3_600_000;
/** An entry takes 30 microseconds to write: requests are served in between. */
const entriesAtOnce = 16;
/** Upper bound of batches for a tail that has not begun; of further ones the entries are counted. */
const maxHeld = 3;
/** The store may tell an entry this long after it was stored; after that no other answer has it. */
const knownMs = 20_000;

/** Reason for the end of a stream, as a code and as a sentence. */
export interface TailEnd {
  readonly reason: 'time' | 'restart' | 'access';
  readonly message: string;
}

/** What a tail asks for. */
export type TailQuestion = Pick<NewLogsQuery, 'filter' | 'preview'>;

/** An entry as it is written to every tail. */
interface Entry {
  readonly id: string;
  /** Acceptance, milliseconds since the epoch. */
  readonly at: number;
  readonly event: string;
}

/** The entries of one answer of the store, written once for all tails. */
interface Batch {
  readonly chunks: readonly { readonly entries: readonly Entry[]; readonly bytes: Buffer }[];
  readonly left: LeftOut | undefined;
  /** Event id behind it. */
  readonly id: string;
  /** Ids that later batches may repeat. */
  readonly known?: ReadonlySet<string>;
}

/** Only the last entry of a batch advances the id: a client cut off within the batch receives it again. */
export async function batchOf(
  { records, left }: Pick<NewLogs, 'records' | 'left'>,
  before: string,
  id: string,
): Promise<Batch> {
  const last = records.at(-1);
  const pieces: (readonly LogRecord[])[] = [];
  for (let start = 0; start < records.length; start += entriesAtOnce)
    pieces.push(records.slice(start, start + entriesAtOnce));
  const write = (record: LogRecord): Entry => {
    const entry = logSummary(record);
    const text = event('log', entry, record === last ? id : before);
    return { id: entry.id, at: Date.parse(entry.created_at), event: text };
  };
  const chunks = await mapInTurns(pieces, (piece) => chunkOf(piece.map(write)), 1);
  return { chunks, left, id };
}

function chunkOf(entries: readonly Entry[]): Batch['chunks'][number] {
  return { entries, bytes: Buffer.from(entries.map((entry) => entry.event).join('')) };
}

function event(name: string, data: unknown, id: string): string {
  return `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Dependencies of a tail. */
export interface TailParts {
  readonly question: TailQuestion;
  /** Rows that the reader may see now; throws a `GatewayError` when it may not read on. */
  readonly visibility: () => Visibility;
  /** `last-event-id` of a client that goes on, with its place if that is recent. */
  readonly last?: { readonly id: string; readonly place: string | undefined } | undefined;
  /** Called once, at the end. */
  onEnd(): void;
}

/**
 * One reader of the log: server-sent events until it leaves, an hour has passed, or `finish`. For a slow reader entries
 * are counted and not buffered.
 */
export class LogTail implements StreamSource {
  readonly question: TailQuestion;
  private readonly parts: TailParts;
  private readonly clock: Clock;
  private readonly endsAt: number;
  private target: StreamTarget | undefined;
  private id = '';
  private isGap = false;
  /** Batches that wait for their turn. */
  private queue: Batch[] = [];
  /** What it joins has not told it yet what came before. */
  private held = true;
  private isTelling = false;
  /** Ids that it was told by an answer of its own. */
  private known: ReadonlySet<string> = new Set();
  private knownUntil = 0;
  private paused = false;
  private skipped: LeftOut | undefined;
  private over = false;
  private quietSince = 0;
  /** Leaves the feed; see `LogFeed.add`. */
  leave: () => void = () => undefined;

  constructor(clock: Clock, parts: TailParts) {
    this.clock = clock;
    this.parts = parts;
    this.question = parts.question;
    this.endsAt = clock.monotonic() + longestMs;
  }

  get isOver(): boolean {
    return this.over;
  }

  get isHeld(): boolean {
    return this.held;
  }

  pipe(target: StreamTarget): void {
    // `finish` may have been called before `pipe`.
    if (this.over) return target.end();
    this.target = target;
    this.write(`: following the log\nretry: 3000\nid: ${this.id}\n\n`);
    if (this.isGap) this.write(event('gap', {}, this.id));
    void this.tellQueue();
  }

  resume(): void {
    this.paused = false;
    this.tellSkipped();
  }

  cancel(): void {
    this.close();
  }

  /** Ends the stream with an event that states the reason. */
  finish({ reason, message }: TailEnd): void {
    if (this.over) return;
    this.tellSkipped();
    this.write(event('end', { reason, message }, this.id));
    const { target } = this;
    this.close();
    target?.end();
  }

  /** What the reader may see now; undefined when the stream has ended, which this call may do. */
  check(): Visibility | undefined {
    if (this.over) return undefined;
    if (this.clock.monotonic() >= this.endsAt) {
      this.finish({ reason: 'time', message: 'A stream ends after an hour. Connect again to go on.' });
      return undefined;
    }
    try {
      return this.parts.visibility();
    } catch (error) {
      if (!GatewayError.is(error)) throw error;
      this.finish({ reason: 'access', message: error.message });
      return undefined;
    }
  }

  /** Keeps what comes, until `release`. */
  hold(): void {
    this.held = true;
  }

  /** Goes on: with what came before it joined, then with what has come since. */
  async release({ first, resumed, id }: Joined): Promise<void> {
    const { last } = this.parts;
    if (this.id === '') {
      // Cut off within the first batch, a client goes on from where it did now.
      this.id = resumed && last !== undefined ? last.id : id;
      this.isGap = last !== undefined && !resumed;
    }
    const known = new Set(first.records.map(({ request }) => request.id));
    this.queue.unshift({ ...(await batchOf(first, this.id, id)), known });
    this.held = false;
    void this.tellQueue();
  }

  take(batch: Batch): void {
    if (this.over) return;
    if (this.queue.length < maxHeld) this.queue.push(batch);
    else this.skipAll(batch);
    void this.tellQueue();
  }

  /** Tells of a failure of the store, which is asked again after so many milliseconds. */
  problem(error: unknown, retryMs: number): void {
    const { code, message } = GatewayError.is(error)
      ? error
      : { code: 'internal', message: 'The log could not be read.' };
    if (!this.paused) this.write(event('problem', { code, message, retry_ms: retryMs }, this.id));
  }

  private close(): void {
    if (this.over) return;
    this.over = true;
    this.queue = [];
    this.leave();
    this.parts.onEnd();
  }

  private async tellQueue(): Promise<void> {
    if (this.held || this.isTelling || this.target === undefined) return;
    this.isTelling = true;
    for (;;) {
      const batch = this.queue.shift();
      if (batch === undefined) break;
      await this.tell(batch);
    }
    this.isTelling = false;
  }

  private async tell({ chunks, left, id, known }: Batch): Promise<void> {
    if (left !== undefined) this.skip(left);
    this.tellSkipped();
    if (this.clock.monotonic() >= this.knownUntil) this.known = new Set();
    await mapInTurns(chunks, ({ entries, bytes }) => this.tellChunk(entries, bytes), 1);
    if (this.over) return;
    this.id = id;
    if (known !== undefined) {
      this.known = known;
      this.knownUntil = this.clock.monotonic() + knownMs;
    }
    const isQuiet = this.clock.monotonic() - this.quietSince >= heartbeatMs;
    if (!this.paused && isQuiet) this.write(`: alive\nid: ${id}\n\n`);
  }

  private tellChunk(entries: readonly Entry[], bytes: Buffer): void {
    if (this.over) return;
    const fresh = this.known.size === 0 ? entries : entries.filter(({ id }) => !this.known.has(id));
    if (this.paused) for (const { at } of fresh) this.skip({ count: 1, window: { from: at, to: at + 1 } });
    else if (fresh.length === entries.length) this.write(bytes);
    else if (fresh.length > 0) this.write(chunkOf(fresh).bytes);
  }

  private skipAll({ chunks, left }: Batch): void {
    if (left !== undefined) this.skip(left);
    for (const { entries } of chunks)
      for (const { at } of entries) this.skip({ count: 1, window: { from: at, to: at + 1 } });
  }

  private skip({ count, window }: LeftOut): void {
    const before = this.skipped ?? { count: 0, window };
    this.skipped = {
      count: before.count + count,
      window: {
        from: Math.min(before.window.from, window.from),
        to: Math.max(before.window.to, window.to),
      },
    };
  }

  private tellSkipped(): void {
    if (this.skipped === undefined || this.paused || this.target === undefined) return;
    const { count, window } = this.skipped;
    this.skipped = undefined;
    const [from, to] = [window.from, window.to].map((at) => new Date(at).toISOString());
    this.write(event('skipped', { count, from, to }, this.id));
  }

  private write(bytes: string | Buffer): void {
    this.quietSince = this.clock.monotonic();
    if (this.target?.data(typeof bytes === 'string' ? Buffer.from(bytes) : bytes) === false)
      this.paused = true;
  }
}

/** What a tail is told of the time before it joins. */
export interface Joined {
  readonly first: Pick<NewLogs, 'records' | 'left'>;
  /** It goes on from the place that it has named. */
  readonly resumed: boolean;
  /** Event id behind it. */
  readonly id: string;
}
