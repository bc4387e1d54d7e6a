import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { parquetReadObjects } from 'hyparquet';
import type { LogRecord } from '../../core/ports/analytics.ts';
import {
  type BodyRow,
  type ExportField,
  exportFields,
  type ExportFormat,
  type RequestRow,
} from '../../core/ports/request-row.ts';
import { bodyRow, hostileTexts, requestRow } from '../../tests/conformance/analytics-rows.ts';
import { parseCsv } from '../../tests/kit/parse-csv.ts';
import { shortest } from './text-formats.ts';
import { fileFormats } from './index.ts';

function record(request: Partial<RequestRow> = {}, body?: Partial<BodyRow>): LogRecord {
  const row = requestRow(request);
  return { request: row, body: body && bodyRow(row, body) };
}

/** The file of these records in pages of `size`. */
async function fileOf(
  name: ExportFormat,
  {
    fields = exportFields,
    records,
    size = 2,
  }: { fields?: readonly ExportField[]; records: readonly LogRecord[]; size?: number },
): Promise<Buffer> {
  const format = await fileFormats(name);
  const pieces: Uint8Array[] = [format.head(fields)];
  const notes: string[] = [];
  const length = (): number => pieces.reduce((sum, piece) => sum + piece.length, 0);
  for (let at = 0; at < records.length; at += size) {
    const { bytes, note } = format.rows(fields, records.slice(at, at + size), length());
    pieces.push(bytes);
    if (note !== undefined) notes.push(note);
  }
  pieces.push(await format.tail(fields, Readable.from(notes) as AsyncIterable<string>, length()));
  return Buffer.concat(pieces);
}

/** Reads a file of Parquet as an independent reader does. */
async function readParquet(file: Buffer): Promise<Record<string, unknown>[]> {
  const copy = new Uint8Array(file).buffer;
  return parquetReadObjects({ file: copy });
}

const all = [
  record(
    { cost: '0.000123000000' },
    { request: '{"seed":12345678901234567890,\n "x":[1,2]}', response: 'plain text' },
  ),
  ...hostileTexts.map((text) =>
    record(
      { trace_id: text, config: text, metadata: { [text]: text }, path: `/v1/${text}` },
      { request: JSON.stringify({ text }), response: text, log_format: 'text' },
    ),
  ),
  record({ cost: '12.345678901234', is_success: false, status: 500, latency_ms: 0 }),
  record({}, { request: 'AAEC', response: '', log_format: 'base64' }),
];

describe('file formats', () => {
  test('costs are dollars digit for digit', () => {
    const said = ['0.000123000000', '0', '12.345678901234', '1', '0.10', '100.5', '-0.25'].map(shortest);
    assert.deepEqual(said, ['0.000123', '0', '12.345678901234', '1', '0.1', '100.5', '-0.25']);
  });

  test('lines of JSON hold a JSON body as it is, digits and all, and any other as text', async () => {
    const file = (await fileOf('jsonl', { records: all })).toString();
    const lines = file.split('\n');
    assert.equal(lines.pop(), '');
    assert.equal(lines.length, all.length);
    assert.match(
      lines[0] ?? '',
      /"request":\{"seed":12345678901234567890,  ?"x":\[1,2\]\},"response":"plain text"/,
    );
    assert.match(lines[0] ?? '', /"cost":0\.000123,"cost_currency":"USD"/);
    const rows = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    rows.forEach((row, index) => {
      assert.deepEqual(Object.keys(row), [...exportFields]);
      assert.equal(row['id'], all[index]?.request.id);
      assert.deepEqual(row['metadata'], all[index]?.request.metadata);
      assert.equal(row['trace_id'], all[index]?.request.trace_id);
    });
    assert.deepEqual(
      [rows.at(-2)?.['request'], rows.at(-1)?.['request'], rows.at(-1)?.['response']],
      [null, 'AAEC', null],
    );
  });

  test('a table as text is RFC 4180, and no cell of it is a formula', async () => {
    const formulas = ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1'];
    const records = [
      ...all,
      ...formulas.map((text) => record({ config: text }, { request: text, response: 'x' })),
    ];
    const [names, ...rows] = parseCsv((await fileOf('csv', { records })).toString());
    assert.deepEqual(names, [...exportFields]);
    assert.equal(rows.length, records.length);
    const column = (name: ExportField): string[] => rows.map((row) => row[exportFields.indexOf(name)] ?? '');
    assert.deepEqual(
      column('id'),
      records.map(({ request }) => request.id),
    );
    assert.deepEqual(
      column('metadata'),
      records.map(({ request }) => JSON.stringify(request.metadata)),
    );
    assert.deepEqual(
      column('request').slice(-6),
      formulas.map((text) => `'${text}`),
    );
    for (const cell of ['config', 'request', 'response', 'trace_id'].flatMap((name) =>
      column(name as ExportField),
    ))
      assert.doesNotMatch(cell, /^[=+\-@\t\r]/);
    assert.equal(column('is_success').filter((cell) => cell === 'false').length, 1);
  });

  test('an independent reader finds every value of Parquet', async () => {
    const rows = await readParquet(await fileOf('parquet', { records: all }));
    assert.equal(rows.length, all.length);
    rows.forEach((row, index) => {
      const { request, body } = all[index] as LogRecord;
      assert.equal(row['id'], request.id);
      assert.equal(row['trace_id'], request.trace_id);
      assert.equal(row['request'] ?? undefined, body?.request);
      assert.equal(row['response'] ?? undefined, body?.response === '' ? undefined : body?.response);
      assert.equal(row['metadata'], JSON.stringify(request.metadata));
      assert.equal(row['total_units'], BigInt(request.total_tokens));
      assert.equal(row['is_success'], request.is_success);
      assert.equal(row['response_time'], request.latency_ms);
      assert.equal((row['created_at'] as Date).toISOString(), `${request.created_at.replace(' ', 'T')}Z`);
      assert.ok(Math.abs(Number(row['cost']) - Number(request.cost)) < 1e-12);
    });
  });

  test('Parquet in one piece or in hundreds says the same', async () => {
    const records = Array.from({ length: 300 }, (_, index) => all[index % all.length] as LogRecord);
    const expected = await readParquet(await fileOf('parquet', { records, size: 300 }));
    assert.equal(expected.length, 300);
    // Around the numbers of row groups at which the footer counts them in another way.
    for (const size of [1, 2, 3, 20, 22, 150])
      assert.deepEqual(
        await readParquet(await fileOf('parquet', { records, size })),
        expected,
        `pieces of ${size}`,
      );
  });

  for (const name of ['jsonl', 'csv', 'parquet'] as const) {
    test(`${name}: no rows are a file, too; and where pages end does not show`, async () => {
      const empty = await fileOf(name, { records: [] });
      if (name === 'parquet') assert.deepEqual(await readParquet(empty), []);
      else assert.equal(empty.toString(), name === 'csv' ? `${exportFields.join(',')}\r\n` : '');
      const fields = ['id', 'cost', 'request'] as const;
      const [one, other] = await Promise.all([
        fileOf(name, { records: all, size: 1, fields }),
        fileOf(name, { records: all, size: 100, fields }),
      ]);
      if (name === 'parquet') assert.deepEqual(await readParquet(one), await readParquet(other));
      else assert.deepEqual(one, other);
    });
  }
});
