import { setImmediate as nextTurn } from 'node:timers/promises';
import { ByteWriter, ParquetWriter, type ColumnSource, type SchemaElement } from 'hyparquet-writer';
import type { LogRecord } from '../../core/ports/analytics.ts';
import type { FileFormat } from '../../core/ports/exports.ts';
import type { ExportField } from '../../core/ports/request-row.ts';
import { columns, type Column } from './text-formats.ts';

/** Decimal places of a cost in US dollars, as in the store. */
const costDigits = 12;

/** `PAR1`, which the writer puts at the start by itself, and at the end after the length of the footer. */
const magicBytes = 4;
const lengthBytes = 4;
/** Thrift's compact protocol: the type of a list's elements, and the mark of a list whose length follows. */
const structType = 0x0c;
const longList = 0xf0;
const longestShortList = 14;

/**
 * Apache Parquet, compressed with Snappy: texts as UTF-8, bodies and metadata as text, times as UTC milliseconds, cost
 * as decimal. Each piece is one row group; its footer entry is built with it and kept in the note, because building a
 * footer of many groups at once would block the event loop.
 */
export const parquet: FileFormat = {
  contentType: 'application/vnd.apache.parquet',
  // The footer lists every row group: they must not be too small.
  pageBytes: 1_048_576,
  head: (fields) => writerAt(fields, magicBytes).bytes.getBytes().slice(0, magicBytes),
  rows(fields, records, at) {
    const { writer, bytes } = writerAt(fields, at);
    const columnData = fields.map((field) => columnOf(field, columns[field], records));
    // Indexes are at the end of a file and would have to be held until then.
    void writer.write({ columnData, rowGroupSize: Math.max(1, records.length) });
    const note: Note = { rows: records.length, groups: writer.row_groups.map(encoded) };
    return { bytes: bytes.getBytes().slice(magicBytes), note: JSON.stringify(note) };
  },
  async tail(fields, notes) {
    const groups: Buffer[] = [];
    let rows = 0;
    for await (const note of notes) {
      const said = JSON.parse(note) as Note;
      rows += said.rows;
      for (const group of said.groups) groups.push(Buffer.from(group, 'base64'));
      await nextTurn();
    }
    const { bytes, listAt } = emptyFooter(fields, rows);
    const end = bytes.length - lengthBytes - magicBytes;
    const metadata = Buffer.concat([
      bytes.subarray(0, listAt),
      listHeader(groups.length),
      ...groups,
      bytes.subarray(listAt + 1, end),
    ]);
    const length = Buffer.alloc(lengthBytes);
    length.writeUInt32LE(metadata.length);
    return Buffer.concat([metadata, length, bytes.subarray(end + lengthBytes)]);
  },
};

/** Data of a piece for the footer. */
interface Note {
  readonly rows: number;
  /** Row groups in the form of the footer's list, in base64. */
  readonly groups: readonly string[];
}

type RowGroup = ParquetWriter['row_groups'][number];

/**
 * A row group in the form of the footer's list: the difference between a footer with it alone and one without groups.
 * The columns of the file, which a footer lists first, do not depend on groups and are left out.
 */
function encoded(group: RowGroup): string {
  const one = footer([], [group], 0);
  const start = bare.listAt + 1;
  return one.subarray(start, start + one.length - bare.bytes.length).toString('base64');
}

/** A footer without groups, and the position in it of the header of the group list: a single byte. */
function emptyFooter(fields: readonly ExportField[], rows: number): { bytes: Buffer; listAt: number } {
  const bytes = footer(fields, [], rows);
  const other = footer(fields, [{ columns: [], total_byte_size: 0n, num_rows: 0n }], rows);
  return { bytes, listAt: bytes.findIndex((byte, index) => byte !== other[index]) };
}

/** The end of a file with these groups. */
function footer(fields: readonly ExportField[], groups: readonly RowGroup[], rows: number): Buffer {
  const { writer, bytes } = writerAt(fields, magicBytes);
  writer.row_groups.push(...groups);
  writer.num_rows = BigInt(rows);
  void writer.finish();
  return Buffer.from(bytes.getBytes()).subarray(magicBytes);
}

const bare = emptyFooter([], 0);

function listHeader(length: number): Buffer {
  if (length <= longestShortList) return Buffer.of((length << 4) | structType);
  const bytes = [longList | structType];
  let rest = length;
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  return Buffer.of(...bytes, rest);
}

/** A writer with this starting position in a file. */
function writerAt(fields: readonly ExportField[], at: number): { writer: ParquetWriter; bytes: ByteWriter } {
  const bytes = new ByteWriter(65_536);
  bytes.offset = at - magicBytes;
  const writer = new ParquetWriter({
    writer: bytes,
    schema: schemaOf(fields),
    codec: 'SNAPPY',
    statistics: false,
    createdBy: 'weir',
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
    return { type: 'INT64', converted_type: 'DECIMAL', precision: 18, scale: costDigits };
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

/** `0.1234` as 123400000000. */
function scaled(decimal: string): bigint {
  const [whole = '', fraction = ''] = decimal.split('.');
  return BigInt(`${whole}${fraction.padEnd(costDigits, '0').slice(0, costDigits)}`);
}
