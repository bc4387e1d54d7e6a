import { chanceOf } from './chance.ts';

/** Settings of a calendar. */
interface CalendarOptions {
  readonly rows: number;
  readonly days: number;
  /** Milliseconds since the epoch, excluded. */
  readonly end: number;
  readonly seed: number;
  /** Rows after which a block is full; its last span may at most double them. */
  readonly blockRows: number;
}

/** Rows that are stored as one block, in order of time. */
export interface Block {
  /** Number of the first row. */
  readonly first: number;
  readonly rows: number;
  /** Milliseconds since the epoch; `to` is excluded. */
  readonly from: number;
  readonly to: number;
  /** The time spans of the block: start of each, and the number of its first row, from 0. */
  readonly starts: readonly number[];
  readonly before: readonly number[];
}

const hourMs = 3_600_000;
/** Bodies have daily partitions, and an insert may touch a hundred. */
const mostHoursPerBlock = 7 * 24;
/** Activity at each hour of a working day (UTC); other time zones keep it above zero. */
const workingDay = [
  2, 2, 1, 1, 2, 3, 6, 12, 22, 30, 33, 31, 25, 30, 33, 32, 29, 24, 17, 11, 8, 6, 4, 3,
] as const;
const weekend = 0.25;
const growth = 0.3;

/** The blocks of a period: quiet nights and weekends, some growth, and no two days alike. */
export function calendar({ rows, days, end, seed, blockRows }: CalendarOptions): Block[] {
  const spanMs = spanOf(rows / days, blockRows);
  const spans = Math.round((days * 24 * hourMs) / spanMs);
  const begin = end - spans * spanMs;
  const chance = chanceOf(seed);
  const weights = Array.from({ length: spans }, (_, span) => {
    const at = new Date(begin + span * spanMs);
    const isWeekend = at.getUTCDay() % 6 === 0;
    const hour = workingDay[at.getUTCHours()] as number;
    return hour * (isWeekend ? weekend : 1) * (1 + growth * (span / spans)) * (0.8 + 0.4 * chance());
  });
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const blocks: Block[] = [];
  let open = emptyBlock(0, begin);
  let drawn = 0;
  weights.forEach((weight, span) => {
    drawn += weight;
    const until = span === spans - 1 ? rows : Math.round((drawn / sum) * rows);
    open.starts.push(begin + span * spanMs);
    open.before.push(open.rows);
    open.rows = until - open.first;
    open.to = begin + (span + 1) * spanMs;
    const isFull = open.rows >= blockRows || open.to - open.from >= mostHoursPerBlock * hourMs;
    if (!isFull && span < spans - 1) return;
    if (open.rows > 0) blocks.push(open);
    open = emptyBlock(until, open.to);
  });
  return blocks;
}

/** An hour, or a part of it where the busiest hours have more rows than a block should. */
function spanOf(rowsPerDay: number, blockRows: number): number {
  const busiest = (rowsPerDay / 24) * 4;
  return hourMs / ([1, 2, 4, 6, 12, 30, 60].find((parts) => busiest / parts <= blockRows) ?? 60);
}

function emptyBlock(first: number, from: number) {
  return { first, rows: 0, from, to: from, starts: [] as number[], before: [] as number[] };
}
