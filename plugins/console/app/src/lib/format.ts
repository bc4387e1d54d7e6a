import { clockText, ianaName, offsetName, type Zone } from '@/lib/zones';
import { common } from '@/texts/common';

/** Numbers and times as the user reads them, in the language of the texts. Units are the symbols of all languages. */

const { locale } = common;
const number = (options: Intl.NumberFormatOptions): Intl.NumberFormat =>
  new Intl.NumberFormat(locale, options);
const fixed = (digits: number) => ({ minimumFractionDigits: digits, maximumFractionDigits: digits });
const significant = { minimumSignificantDigits: 2, maximumSignificantDigits: 2 };
const short = { notation: 'compact', maximumFractionDigits: 1 } as const;
const dollar = { style: 'currency', currency: 'USD' } as const;

const whole = number(fixed(0));
const compact = number(short);
const share = number({ style: 'percent', maximumFractionDigits: 1 });
const tenths = number(fixed(1));
const hundredths = number(fixed(2));
const rough = number({ maximumSignificantDigits: 2 });
const dollars = {
  none: number({ ...dollar, ...fixed(0) }),
  large: number({ ...dollar, ...short, minimumFractionDigits: 0 }),
  cents: number({ ...dollar, ...fixed(2) }),
  mills: number({ ...dollar, ...fixed(3) }),
  small: number({ ...dollar, ...significant }),
};
const enumeration = new Intl.ListFormat(locale, { type: 'unit', style: 'short' });
const conjunction = new Intl.ListFormat(locale, { type: 'conjunction' });
const ago = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });

export function count(value: number): string {
  return Math.abs(value) >= 100_000 ? compact.format(value) : whole.format(value);
}

export function percent(value: number): string {
  return share.format(value);
}

/** Dollars: cents from a dollar on, two significant digits below a cent. */
export function money(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return dollars.none.format(0);
  if (size >= 10_000) return dollars.large.format(value);
  if (size >= 0.01) return (size >= 1 ? dollars.cents : dollars.mills).format(value);
  return dollars.small.format(value);
}

/** Values beside each other: `a, b, c`. */
export function list(values: Iterable<string | number>): string {
  return enumeration.format(Array.from(values, String));
}

/** All of them: `a, b, and c`. */
export function together(texts: Iterable<string>): string {
  return conjunction.format(texts);
}

/** Milliseconds; seconds, minutes, hours and days from one, one, one and two of them on. */
export function duration(ms: number): string {
  if (ms >= 172_800_000) return `${tenths.format(ms / 86_400_000)} d`;
  if (ms >= 3_600_000) return `${tenths.format(ms / 3_600_000)} h`;
  if (ms >= 60_000) return `${tenths.format(ms / 60_000)} min`;
  if (ms >= 1000) return `${hundredths.format(ms / 1000)} s`;
  return `${(ms >= 10 ? whole : rough).format(ms)} ms`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${whole.format(value)} B`;
  if (value < 1_048_576) return `${tenths.format(value / 1024)} KiB`;
  return `${tenths.format(value / 1_048_576)} MiB`;
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

/** A zone by its name: `UTC`, `Europe/Berlin`, or the distance of the local one now: `UTC+2`. */
export function zoneName(zone: Zone): string {
  return zone === 'local' ? offsetName(zone) : ianaName(zone).replaceAll('_', ' ');
}

/** A moment in the chosen zone, to the second (`ms`: to the millisecond). */
export function moment(iso: string, zone: Zone, ms = false): string {
  const at = Date.parse(iso);
  return Number.isNaN(at) ? iso : clockText(at, zone, ms);
}
