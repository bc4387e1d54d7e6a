import type { FillProgress } from './fill.ts';

/** Output of the progress. */
interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

const lineEveryMs = 5000;
const barEveryMs = 100;
const mostBar = 30;

/** Shows the progress of a fill: a bar on a terminal, else a line every five seconds; `now` is in milliseconds. */
export function showProgress(output: ProgressOutput, now: () => number): (progress: FillProgress) => void {
  const begin = now();
  const every = output.isTTY === true ? barEveryMs : lineEveryMs;
  let shownAt = -Infinity;
  return (progress) => {
    const isLast = progress.stored >= progress.rows;
    if (!isLast && now() - shownAt < every) return;
    shownAt = now();
    const text = progressText(progress, (now() - begin) / 1000);
    if (output.isTTY !== true) return void output.write(`${text}\n`);
    const width = Math.min(mostBar, (output.columns ?? 80) - text.length - 4);
    const full = Math.round((progress.stored / progress.rows) * width);
    const bar = width < 5 ? '' : `[${'#'.repeat(full)}${'.'.repeat(width - full)}] `;
    output.write(`\r${bar}${text}\u001b[K${isLast ? '\n' : ''}`);
  };
}

/** `45 %, 4,500,000 of 10,000,000 rows, 61,000 rows/s, 1 min 30 s left`. */
export function progressText({ stored, rows, own }: FillProgress, seconds: number): string {
  const share = `${Math.floor((stored / rows) * 100)} %, ${grouped(stored)} of ${grouped(rows)} rows`;
  if (own === 0 || seconds === 0) return share;
  const speed = own / seconds;
  const told = `${share}, ${grouped(Math.round(speed))} rows/s`;
  return stored >= rows ? told : `${told}, ${durationText((rows - stored) / speed)} left`;
}

function durationText(seconds: number): string {
  const whole = Math.ceil(seconds);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

function grouped(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}
