import { quote } from '../../core/base/json.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import type { Redaction } from '../../core/redaction/redaction.ts';

// One member of a row each, with its comma; empty for a value that says nothing.

export function text(name: keyof RequestRow, value: string): string {
  return value === '' ? '' : `,"${name}":${quote(value)}`;
}

export function number(name: keyof RequestRow, value: number): string {
  return value === 0 ? '' : `,"${name}":${value}`;
}

export function flag(name: keyof RequestRow, value: boolean): string {
  return value ? `,"${name}":true` : '';
}

export function list(name: keyof RequestRow, values: readonly string[]): string {
  return values.length === 0 ? '' : `,"${name}":${JSON.stringify(values.map((value) => clip(value, 128)))}`;
}

export function duration(name: keyof RequestRow, ms: number): string {
  return ms < 0.0005 ? '' : `,"${name}":${milliseconds(ms)}`;
}

/** `.000` to `.999`: writing a fraction is many times dearer than looking it up. */
const thousandths = Array.from({ length: 1000 }, (_, n) => `.${String(n).padStart(3, '0')}`);

/** With three digits after the point, never negative: more would be noise, and costs time to write. */
export function milliseconds(ms: number): string {
  const micros = ms > 0 ? Math.round(ms * 1000) : 0;
  return `${Math.floor(micros / 1000)}${thousandths[micros % 1000]}`;
}

/** At most `length` UTF-16 units, and no half of a surrogate pair at the end. */
export function clip(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/** Without what `redaction` takes out. */
export function redacted(value: string, redaction: Redaction | undefined): string {
  return redaction === undefined ? value : redaction.text(value);
}
