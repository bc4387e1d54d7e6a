import { headerValue, type HeaderList } from '../ports/header-list.ts';

const decimal = /^\d{1,15}(?:\.\d{1,15})?$/;
const day = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const month = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)';
const time = '\\d{2}:\\d{2}:\\d{2}';
/** `Sun, 06 Nov 1994 08:49:37 GMT`, or `Sunday, 06-Nov-94 08:49:37 GMT` from old servers. */
const date = new RegExp(`^${day}[a-z]*, \\d{2}[ -]${month}[ -]\\d{2}(?:\\d{2})? ${time} GMT$`);
/** `Sun Nov  6 08:49:37 1994`, the third form that RFC 9110 section 5.6.7 requires; in GMT as well. */
const asctimeDate = new RegExp(`^${day} ${month} [ \\d]\\d ${time} \\d{4}$`);

/**
 * Delay that an answer asks for, in milliseconds: `retry-after-ms`, else `x-ms-retry-after-ms`, else `retry-after`
 * (seconds or an HTTP date, compared with `now`, the wall clock). An invalid value or a past date is skipped for the
 * next header. Undefined without a valid one.
 */
export function retryAfterMs(headers: HeaderList, now: number): number | undefined {
  return (
    parseDecimal(headerValue(headers, 'retry-after-ms')) ??
    parseDecimal(headerValue(headers, 'x-ms-retry-after-ms')) ??
    secondsOrDate(headerValue(headers, 'retry-after'), now)
  );
}

function parseDecimal(value: string | undefined): number | undefined {
  const text = value?.trim();
  return text !== undefined && decimal.test(text) ? Number(text) : undefined;
}

function secondsOrDate(value: string | undefined, now: number): number | undefined {
  const seconds = parseDecimal(value);
  if (seconds !== undefined) return seconds * 1000;
  const text = value?.trim() ?? '';
  const at = date.test(text)
    ? Date.parse(text)
    : asctimeDate.test(text)
      ? Date.parse(`${text} GMT`)
      : Number.NaN;
  return at > now ? at - now : undefined;
}
