import type { FileFormat } from '../../core/ports/exports.ts';
import { columns, type BodyCell } from './columns.ts';

const nothing = new Uint8Array(0);

/**
 * Lines of JSON, one for each request. A logged body that is JSON stands in its line as it is, with every digit of its
 * numbers; any other as text; one that was not kept as null.
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

/** Within JSON, line breaks stand between its parts and nowhere else. */
function oneLine(json: string): string {
  const trimmed = json.trim();
  return /[\r\n]/.test(trimmed) ? trimmed.replaceAll(/[\r\n]+/g, ' ') : trimmed;
}
