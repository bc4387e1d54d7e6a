import type { JournalPolicy, JournalTable, ShedReason } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';

/** Upper bound of waiting requests; each holds a connection. */
const maxWaiting = 1000;

interface Waiter {
  readonly resolve: () => void;
  readonly cancel: () => void;
}

/** Makes requests wait while the journal's room is scarce: a request that cannot be logged must not cause cost. */
export class Admission {
  /** Requests admitted after a wait. */
  waited = 0;
  /** Refused requests. */
  refused = 0;
  private readonly bounds: Bounds;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly blockMs: number;
  private waiters: Waiter[] = [];
  private reported = false;

  /** `blockMs`: longest wait of a request. */
  constructor(parts: { bounds: Bounds; clock: Clock; log: Log; blockMs: number }) {
    this.bounds = parts.bounds;
    this.clock = parts.clock;
    this.log = parts.log;
    this.blockMs = parts.blockMs;
    this.bounds.onRelief = () => this.letIn();
  }

  /** Waiting requests. */
  get waiting(): number {
    return this.waiters.length;
  }

  /** Undefined while there is room; see the port. */
  admit(): Promise<void> | undefined {
    return this.bounds.scarce ? this.wait() : undefined;
  }

  /** Releases all waiting requests: from now on nothing is decided here. */
  close(): void {
    this.reported = false;
    this.letIn();
  }

  private wait(): Promise<void> {
    if (!this.reported) {
      this.reported = true;
      this.log.error(
        'journal: its disk bound is all but reached, requests wait for room and are refused with journal_full after storage.journal.block_ms; bring the analytics store back, free the disk, or raise storage.journal.max_bytes where it is set',
      );
    }
    if (this.blockMs === 0 || this.waiters.length >= maxWaiting) return Promise.reject(this.refusal());
    return new Promise((resolve, reject) => {
      const cancel = this.clock.after(this.blockMs, () => {
        this.waiters.splice(this.waiters.indexOf(waiter), 1);
        reject(this.refusal());
      });
      const waiter: Waiter = { resolve, cancel };
      this.waiters.push(waiter);
    });
  }

  private letIn(): void {
    const { waiters } = this;
    if (this.reported)
      this.log.info('journal: there is room again, requests go on', { waiting: waiters.length });
    this.reported = false;
    if (waiters.length === 0) return;
    this.waiters = [];
    this.waited += waiters.length;
    for (const { cancel, resolve } of waiters) {
      cancel();
      resolve();
    }
  }

  private refusal(): GatewayError {
    this.refused += 1;
    return new GatewayError(
      'journal_full',
      'The gateway cannot log this request, and was told to serve none that it cannot log. Nothing was sent to a provider; try again later.',
      { headers: ['retry-after', '5'] },
    );
  }
}

/**
 * Factor of the remainder that one owner may have taken: one owner alone gets four fifths of the room, two get four
 * ninths each.
 */
const shareFactor = 4;
/** Upper bound of distinguished owners; later ones share one account. */
const maxOwners = 4096;

/**
 * Divides the last part of the room among owners that are not known in advance. An owner may take room until it has
 * taken four times the remainder: large consumers are refused early, and room is always left for late or small ones.
 * Counts only usage since the room became scarce.
 */
export class FairShares {
  private readonly taken = new Map<string, number>();
  private takenByRest = 0;

  /** Takes `size` for an owner, leaving `left`; false when that exceeds its share. */
  take(owner: string, size: number, left: number): boolean {
    const before = this.taken.get(owner);
    const isOneOfRest = before === undefined && this.taken.size >= maxOwners;
    const after = (isOneOfRest ? this.takenByRest : (before ?? 0)) + size;
    if (after > shareFactor * left) return false;
    if (isOneOfRest) this.takenByRest = after;
    else this.taken.set(owner, after);
    return true;
  }

  /** Reduces the taken bytes of all owners by the same factor (0 to 1). */
  shrink(factor: number): void {
    this.takenByRest *= factor;
    for (const [owner, taken] of this.taken) {
      if (taken * factor < 1) this.taken.delete(owner);
      else this.taken.set(owner, taken * factor);
    }
  }

  /** The room is no longer scarce. */
  clear(): void {
    if (this.taken.size > 0) this.taken.clear();
    this.takenByRest = 0;
  }
}

/** The room of a journal. */
interface Room {
  /** Bytes of all segments on disk. */
  readonly maxBytes: number;
  /** Characters of rows that are not on disk yet. */
  readonly maxUnflushed: number;
  /** Characters of one row. */
  readonly maxRow: number;
  /** Default `shed`. */
  readonly policy?: JournalPolicy;
}

type Shortage = 'disk' | 'memory' | 'length';

/** Share of the disk bound from which room is scarce, and above which bodies are shed. */
const scarceFrom = 0.8;
const bodiesUpTo = 0.9;
/** With `block`, admitted requests may exceed the bound by this factor; above that even their rows are shed. */
const blockingFactor = 2;

/** Content of a journal, over all tables, against its bounds; logs each shortage once. */
export class Bounds {
  /** Called when room is no longer scarce. */
  onRelief: (() => void) | undefined;
  private room: Room;
  private readonly policy: JournalPolicy;
  /** Absolute bound of bytes on disk. */
  private hardBytes = 0;
  /** Up to here a row costs one comparison; set very low on close, so that every row takes the slow path. */
  private scarceBytes = 0;
  private readonly scarceUnflushed: number;
  private readonly shares = new FairShares();
  private closed = false;
  private readonly log: Log;
  private onDisk = 0;
  private unflushed = 0;
  private readonly reported = new Set<Shortage>();

  constructor(room: Room, log: Log) {
    this.room = room;
    this.log = log;
    this.policy = room.policy ?? 'shed';
    this.resize(room.maxBytes);
    this.scarceUnflushed = room.maxUnflushed * scarceFrom;
  }

  /** Admits one row of so many characters to memory, or returns the reason why there is no room. */
  admit(characters: number, table: JournalTable, owner: string): ShedReason | undefined {
    const { room } = this;
    const unflushed = this.unflushed + characters;
    if (
      unflushed > room.maxUnflushed ||
      this.onDisk + unflushed > this.scarceBytes ||
      characters > room.maxRow
    ) {
      const reason = this.closed ? 'closed' : this.examine(characters, unflushed, table, owner);
      if (reason !== undefined) return reason;
    }
    this.unflushed = unflushed;
    return undefined;
  }

  /** Sets a new bound on the bytes on disk. */
  resize(maxBytes: number): void {
    this.room = { ...this.room, maxBytes };
    this.hardBytes = this.policy === 'block' ? maxBytes * blockingFactor : maxBytes;
    this.scarceBytes = maxBytes * scarceFrom;
    this.relieve();
  }

  /** Bound on the bytes on disk. */
  get maxBytes(): number {
    return this.room.maxBytes;
  }

  /** Bytes on disk. */
  get onDiskBytes(): number {
    return this.onDisk;
  }

  /** Bytes that may still be written. */
  get free(): number {
    return this.hardBytes - this.onDisk;
  }

  /** Bytes on disk and on the way there. */
  get bytes(): number {
    return this.onDisk + this.unflushed;
  }

  /** True when requests that can wait should wait. */
  get scarce(): boolean {
    return this.onDisk + this.unflushed > this.scarceBytes || this.unflushed > this.scarceUnflushed;
  }

  /** Admits nothing more; admitted rows keep their room. */
  close(): void {
    this.closed = true;
    // No row is this short: closing costs the hot path nothing.
    this.room = { ...this.room, maxRow: -1 };
  }

  /** Rows that have left memory, to disk or discarded. */
  flushed(characters: number): void {
    this.unflushed -= characters;
    if (this.unflushed < this.room.maxUnflushed / 2) this.reported.delete('memory');
    this.relieve();
  }

  /** Bytes that have been written. */
  occupy(bytes: number): void {
    this.onDisk += bytes;
  }

  /** Bytes that have been removed from disk. */
  release(bytes: number): void {
    const before = this.onDisk + this.unflushed - this.scarceBytes;
    this.onDisk -= bytes;
    // Rows leave in order of arrival, of all owners; only their sum is known.
    if (before > bytes) this.shares.shrink((before - bytes) / before);
    else this.shares.clear();
    // Well below the bound, so that a journal near it does not fill the log.
    if (this.onDisk < this.scarceBytes * 0.9) this.reported.delete('disk');
    this.relieve();
  }

  /** Logs once that rows are shed because of this shortage. */
  report(shortage: Shortage): void {
    if (this.reported.has(shortage)) return;
    this.reported.add(shortage);
    this.log.error(sentence(shortage, this.room), { onDiskBytes: this.onDisk, unflushed: this.unflushed });
  }

  private relieve(): void {
    if (this.onRelief !== undefined && !this.scarce) this.onRelief();
  }

  private examine(
    characters: number,
    unflushed: number,
    table: JournalTable,
    owner: string,
  ): ShedReason | undefined {
    const { room } = this;
    let reason: ShedReason | undefined;
    if (characters > room.maxRow) reason = 'length';
    else if (unflushed > room.maxUnflushed) reason = 'memory';
    else reason = this.shortOfDisk(characters, this.onDisk + unflushed, table, owner);
    if (reason !== undefined) this.report(reason === 'length' || reason === 'memory' ? reason : 'disk');
    return reason;
  }

  /** `bytes` is the content of the journal with the row. */
  private shortOfDisk(
    characters: number,
    bytes: number,
    table: JournalTable,
    owner: string,
  ): ShedReason | undefined {
    if (bytes > this.hardBytes) return 'disk';
    // A blocking journal keeps the room below the bound for running requests.
    if (this.policy === 'block') return undefined;
    const { maxBytes } = this.room;
    const most = table === 'bodies' ? maxBytes * bodiesUpTo : maxBytes;
    if (bytes > most) return 'bodies';
    return this.shares.take(owner, characters, most - bytes) ? undefined : 'share';
  }
}

function sentence(shortage: Shortage, room: Room): string {
  switch (shortage) {
    case 'disk':
      return `journal: the disk bound of ${room.maxBytes} bytes is all but reached, log rows are shed: those of workspaces that write most, and bodies before requests; bring the analytics store back, free the disk, or raise storage.journal.max_bytes where it is set`;
    case 'memory':
      return `journal: ${room.maxUnflushed} characters wait for the disk, log rows are shed; look for a full or slow disk under the data folder`;
    case 'length':
      return `journal: a log row is longer than ${room.maxRow} characters and is shed; log less of the bodies`;
  }
}
