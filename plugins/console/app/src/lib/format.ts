/** Numbers and times as the user reads them. */

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const ago = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const share = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 });

export function count(value: number): string {
  return Math.abs(value) >= 100_000 ? compact.format(value) : whole.format(value);
}

export function percent(value: number): string {
  return share.format(value);
}

/** Dollars: cents from a dollar on, two significant digits below a cent. */
export function money(dollars: number): string {
  if (dollars === 0) return '$0';
  const size = Math.abs(dollars);
  if (size >= 10_000) return `$${compact.format(dollars)}`;
  if (size >= 0.01) return `$${dollars.toFixed(size >= 1 ? 2 : 3)}`;
  return `$${dollars.toPrecision(2)}`;
}

/** Milliseconds, or seconds from one on. */
export function duration(ms: number): string {
  if (ms >= 60_000) return `${(ms / 60_000).toFixed(1)} min`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return `${ms >= 10 ? Math.round(ms) : Number(ms.toPrecision(2))} ms`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  if (value < 1_048_576) return `${(value / 1024).toFixed(1)} KiB`;
  return `${(value / 1_048_576).toFixed(1)} MiB`;
}

/** How long ago, or in how long. */
export function relative(iso: string, now = Date.now()): string {
  const seconds = Math.round((Date.parse(iso) - now) / 1000);
  if (Number.isNaN(seconds)) return iso;
  const size = Math.abs(seconds);
  if (size < 60) return ago.format(seconds, 'second');
  if (size < 3600) return ago.format(Math.round(seconds / 60), 'minute');
  if (size < 86_400) return ago.format(Math.round(seconds / 3600), 'hour');
  return ago.format(Math.round(seconds / 86_400), 'day');
}

/** A moment in the chosen zone, to the second (`ms`: to the millisecond). */
export function moment(iso: string, zone: 'local' | 'utc', ms = false): string {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso;
  // Swedish writes dates as ISO 8601 does.
  return momentsOf(zone, ms).format(date).replace(',', '.');
}

/** A format costs a hundred times what it writes: a long list makes each once. */
const moments = new Map<string, Intl.DateTimeFormat>();

function momentsOf(zone: 'local' | 'utc', ms: boolean): Intl.DateTimeFormat {
  const name = `${zone} ${String(ms)}`;
  let format = moments.get(name);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('sv', {
      ...{ year: 'numeric', month: '2-digit', day: '2-digit' },
      ...{ hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
      ...(ms && { fractionalSecondDigits: 3 }),
      ...(zone === 'utc' && { timeZone: 'UTC' }),
    });
    moments.set(name, format);
  }
  return format;
}
