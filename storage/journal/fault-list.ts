import type { RowFault } from '../../core/ports/journal-inspection.ts';

const mostListed = 1000;

/** Faults in the order of finding: the first 1000 with their places, all of them counted. */
export class FaultList {
  readonly listed: RowFault[] = [];
  count = 0;

  /** Notes that the row at this byte is not as it should be. */
  add(file: string, offset: number, reason: string): void {
    this.count += 1;
    if (this.listed.length < mostListed) this.listed.push({ file, offset, reason });
  }
}
