import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { StoredRows } from '../../core/ports/analytics.ts';
import type { JournalTable } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { BackOff, hasCode, isStoreUnavailable, sentenceOf } from './back-off.ts';
import type { Bounds } from './bounds.ts';
import { type Ledger, type Segment, segments } from './segment.ts';
import type { Quarantine, SegmentFolder } from './segment-folder.ts';

const firstRetryMs = 100;
const longestRetryMs = 30_000;
/** A store that takes longer for one segment counts as hung; a late insert has the same token. */
const longestInsertMs = 120_000;
/** Consecutive refused rows, without a stored one, from which on the table is at fault. */
const maxConsecutiveRefusals = 100;

/**
 * Stores newline-delimited JSON rows as one block; the same token never stores twice. It gets the position of the rows:
 * reading megabytes per second in this process only to forward them would delay requests.
 */
export type Insert = (table: JournalTable, rows: StoredRows, token: string) => Promise<void>;

/** Dependencies of a shipper. */
interface ShipperParts {
  readonly table: JournalTable;
  /** Undefined without a store: segments wait. */
  readonly insert: Insert | undefined;
  readonly folder: SegmentFolder;
  readonly quarantine: Quarantine;
  readonly ledger: Ledger;
  readonly bounds: Bounds;
  readonly clock: Clock;
  readonly log: Log;
  /** Longest time that rows wait for an unavailable store; then they are dropped. */
  readonly maxAgeMs: number;
  /** All segments are shipped. */
  onIdle(): void;
  /** Only rows of one segment remain, and all are refused: other tables may show which side is at fault. */
  onStuck(): void;
}

/** Ships the sealed segments of one table to the store: oldest first, one at a time. */
export class SegmentShipper {
  private readonly parts: ShipperParts;
  private readonly backOff: BackOff;
  private readonly queue: Segment[] = [];
  private readonly waiters = new Set<{ left: Set<string>; resolve: (all: boolean) => void }>();
  private running: Promise<void> | undefined;
  private atStore = false;
  /** True when the last failure came from the store, not from the disk. */
  private storeFailed = false;
  private waitedForStore = false;
  private stopped = false;
  /** Quarantined rows by segment, until the segment is shipped. */
  private readonly quarantined = new Map<string, number>();
  /** Quarantined rows since the last stored ones. */
  private refusedInRow = 0;
  /** Start of each segment's wait, on the monotonic clock, until the segment is shipped. */
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

  /** Takes over a segment of this age; its rows count as pending already, its bytes as on disk. */
  enqueue(segment: Segment, ageMs = 0): void {
    this.queue.push(segment);
    if (!this.waitsSince.has(segment.base))
      this.waitsSince.set(segment.base, this.parts.clock.monotonic() - ageMs);
    const { insert } = this.parts;
    if (insert === undefined || this.running !== undefined || this.stopped) return;
    this.running = this.run(insert);
  }

  /** Ends a running delay and tries again. */
  nudge(): void {
    this.backOff.interrupt();
  }

  /** Resolves true when all segments queued before the call have left the queue, false when `stop` came first. */
  drained(): Promise<boolean> {
    const left = new Set(this.queue.map(({ base }) => base));
    if (left.size === 0) return Promise.resolve(true);
    return new Promise((resolve) => this.waiters.add({ left, resolve }));
  }

  /**
   * Starts nothing more and resolves when no disk operation is running. It does not wait for a running insert; its
   * segment stays and the next run posts it again, under the same token.
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

  /** Only rows that were tried and not accepted: old rows are as valuable as others once a store is back. */
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
      // Removed first: if that fails, the post is repeated and the store recognises its token.
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

  /** Returns undefined on success and the error when the rows are at fault. Rejects when the store is unavailable. */
  private async post(segment: Segment, insert: Insert): Promise<{ error: unknown } | undefined> {
    this.atStore = true;
    try {
      await this.within(insert(this.parts.table, this.parts.folder.rowsOf(segment), segment.token));
      return undefined;
    } catch (error) {
      this.storeFailed = isStoreUnavailable(error);
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

  /** Bisects a refused segment until the faulty rows are isolated, and moves those to quarantine. */
  private async isolate(segment: Segment, bytes: Buffer, error: unknown): Promise<void> {
    const { base, file, from, end, rows } = segment;
    const { folder, quarantine, ledger } = this.parts;
    const middle = segments.middleOf(bytes);
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
    const left = segments.countRows(bytes.subarray(0, middle));
    const pieces = [
      segments.pieceOf(base, from, from + middle, left),
      segments.pieceOf(base, from + middle, end, rows - left),
    ];
    await folder.replace(file, pieces);
    this.queue.splice(0, 1, ...pieces);
  }

  private get suspectsTable(): boolean {
    return this.refusedInRow >= maxConsecutiveRefusals;
  }

  /**
   * Stops quarantine: when everything is refused, the store needs repair, as after an outage. The rows wait, and the
   * newest are tried next: an accepted row shows that the others are at fault after all.
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

  /** False when the rows are missing or truncated, which ends the segment. */
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

  /** The bytes of a refused segment; undefined when they are missing or truncated, which ends it. */
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
