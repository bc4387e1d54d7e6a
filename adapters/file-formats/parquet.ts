import { setImmediate as nextTurn } from 'node:timers/promises';
import { ByteWriter, ParquetWriter, type ColumnSource, type SchemaElement } from 'hyparquet-writer';
import type { LogRecord } from '../../core/ports/analytics.ts';
import type { ExportField } from '../../core/ports/export-fields.ts';
import type { FileFormat } from '../../core/ports/file-format.ts';
import { centDigits, columns, type Column } from './columns.ts';

/** `PAR1`, which the writer puts at the beginning by itself. */
const magicBytes = 4;

/**
 * Apache Parquet, compressed with Snappy: texts as UTF-8, bodies and metadata as text, times as milliseconds of UTC, cost as
 * decimal. Each piece is one row group; its place in the file stands in the note, of which the end of the file is made.
 */
export const parquet: FileFormat = {
  contentType: 'application/vnd.apache.parquet',
  // The end of the file names every row group, at once: they must not be too small.
  pageBytes: 1_048_576,
  head: (fields) => writerAt(fields, magicBytes).bytes.getBytes().slice(0, magicBytes),
  rows(fields, records, at) {
    const { writer, bytes } = writerAt(fields, at);
    const columnData = fields.map((field) => columnOf(field, columns[field], records));
    // Indexes stand at the end of a file and would have to be kept until then.
    void writer.write({ columnData, rowGroupSize: Math.max(1, records.length) });
    return { bytes: bytes.getBytes().slice(magicBytes), note: noteOf(writer.row_groups) };
  },
  async tail(fields, notes, at) {
    const { writer, bytes } = writerAt(fields, at);
    for await (const note of notes) {
      writer.row_groups.push(...readNote(note));
      await nextTurn();
    }
    for (const { num_rows: rows } of writer.row_groups) writer.num_rows += rows;
    void writer.finish();
    return bytes.getBytes().slice(magicBytes);
  },
};

type RowGroups = ParquetWriter['row_groups'];

/** A writer that believes to stand at this place of a file. */
function writerAt(fields: readonly ExportField[], at: number): { writer: ParquetWriter; bytes: ByteWriter } {
  const bytes = new ByteWriter(65_536);
  bytes.offset = at - magicBytes;
  const writer = new ParquetWriter({
    ...{ writer: bytes, schema: schemaOf(fields), codec: 'SNAPPY', statistics: false, createdBy: 'weir' },
  });
  return { writer, bytes };
}

function schemaOf(fields: readonly ExportField[]): SchemaElement[] {
  return [
    { name: 'logs', num_children: fields.length },
    ...fields.map((name): SchemaElement => {
      const { kind } = columns[name];
      const optional = kind === 'body' ? 'OPTIONAL' : 'REQUIRED';
      return { name, repetition_type: optional, ...typeOf(kind) };
    }),
  ];
}

function typeOf(kind: Column['kind']): Omit<SchemaElement, 'name'> {
  if (kind === 'flag') return { type: 'BOOLEAN' };
  if (kind === 'integer') return { type: 'INT64' };
  if (kind === 'number') return { type: 'DOUBLE' };
  if (kind === 'time') return { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' };
  if (kind === 'decimal')
    return { type: 'INT64', converted_type: 'DECIMAL', precision: 18, scale: centDigits };
  return { type: 'BYTE_ARRAY', converted_type: 'UTF8' };
}

function columnOf(name: ExportField, column: Column, records: readonly LogRecord[]): ColumnSource {
  return { name, data: valuesOf(column, records), columnIndex: false, offsetIndex: false };
}

function valuesOf(column: Column, records: readonly LogRecord[]): ColumnSource['data'] {
  if (column.kind === 'body') return records.map((record) => column.of(record)?.text);
  if (column.kind === 'integer') return records.map((record) => BigInt(column.of(record)));
  if (column.kind === 'time') return records.map((record) => BigInt(Date.parse(column.of(record))));
  if (column.kind === 'decimal') return records.map((record) => scaled(column.of(record)));
  return records.map((record) => column.of(record));
}

/** `0.1234` as 1234000000. */
function scaled(decimal: string): bigint {
  const [whole = '', fraction = ''] = decimal.split('.');
  return BigInt(`${whole}${fraction.padEnd(centDigits, '0').slice(0, centDigits)}`);
}

const bigMark = 'big:';

function noteOf(groups: RowGroups): string {
  return JSON.stringify(groups, (_, value: unknown) =>
    typeof value === 'bigint' ? `${bigMark}${value}` : value,
  );
}

function readNote(note: string): RowGroups {
  return JSON.parse(note, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(bigMark) ? BigInt(value.slice(bigMark.length)) : value,
  ) as RowGroups;
}
