import type { Clock } from '../../core/ports/clock.ts';
import type {
  JournalLine,
  JournalState,
  JournalSync,
  JournalTable,
  ShedReason,
} from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Bounds } from './bounds.ts';
import { Ledger, type Segment } from './segment.ts';
import type { Quarantine, SegmentFolder } from './segment-folder.ts';
import { SegmentShipper, type Insert } from './segment-shipper.ts';
import { SegmentWriter } from './segment-writer.ts';

/** Dependencies that the tables of a journal share. */
interface StreamParts {
  readonly folder: SegmentFolder;
  readonly quarantine: Quarantine;
  readonly bounds: Bounds;
  readonly clock: Clock;
  readonly log: Log;
  readonly insert: Insert | undefined;
  readonly shipMs: number;
  readonly maxSegmentBytes: number;
  readonly sync: JournalSync;
  readonly syncMs: number;
  readonly maxAgeMs: number;
  readonly start: number;
}

/** Pipeline of one table's rows: memory, open segment, sealed segment, store. */
export class TableStream {
  private readonly ledger = new Ledger();
  private readonly parts: StreamParts;
  private readonly writer: SegmentWriter;
  private readonly shipper: SegmentShipper;
  private cancelDue: (() => void) | undefined;
  private isDue = false;

  constructor(table: JournalTable, parts: StreamParts) {
    const { ledger } = this;
    this.parts = parts;
    this.shipper = new SegmentShipper({
      ...parts,
      table,
      ledger,
      onIdle: () => this.sealWhenDue(),
      onStuck: () => void this.writer.seal(),
    });
    this.writer = new SegmentWriter({
      ...parts,
      table,
      ledger,
      onOpened: () => this.awaitDue(),
      onSealed: (segment) => {
        this.forgetDue();
        this.shipper.enqueue(segment);
      },
    });
  }

  append(line: JournalLine, owner: string): void {
    this.writer.append(line, owner);
  }

  /** Takes over a segment of an earlier run, of this age: its rows count as accepted. */
  takeOver(segment: Segment, ageMs: number): void {
    this.ledger.accept(segment.rows);
    this.parts.bounds.occupy(segment.end - segment.from);
    this.shipper.enqueue(segment, ageMs);
  }

  flush(): Promise<void> {
    return this.writer.flush();
  }

  /** Flushes and ends the open segment. */
  seal(): Promise<void> {
    return this.writer.seal();
  }

  /** Seals and ships; resolves true when all earlier rows are stored, false when some were dropped. */
  async settle(): Promise<boolean> {
    const { dropped } = this.ledger;
    await this.writer.seal();
    this.shipper.nudge();
    return (await this.shipper.drained()) && this.ledger.dropped === dropped;
  }

  /** Writes to disk as much as possible, without retries, and then leaves the folder alone. */
  async stop(): Promise<void> {
    this.writer.abandon();
    await this.writer.seal();
    this.forgetDue();
    await this.shipper.stop();
  }

  state(): JournalState {
    return this.ledger.state();
  }

  shedBy(): Readonly<Record<ShedReason, number>> {
    return this.ledger.shedBy();
  }

  get lastError(): string | undefined {
    return this.shipper.lastError;
  }

  private awaitDue(): void {
    // Without a store only the size ends a segment: many small files have no use.
    if (this.parts.insert === undefined) return;
    this.cancelDue = this.parts.clock.after(this.parts.shipMs, () => {
      this.isDue = true;
      this.sealWhenDue();
    });
  }

  private forgetDue(): void {
    this.cancelDue?.();
    this.isDue = false;
  }

  /** While segments wait for the store, the open one continues to grow, so that an outage leaves few, large files. */
  private sealWhenDue(): void {
    if (!this.isDue || !this.shipper.idle) return;
    this.isDue = false;
    void this.writer.seal();
  }
}
