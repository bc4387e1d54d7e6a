import type { LogRecord } from '../../core/ports/analytics.ts';
import type { FileFormat } from '../../core/ports/exports.ts';
import { columns, type Column } from './columns.ts';

/** What a spreadsheet takes for the beginning of a formula. */
const formula = /^[=+\-@\t\r]/;
const special = /[",\r\n]/;
const nothing = new Uint8Array(0);

/**
 * A table as RFC 4180 has it: a line of names, CRLF, quotes around what needs them. Bodies stand as they were logged,
 * metadata as JSON, what is not there is empty. A text that a spreadsheet would take for a formula gets an apostrophe
 * before it: callers choose what stands in logs, and somebody else opens the file.
 */
export const csv: FileFormat = {
  contentType: 'text/csv; charset=utf-8',
  pageBytes: 524_288,
  head: (fields) => Buffer.from(`${fields.join(',')}\r\n`),
  rows(fields, records) {
    const chosen = fields.map((field) => columns[field]);
    let text = '';
    for (const record of records) text += `${chosen.map((column) => cell(column, record)).join(',')}\r\n`;
    return { bytes: Buffer.from(text) };
  },
  tail: () => Promise.resolve(nothing),
};

function cell(column: Column, record: LogRecord): string {
  if (column.kind === 'body') return quoted(guarded(column.of(record)?.text ?? ''));
  if (column.kind === 'text') return quoted(guarded(column.of(record)));
  const value = column.of(record);
  return column.kind === 'metadata' ? quoted(String(value)) : String(value);
}

function guarded(text: string): string {
  return formula.test(text) ? `'${text}` : text;
}

function quoted(text: string): string {
  return special.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
