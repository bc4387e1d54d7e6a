import type { JournalVerdict, RowFault } from '../../core/ports/journal-inspection.ts';
import { FaultList } from './fault-list.ts';
import { ifThere, standingSegments, type StandingSegment } from './inventory.ts';
import { linesOf, readRow } from './row-lines.ts';

/**
 * Reads every row of the journal in a folder and says what is not as it should be. Changes nothing; beside a running
 * gateway, segments that are shipped meanwhile are left out. Throws `NoJournal`.
 */
export async function verifyJournal(directory: string): Promise<JournalVerdict> {
  const faults = new FaultList();
  const unfinished: RowFault[] = [];
  const total = { segments: 0, rows: 0, bytes: 0 };
  for (const segment of await standingSegments(directory)) {
    await ifThere(async () => {
      const found = await verifySegment(segment, faults);
      total.segments += 1;
      total.rows += found.rows;
      total.bytes += Math.max(0, Math.min(segment.end, segment.size) - segment.from);
      if (found.unfinished !== undefined) unfinished.push(found.unfinished);
    });
  }
  return { directory, ...total, faults: faults.listed, faultCount: faults.count, unfinished };
}

async function verifySegment(
  segment: StandingSegment,
  faults: FaultList,
): Promise<{ rows: number; unfinished: RowFault | undefined }> {
  const { name, path, from, end, size } = segment;
  const isOpen = name.kind === 'open';
  if (size < end) faults.add(path, size, `ends here, with ${end - size} of its bytes missing`);
  if (size === 0 && !isOpen) faults.add(path, 0, 'is empty');
  if (end <= from && !isOpen && size > 0) faults.add(path, from, 'is a range without bytes');
  if (from > 0 && !(await isRowBoundary(path, from))) faults.add(path, from, 'begins inside of a row');
  let rows = 0;
  let unfinished: RowFault | undefined;
  for await (const line of linesOf(path, from, end)) {
    if (!line.isEnded && isOpen) {
      unfinished = { file: path, offset: line.offset, reason: 'is not finished' };
      continue;
    }
    const row = readRow(line);
    if ('fault' in row) faults.add(path, line.offset, row.fault);
    else if (line.isEnded) rows += 1;
    else faults.add(path, line.offset, 'has no line break');
  }
  return { rows, unfinished };
}

async function isRowBoundary(path: string, at: number): Promise<boolean> {
  for await (const line of linesOf(path, at - 1, at)) return line.isEnded;
  return false;
}
