import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { StoredRows } from '../../core/ports/analytics.ts';
import type { JournalTable } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { BackOff, hasCode, isStoreAway, sentenceOf } from './back-off.ts';
import type { Bounds } from './bounds.ts';
import { countRows, type Ledger, middleOf, pieceOf, type Segment } from './segment.ts';
import type { Quarantine, SegmentFolder } from './segment-folder.ts';

const firstRetryMs = 100;
const longestRetryMs = 30_000;
/** A store that takes longer for one segment is taken for hung; what it may still do, it does under the same token. */
const longestInsertMs = 120_000;
/** Rows refused one after another, with none stored between them, from which on it is the table that is at fault. */
const mostRefusedInRow = 100;

/**
 * Stores newline-delimited JSON rows as one block; the same token never stores twice. It gets the
 * place of the rows: megabytes a second that this process would read only to send them on would delay requests.
 */
export type Insert = (table: JournalTable, rows: StoredRows, token: string) => Promise<void>;

/** What a shipper works with. */
interface ShipperParts {
  readonly table: JournalTable;
  /** Undefined when there is no store: segments wait. */
  readonly insert: Insert | undefined;
  readonly folder: SegmentFolder;
  readonly quarantine: Quarantine;
  readonly ledger: Ledger;
  readonly bounds: Bounds;
  readonly clock: Clock;
  readonly log: Log;
  /** How long rows wait for a store that is away; then they are given up. */
  readonly maxAgeMs: number;
  /** Nothing is left to ship. */
  onIdle(): void;
  /** Nothing but rows of one segment is left to try, and all of them are refused: others may tell whose fault it is. */
  onStuck(): void;
}

/** Brings the sealed segments of one table to the store: oldest first, one at a time. */
export class SegmentShipper {
  private readonly parts: ShipperParts;
  private readonly backOff: BackOff;
  private readonly queue: Segment[] = [];
  private readonly waiters = new Set<{ left: Set<string>; resolve: (all: boolean) => void }>();
  private running: Promise<void> | undefined;
  private atStore = false;
  /** Whether it was the store, and not the disk, that failed last. */
  private storeFailed = false;
  private waitedForStore = false;
  private stopped = false;
  /** Rows that went to quarantine, by the segment that they stood in, until it has left. */
  private readonly quarantined = new Map<string, number>();
  /** Rows that went to quarantine since the last ones that were stored. */
  private refusedInRow = 0;
  /** Since when a segment's rows wait, on the monotonic clock, until it has left. */
  private readonly waitsSince = new Map<string, number>();
  private toldOfAge = false;
  /** The last failure, or undefined when the last attempt succeeded. */
  lastError: string | undefined;

  constructor(parts: ShipperParts) {
    this.parts = parts;
    this.backOff = new BackOff(parts.clock, firstRetryMs, longestRetryMs);
  }

  /** True when nothing waits to be shipped. */
  get idle(): boolean {
    return this.queue.length === 0;
  }

  /** Takes over a segment that was written so long ago; its rows have been counted as pending, its bytes as on disk. */
  enqueue(segment: Segment, ageMs = 0): void {
    this.queue.push(segment);
    if (!this.waitsSince.has(segment.base))
      this.waitsSince.set(segment.base, this.parts.clock.monotonic() - ageMs);
    const { insert } = this.parts;
    if (insert === undefined || this.running !== undefined || this.stopped) return;
    this.running = this.run(insert);
  }

  /** Tries again now, if it is waiting to. */
  nudge(): void {
    this.backOff.interrupt();
  }

  /** Resolves true when everything taken over before the call has left the queue, false when `stop` came first. */
  drained(): Promise<boolean> {
    const left = new Set(this.queue.map(({ base }) => base));
    if (left.size === 0) return Promise.resolve(true);
    return new Promise((resolve) => this.waiters.add({ left, resolve }));
  }

  /**
   * Begins nothing any more and resolves when no step on disk is under way. An insert under way is not waited
   * for; its segment stays and is posted again by the next run, under the same token.
   */
  async stop(): Promise<void> {
    this.stopped = true;
    for (const { resolve } of this.waiters) resolve(false);
    this.waiters.clear();
    this.backOff.interrupt();
    if (!this.atStore) await this.running;
  }

  private async run(insert: Insert): Promise<void> {
    for (let head = this.queue[0]; head !== undefined && !this.stopped; head = this.queue[0]) {
      try {
        await this.ship(head, insert);
      } catch (error) {
        if (this.stopped) break;
        this.reportAway(head, error);
        if (this.storeFailed) await this.giveUpOld();
        await this.backOff.wait();
      }
    }
    this.running = undefined;
    if (!this.stopped) this.parts.onIdle();
  }

  /** Only what was tried and not taken: rows that are old when a store comes back are worth as much as others. */
  private async giveUpOld(): Promise<void> {
    const { clock, maxAgeMs, folder, ledger, log, table } = this.parts;
    for (let head = this.queue[0]; head !== undefined; head = this.queue[0]) {
      const since = this.waitsSince.get(head.base) ?? clock.monotonic();
      if (clock.monotonic() - since <= maxAgeMs) return;
      await folder.remove(head.file);
      ledger.drop(head.rows, 'age');
      this.leave(head);
      if (this.toldOfAge) continue;
      this.toldOfAge = true;
      log.error(
        `journal: rows that have waited longer than ${Math.round(maxAgeMs / 3_600_000)} hours for the analytics store are given up (storage.journal.max_age_hours); bring it back`,
        { table },
      );
    }
  }

  private async ship(segment: Segment, insert: Insert): Promise<void> {
    this.storeFailed = false;
    if (!(await this.stands(segment)) || this.stopped) return;
    const refusal = await this.post(segment, insert);
    if (this.stopped) return;
    if (refusal === undefined) {
      // Removed first: if that fails the post is repeated, and the store knows its token.
      await this.parts.folder.remove(segment.file);
      this.refusedInRow = 0;
      this.reportBack();
      this.lastError = undefined;
      this.parts.ledger.store(segment.rows);
      this.leave(segment);
    } else {
      if (!this.suspectsTable)
        this.lastError = `the analytics store refused rows of ${segment.token}; they go to the journal's quarantine`;
      const bytes = await this.read(segment);
      if (bytes === undefined || this.stopped) return;
      await this.isolate(segment, bytes, refusal.error);
      if (!this.suspectsTable) this.reportBack();
    }
  }

  /** Returns nothing on success and the error when the rows are at fault. Rejects when the store is away. */
  private async post(segment: Segment, insert: Insert): Promise<{ error: unknown } | undefined> {
    this.atStore = true;
    try {
      await this.within(insert(this.parts.table, this.parts.folder.rowsOf(segment), segment.token));
      return undefined;
    } catch (error) {
      this.storeFailed = isStoreAway(error);
      if (this.storeFailed) throw error;
      return { error };
    } finally {
      this.atStore = false;
    }
  }

  private async within(insert: Promise<void>): Promise<void> {
    let cancel = (): void => undefined;
    const late = new Promise<never>((_, reject) => {
      cancel = this.parts.clock.after(longestInsertMs, () => {
        const message = `The analytics store has not ended an insert within ${longestInsertMs / 1000} s.`;
        reject(new GatewayError('store_unavailable', message));
      });
    });
    try {
      await Promise.race([insert, late]);
    } finally {
      cancel();
    }
  }

  /** Halves a refused segment until the rows at fault stand alone, and puts those into quarantine. */
  private async isolate(segment: Segment, bytes: Buffer, error: unknown): Promise<void> {
    const { base, file, from, end, rows } = segment;
    const { folder, quarantine, ledger } = this.parts;
    const middle = middleOf(bytes);
    if (middle === undefined) {
      if (this.suspectsTable) this.refuseTable(segment, error);
      await quarantine.keepRow(`${base}.${from}-${end}`, bytes, sentenceOf(error));
      await folder.remove(file);
      ledger.drop(rows, 'refused');
      this.refusedInRow += rows;
      this.quarantined.set(base, (this.quarantined.get(base) ?? 0) + rows);
      this.leave(segment);
      return;
    }
    const left = countRows(bytes.subarray(0, middle));
    const pieces = [pieceOf(base, from, from + middle, left), pieceOf(base, from + middle, end, rows - left)];
    await folder.replace(file, pieces);
    this.queue.splice(0, 1, ...pieces);
  }

  private get suspectsTable(): boolean {
    return this.refusedInRow >= mostRefusedInRow;
  }

  /**
   * Nothing more is put aside: what refuses everything is mended at the store, as an outage is. The rows wait, and the
   * newest are tried next: a row that is taken tells that the others are at fault after all.
   */
  private refuseTable({ base }: Segment, error: unknown): never {
    const newest = this.queue.pop();
    if (newest !== undefined) this.queue.unshift(newest);
    if (this.queue.every((segment) => segment.base === base)) this.parts.onStuck();
    this.storeFailed = true;
    throw new Error(
      `the analytics store refuses every row of the table ${this.parts.table}: ${sentenceOf(error)}`,
    );
  }

  /** False when the rows are gone or cut short, which ends the segment. */
  private async stands(segment: Segment): Promise<boolean> {
    const { file, from, end } = segment;
    try {
      const size = await this.parts.folder.size(file);
      if (size >= end) return true;
      await this.loseDamaged(segment, Math.max(0, size - from));
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
      this.lose(segment, 'is gone');
    }
    return false;
  }

  /** The bytes of a refused segment; undefined when they are gone or cut short, which ends it. */
  private async read(segment: Segment): Promise<Buffer | undefined> {
    try {
      const bytes = await this.parts.folder.read(segment);
      if (bytes.length === segment.end - segment.from) return bytes;
      await this.loseDamaged(segment, bytes.length);
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
      this.lose(segment, 'is gone');
    }
    return undefined;
  }

  private async loseDamaged(segment: Segment, left: number): Promise<void> {
    await this.parts.quarantine.keepFile(segment.file, left);
    this.lose(segment, `has ${left} of its ${segment.end - segment.from} bytes`);
  }

  private lose(segment: Segment, what: string): void {
    const { ledger, log, table } = this.parts;
    ledger.drop(segment.rows, 'lost');
    log.error(
      `journal: the file ${segment.file} ${what}, its rows are lost; keep other programs out of the data folder`,
      { table, rows: segment.rows },
    );
    this.leave(segment);
  }

  private leave({ base, from, end }: Segment): void {
    this.parts.bounds.release(end - from);
    this.queue.shift();
    if (this.queue.some((segment) => segment.base === base)) return;
    this.waitsSince.delete(base);
    const rows = this.quarantined.get(base);
    if (rows !== undefined) {
      const { log, table } = this.parts;
      log.error(
        `journal: the analytics store refused rows of segment ${base}; see the reasons in the folder quarantine of the journal`,
        { table, rows },
      );
      this.quarantined.delete(base);
    }
    for (const waiter of this.waiters) {
      waiter.left.delete(base);
      if (waiter.left.size > 0) continue;
      this.waiters.delete(waiter);
      waiter.resolve(true);
    }
  }

  private reportAway(segment: Segment, error: unknown): void {
    const sentence = sentenceOf(error);
    this.lastError = sentence;
    if (this.backOff.failures > 0) return;
    this.waitedForStore = this.storeFailed;
    const remedy = this.storeFailed ? 'check the analytics store' : 'free the disk or repair it';
    this.parts.log.warn(
      `journal: segment ${segment.token} cannot be shipped (${sentence}); rows wait on disk, ${remedy}`,
      { table: this.parts.table },
    );
  }

  private reportBack(): void {
    if (this.backOff.failures > 0) {
      const what = this.waitedForStore ? 'the analytics store answers again' : 'the disk works again';
      this.parts.log.info(`journal: ${what}`, {
        table: this.parts.table,
        segments: this.queue.length,
      });
    }
    this.backOff.reset();
    this.toldOfAge = false;
  }
}
