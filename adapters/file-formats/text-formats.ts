import type { LogRecord } from '../../core/ports/analytics.ts';
import type { FileFormat } from '../../core/ports/exports.ts';
import type { ExportField } from '../../core/ports/request-row.ts';

const nothing = new Uint8Array(0);

/**
 * One line of JSON per request. A logged body that is JSON is embedded unchanged, with every digit of its numbers; any
 * other as text; one that was not stored as null.
 */
export const jsonl: FileFormat = {
  contentType: 'application/x-ndjson',
  pageBytes: 524_288,
  head: () => nothing,
  rows(fields, records) {
    const cells = fields.map((field) => ({ begin: `${JSON.stringify(field)}:`, column: columns[field] }));
    let text = '';
    for (const record of records) {
      let line = '';
      for (const { begin, column } of cells) {
        line += line === '' ? `{${begin}` : `,${begin}`;
        if (column.kind === 'decimal' || column.kind === 'metadata') line += column.of(record);
        else if (column.kind === 'body') line += bodyText(column.of(record));
        else line += JSON.stringify(column.of(record));
      }
      text += line === '' ? '{}\n' : `${line}}\n`;
    }
    return { bytes: Buffer.from(text) };
  },
  tail: () => Promise.resolve(nothing),
};

function bodyText(body: BodyCell | undefined): string {
  if (body === undefined) return 'null';
  const { text, isText } = body;
  if (isText && /^\s*[[{]/.test(text) && isJson(text)) return oneLine(text);
  return JSON.stringify(text);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** In JSON, line breaks occur only between tokens. */
function oneLine(json: string): string {
  const trimmed = json.trim();
  return /[\r\n]/.test(trimmed) ? trimmed.replaceAll(/[\r\n]+/g, ' ') : trimmed;
}

/** Prefixes that a spreadsheet interprets as a formula. */
const formula = /^[=+\-@\t\r]/;
const special = /[",\r\n]/;
const noTail = new Uint8Array(0);

/**
 * A table according to RFC 4180: a header line, CRLF, quotes where needed. Bodies are unchanged, metadata are JSON,
 * absent values are empty. A text that a spreadsheet would interpret as a formula gets a leading apostrophe: callers
 * control the content of logs, and other people open the file.
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
  tail: () => Promise.resolve(noTail),
};

function cell(column: Column, record: LogRecord): string {
  if (column.kind === 'body') return quoteCell(escapeFormula(column.of(record)?.text ?? ''));
  if (column.kind === 'text') return quoteCell(escapeFormula(column.of(record)));
  const value = column.of(record);
  return column.kind === 'metadata' ? quoteCell(String(value)) : String(value);
}

function escapeFormula(text: string): string {
  return formula.test(text) ? `'${text}` : text;
}

function quoteCell(text: string): string {
  return special.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A logged body: as text, or as bytes in base64. */
interface BodyCell {
  readonly text: string;
  readonly isText: boolean;
}

/** One column of an export: type and source of its values. */
export type Column =
  | { readonly kind: 'text' | 'time' | 'decimal' | 'metadata'; of(record: LogRecord): string }
  | { readonly kind: 'integer' | 'number'; of(record: LogRecord): number }
  | { readonly kind: 'flag'; of(record: LogRecord): boolean }
  | { readonly kind: 'body'; of(record: LogRecord): BodyCell | undefined };

/** Every column by its name. */
export const columns: { readonly [F in ExportField]: Column } = {
  id: { kind: 'text', of: ({ request }) => request.id },
  trace_id: { kind: 'text', of: ({ request }) => request.trace_id },
  created_at: { kind: 'time', of: ({ request }) => `${request.created_at.replace(' ', 'T')}Z` },
  request: { kind: 'body', of: ({ body }) => body && bodyCell(body.request, body.log_format) },
  response: { kind: 'body', of: ({ body }) => body && bodyCell(body.response, body.log_format) },
  is_success: { kind: 'flag', of: ({ request }) => request.is_success },
  ai_org: { kind: 'text', of: ({ request }) => request.ai_service },
  ai_model: { kind: 'text', of: ({ request }) => request.model },
  req_units: { kind: 'integer', of: ({ request }) => request.prompt_tokens },
  res_units: { kind: 'integer', of: ({ request }) => request.completion_tokens },
  total_units: { kind: 'integer', of: ({ request }) => request.total_tokens },
  request_url: { kind: 'text', of: ({ request }) => request.path },
  cost: { kind: 'decimal', of: ({ request }) => shortest(request.cost) },
  cost_currency: { kind: 'text', of: () => 'USD' },
  response_time: { kind: 'number', of: ({ request }) => request.latency_ms },
  response_status_code: { kind: 'integer', of: ({ request }) => request.status },
  // The row distinguishes only a passed-through body from one that the gateway understood.
  mode: { kind: 'text', of: ({ request }) => (request.endpoint === 'proxy' ? 'proxy' : 'gateway') },
  config: { kind: 'text', of: ({ request }) => request.config },
  prompt_slug: { kind: 'text', of: ({ request }) => request.prompt },
  metadata: { kind: 'metadata', of: ({ request }) => JSON.stringify(request.metadata) },
};

function bodyCell(text: string, format: string): BodyCell | undefined {
  return text === '' ? undefined : { text, isText: format !== 'base64' };
}

/** A decimal number without trailing zeros: `0.001234000000` is `0.001234`. */
export function shortest(decimal: string): string {
  return decimal.includes('.') ? decimal.replace(/\.?0+$/, '') : decimal;
}
