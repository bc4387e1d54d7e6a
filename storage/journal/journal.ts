import type { Clock } from '../../core/ports/clock.ts';
import type {
  Journal,
  JournalLine,
  JournalPolicy,
  JournalRoom,
  JournalState,
  JournalSync,
  JournalTable,
  ShedReason,
} from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { Admission, Bounds } from './bounds.ts';
import { type Disk, diskRoom } from './disk-room.ts';
import { sentenceOf } from './back-off.ts';
import { Quarantine, SegmentFolder } from './segment-folder.ts';
import { recoverSegments } from './recover.ts';
import { Ledger, type Segment, segments } from './segment.ts';
import { type Insert, SegmentShipper } from './segment-shipper.ts';
import { SegmentWriter } from './segment-writer.ts';

const lookEveryMs = 5000;

/** Options of `followDisk`. */
interface DiskRoomParts {
  readonly bounds: Bounds;
  readonly disk: () => Promise<Disk>;
  readonly minFreeBytes: number | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** Updates a bound from the free space on the disk, every five seconds. Returns the function that ends it. */
function followDisk({ bounds, disk, minFreeBytes, clock, log }: DiskRoomParts): () => void {
  let cancel = (): void => undefined;
  let isEnded = false;
  let failed = false;
  const look = async (): Promise<void> => {
    try {
      bounds.resize(diskRoom.boundFor(await disk(), bounds.onDiskBytes, minFreeBytes));
      failed = false;
    } catch (error) {
      if (!failed)
        log.warn(`journal: the system does not say what is free on the disk (${sentenceOf(error)})`);
      failed = true;
    }
    if (!isEnded) cancel = clock.after(lookEveryMs, () => void look());
  };
  cancel = clock.after(lookEveryMs, () => void look());
  return () => {
    isEnded = true;
    cancel();
  };
}

const mebibyte = 1024 * 1024;

/** Options of `openJournal`. */
export interface JournalOptions {
  /** Created when missing. No other process may use it: take the lock of the data folder first. */
  readonly directory: string;
  /**
   * Stores rows; the same token never stores twice. Undefined: there is no store, and rows stay here within `maxBytes`.
   */
  readonly insert: Insert | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Longest time of a row in memory alone. */
  readonly flushMs: number;
  /**
   * Age at which a segment is sealed and shipped, at least three times as long after the one before. While older ones
   * wait for the store, it continues to grow.
   */
  readonly shipMs: number;
  /** Policy for syncing written rows. Default `interval`. */
  readonly sync?: JournalSync;
  /** With `interval`, the longest time until the sync, milliseconds. Default 1,000. */
  readonly syncMs?: number;
  /**
   * Bound on the bytes of all segments on disk; `whenFull` decides what happens near it. Undefined: the free space of
   * the disk minus `minFreeBytes`; 2 GiB without a store.
   */
  readonly maxBytes: number | undefined;
  /** Without `maxBytes`, space that the journal leaves to others on its disk. Default a tenth of it, at most 1 GiB. */
  readonly minFreeBytes?: number | undefined;
  /** Longest time that rows wait for an unavailable store before they are dropped (`shed` only). Default: no limit. */
  readonly maxAgeMs?: number;
  /** Default: the system's values for the disk under the folder. */
  readonly disk?: () => Promise<Disk>;
  /** Default `shed`. */
  readonly whenFull?: JournalPolicy;
  /** Longest wait of a request for room (`block`). Default 10 s. */
  readonly blockMs?: number;
  /** Size at which a segment is sealed. Default 16 MiB. A row has at most so many characters, or 8 Mi. */
  readonly maxSegmentBytes?: number;
  /** Bound on the characters waiting for the disk. Default 64 Mi. */
  readonly maxUnflushed?: number;
}

/**
 * Opens the journal in a folder, takes over remnants of earlier runs and starts to ship them. Rejects when the folder
 * cannot be read or written.
 */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const { directory, clock, log, insert, minFreeBytes, maxSegmentBytes = 16 * mebibyte } = options;
  const { sync = 'interval', syncMs = 1000 } = options;
  const folder = new SegmentFolder(directory, { syncsRows: sync !== 'none' });
  await folder.prepare();
  const { disk = () => diskRoom.under(directory) } = options;
  const followsDisk = options.maxBytes === undefined && insert !== undefined;
  const maxBytes =
    options.maxBytes ?? (followsDisk ? await initialBound(disk, minFreeBytes, log) : diskRoom.fixedBound);
  const quarantine = new Quarantine({
    journal: directory,
    maxBytes: Math.min(64 * mebibyte, Math.ceil(maxBytes / 10)),
    clock,
    log,
  });
  await quarantine.prepare();
  const found = await recoverSegments(folder, quarantine, log);
  const { maxUnflushed = 64 * mebibyte } = options;
  const { whenFull: policy = 'shed', blockMs = 10_000 } = options;
  const maxRow = Math.min(maxSegmentBytes, 8 * mebibyte);
  const bounds = new Bounds({ maxBytes, maxUnflushed, maxRow, policy }, log);
  const admission = policy === 'block' ? new Admission({ bounds, clock, log, blockMs }) : undefined;
  const { shipMs } = options;
  // With `block`, accepted rows are never dropped.
  const maxAgeMs = policy === 'shed' ? (options.maxAgeMs ?? Infinity) : Infinity;
  const stopFollowing = followsDisk ? followDisk({ bounds, disk, minFreeBytes, clock, log }) : undefined;
  // After a clock set back since the last run, new rows must still sort after old ones.
  const newest = Math.max(0, ...found.map(({ segment }) => segments.parseName(segment.file)?.start ?? 0));
  const start = Math.max(clock.now(), newest + 1);
  const parts = {
    folder,
    quarantine,
    bounds,
    clock,
    log,
    insert,
    shipMs,
    maxSegmentBytes,
    start,
    sync,
    syncMs,
    maxAgeMs,
  };
  const journal = new SegmentJournal(
    options,
    { bounds, admission, stopFollowing },
    {
      requests: new TableStream('requests', parts),
      bodies: new TableStream('bodies', parts),
      feedback: new TableStream('feedback', parts),
    },
  );
  for (const { table, segment, writtenAt } of found)
    journal.streams[table].takeOver(segment, Math.max(0, clock.now() - writtenAt));
  return journal;
}

async function initialBound(
  disk: () => Promise<Disk>,
  minFree: number | undefined,
  log: Log,
): Promise<number> {
  try {
    // Rows of earlier runs are on the disk already; the next check counts them.
    return diskRoom.boundFor(await disk(), 0, minFree);
  } catch (error) {
    log.warn(
      `journal: the system does not say what is free on the disk (${sentenceOf(error)}); the bound is ${diskRoom.fixedBound} bytes, or storage.journal.max_bytes`,
    );
    return diskRoom.fixedBound;
  }
}

class SegmentJournal implements Journal {
  readonly streams: Readonly<Record<JournalTable, TableStream>>;
  private readonly clock: Clock;
  private readonly flushMs: number;
  private readonly hasStore: boolean;
  private readonly bounds: Bounds;
  private readonly admission: Admission | undefined;
  private readonly policy: JournalPolicy;
  private readonly stopFollowing: (() => void) | undefined;
  private cancelFlush: (() => void) | undefined;
  private closing: Promise<void> | undefined;

  constructor(
    options: JournalOptions,
    parts: { bounds: Bounds; admission: Admission | undefined; stopFollowing: (() => void) | undefined },
    streams: SegmentJournal['streams'],
  ) {
    this.bounds = parts.bounds;
    this.admission = parts.admission;
    this.stopFollowing = parts.stopFollowing;
    this.policy = options.whenFull ?? 'shed';
    this.clock = options.clock;
    this.flushMs = options.flushMs;
    this.hasStore = options.insert !== undefined;
    this.streams = streams;
  }

  append(table: JournalTable, line: JournalLine, owner = ''): void {
    this.streams[table].append(line, owner);
    if (this.cancelFlush === undefined) this.scheduleFlush();
  }

  admit(): Promise<void> | undefined {
    return this.admission?.admit();
  }

  async flush(): Promise<void> {
    await Promise.all(this.each((stream) => stream.flush()));
  }

  async settle(timeoutMs: number): Promise<boolean> {
    if (!this.hasStore) {
      // Waiting would change nothing: unstored rows stay here.
      await this.within(timeoutMs, this.flush());
      return this.each((stream) => stream.state().pending === 0).every(Boolean);
    }
    const results = await this.within(timeoutMs, Promise.all(this.each((stream) => stream.settle())));
    return results?.every(Boolean) ?? false;
  }

  state(table: JournalTable): JournalState {
    return this.streams[table].state();
  }

  shedBy(table: JournalTable): Readonly<Record<ShedReason, number>> {
    return this.streams[table].shedBy();
  }

  room(): JournalRoom {
    const { waiting = 0, waited = 0, refused = 0 } = this.admission ?? {};
    const { bytes, maxBytes } = this.bounds;
    return { policy: this.policy, maxBytes, bytes, waiting, waited, refused };
  }

  get lastError(): string | undefined {
    const { requests, bodies, feedback } = this.streams;
    return requests.lastError ?? bodies.lastError ?? feedback.lastError;
  }

  close(deadlineMs: number): Promise<void> {
    this.closing ??= this.end(deadlineMs);
    return this.closing;
  }

  private async end(deadlineMs: number): Promise<void> {
    this.stopFollowing?.();
    this.bounds.close();
    this.admission?.close();
    this.cancelFlush?.();
    const work = this.hasStore
      ? this.each((stream) => stream.settle())
      : this.each((stream) => stream.seal());
    await this.within(deadlineMs, Promise.all(work));
    await Promise.all(this.each((stream) => stream.stop()));
  }

  private scheduleFlush(): void {
    this.cancelFlush = this.clock.after(this.flushMs, () => {
      this.cancelFlush = undefined;
      void this.flush();
    });
  }

  private each<T>(run: (stream: TableStream) => T): T[] {
    return Object.values(this.streams).map(run);
  }

  /** The result of a promise, or undefined when it takes longer. */
  private async within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
    let cancel = (): void => undefined;
    const late = new Promise<undefined>((resolve) => {
      cancel = this.clock.after(ms, () => resolve(undefined));
    });
    try {
      return await Promise.race([promise, late]);
    } finally {
      cancel();
    }
  }
}

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

/**
 * Segments end at least so many times `shipMs` apart. Each insert costs the store as much as a thousand rows, whatever
 * its size: a first row leaves soon, rows of steady traffic wait longer, and leave together.
 */
const spacing = 3;

/** Pipeline of one table's rows: memory, open segment, sealed segment, store. */
class TableStream {
  private readonly ledger = new Ledger();
  private readonly parts: StreamParts;
  private readonly writer: SegmentWriter;
  private readonly shipper: SegmentShipper;
  private cancelDue: (() => void) | undefined;
  private isDue = false;
  /** When the last segment ended, on the monotonic clock. */
  private sealedAt = -Infinity;

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
        this.sealedAt = parts.clock.monotonic();
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
    const { clock, shipMs } = this.parts;
    const wait = Math.max(shipMs, this.sealedAt + spacing * shipMs - clock.monotonic());
    this.cancelDue = clock.after(wait, () => {
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
