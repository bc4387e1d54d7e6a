import { shedReasons, type JournalState, type ShedReason } from '../../core/ports/journal.ts';

/**
 * The rows of one table, counted by where they are. Rows only ever move from one place to another, so that
 * accepted = stored + pending + shed holds at any moment.
 */
export class Ledger {
  private accepted = 0;
  private stored = 0;
  private pending = 0;
  private shed = 0;
  private readonly reasons = Object.fromEntries(shedReasons.map((reason) => [reason, 0])) as Record<
    ShedReason,
    number
  >;
  /** Rows that were pending and then given up, as opposed to refused at once. */
  dropped = 0;

  /** Rows taken in; they wait for delivery. */
  accept(rows: number): void {
    this.accepted += rows;
    this.pending += rows;
  }

  /** One row for which there was no room. */
  refuse(reason: ShedReason): void {
    this.accepted += 1;
    this.shed += 1;
    this.reasons[reason] += 1;
  }

  /** Waiting rows that are in the store now. */
  store(rows: number): void {
    this.pending -= rows;
    this.stored += rows;
  }

  /** Waiting rows that are given up. */
  drop(rows: number, reason: ShedReason): void {
    this.pending -= rows;
    this.shed += rows;
    this.dropped += rows;
    this.reasons[reason] += rows;
  }

  /** A snapshot for the port. */
  state(): JournalState {
    const { accepted, stored, pending, shed } = this;
    return { accepted, stored, pending, shed };
  }

  /** What the shed rows were shed for. */
  shedBy(): Readonly<Record<ShedReason, number>> {
    return { ...this.reasons };
  }
}
