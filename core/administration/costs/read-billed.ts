import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { createGunzip } from 'node:zlib';
import { type BilledCost, type Biller, dayOf, modelOfLineItem, modelOfUsageType } from './billed-costs.ts';
import { type BilledFile, readBilledJson } from './billed-json.ts';
import { FileMistake } from './file-mistake.ts';
import { didYouMean, listWords, quoted } from '../../base/did-you-mean.ts';
import { readAmount } from './exact-amount.ts';

/** Largest file of JSON, in bytes; CSV is read record by record, and may be larger. */
const longestJson = 67_108_864;

/**
 * Reads a provider's file of costs: CSV, or JSON where its first character is `{` or `[`; either may be packed by gzip.
 * Throws a `FileMistake`, and errors of the file system.
 */
export async function readBilled(biller: Biller, file: string): Promise<BilledFile> {
  const chunks = textOf(file);
  const first = await chunks.next();
  const head = first.done === true ? '' : first.value;
  const all = followedBy(head, chunks);
  const isJson = /^\uFEFF?\s*[[{]/.test(head);
  return isJson ? readBilledJson(biller, await whole(all)) : readBilledCsv(biller, all);
}

async function readBilledCsv(biller: Biller, chunks: AsyncIterable<string>): Promise<BilledFile> {
  // Reports have many small rows of one day and one name: they are added up as they come.
  const sums = new Map<string, { day: string; name: string; amount: bigint }>();
  let reader: BilledCsv | undefined;
  for await (const record of csvRecords(chunks)) {
    if (reader === undefined) {
      reader = new BilledCsv(biller, record);
      continue;
    }
    const cost = reader.read(record);
    if (cost === undefined) continue;
    const key = `${cost.day}\n${cost.name}`;
    const sum = sums.get(key);
    if (sum === undefined) sums.set(key, { ...cost });
    else sum.amount += cost.amount;
  }
  if (reader === undefined)
    throw new FileMistake(
      { line: 1, column: 1 },
      `the file is empty; expected an export of costs of ${biller}`,
    );
  return { costs: [...sums.values()], isCut: false };
}

async function* followedBy(head: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield head;
  yield* rest;
}

async function whole(chunks: AsyncIterable<string>): Promise<string> {
  let text = '';
  for await (const chunk of chunks) {
    text += chunk;
    if (text.length > longestJson)
      throw new FileMistake(
        { line: 0, column: 0 },
        `JSON of more than ${longestJson} bytes; ask for fewer days`,
      );
  }
  return text.replace(/^\uFEFF/, '');
}

async function* textOf(file: string): AsyncGenerator<string> {
  if (!(await stat(file)).isFile()) throw new FileMistake({ line: 0, column: 0 }, 'is no file');
  const bytes = createReadStream(file);
  const stream = (await isPacked(file)) ? bytes.pipe(createGunzip()) : bytes;
  bytes.on('error', (error) => stream.destroy(error));
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      const text = decoder.decode(chunk, { stream: true });
      if (text !== '') yield text;
    }
    decoder.decode();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new FileMistake(
      { line: 0, column: 0 },
      'holds bytes that are no UTF-8; expected CSV or JSON in UTF-8',
    );
  }
}

async function isPacked(file: string): Promise<boolean> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    return bytesRead === 2 && buffer[0] === 0x1f && buffer[1] === 0x8b;
  } finally {
    await handle.close();
  }
}

type Role = 'day' | 'amount' | 'name' | 'currency' | 'kind' | 'product' | 'productName';

/** The columns of a provider's file by role, in the spellings that its exports have had; the first one counts. */
interface Shape {
  readonly columns: Readonly<Partial<Record<Role, readonly string[]>>>;
  readonly needed: readonly Role[];
  /** Billed item of a row; undefined for anything but models of this provider. */
  name(cell: (role: Role) => string): string | undefined;
}

const marketplace = /\s*\(Amazon Bedrock Edition\)\s*$/i;
const usage = /usage$/i;

/**
 * - OpenAI: the export of costs of its usage page, grouped by line item (platform.openai.com/usage); its columns are the
 *   members of https://platform.openai.com/docs/api-reference/usage/costs, joined by underscores. Without `line_item` the
 *   file has no models.
 * - Anthropic: the export of the cost page of its console (platform.claude.com/cost), a row for each day, model, key and
 *   kind of token.
 * - Amazon Bedrock: Cost and Usage Report, https://docs.aws.amazon.com/cur/latest/userguide/Lineitem-columns.html and
 *   https://docs.aws.amazon.com/bedrock/latest/userguide/cost-mgmt-understanding-cur-data.html; the older names
 *   (`lineItem/UsageType`) mean the same. Models that are sold in the marketplace have product codes of their own, and a
 *   product name that ends in "(Amazon Bedrock Edition)".
 */
const shapes: Readonly<Record<Biller, Shape>> = {
  openai: {
    columns: {
      day: ['start_time_iso', 'start_time', 'usage_date_utc', 'date'],
      amount: ['amount_value', 'cost_usd'],
      name: ['line_item', 'model'],
      currency: ['amount_currency'],
    },
    needed: ['day', 'amount', 'name'],
    name: (cell) => modelOfLineItem(cell('name')),
  },
  anthropic: {
    columns: {
      day: ['usage_date_utc'],
      amount: ['cost_usd'],
      name: ['model'],
      kind: ['cost_type', 'usage_type'],
    },
    needed: ['day', 'amount', 'name'],
    name: (cell) => cell('name') || cell('kind'),
  },
  bedrock: {
    columns: {
      day: ['line_item_usage_start_date'],
      amount: ['line_item_unblended_cost'],
      name: ['line_item_usage_type'],
      currency: ['line_item_currency_code'],
      kind: ['line_item_line_item_type'],
      product: ['line_item_product_code'],
      productName: ['product_product_name', 'line_item_line_item_description'],
    },
    needed: ['day', 'amount', 'name', 'product'],
    name(cell) {
      const productName = cell('productName');
      const isSold = marketplace.test(productName);
      if (cell('product') !== 'AmazonBedrock' && !isSold) return undefined;
      const kind = cell('kind');
      // Taxes, credits and fees are not usage of a model.
      if (kind !== '' && !usage.test(kind)) return kind;
      return isSold ? productName.replace(marketplace, '') : modelOfUsageType(cell('name'));
    },
  },
};

/** Reads the records of a provider's CSV file one by one. Throws a `FileMistake`. */
class BilledCsv {
  readonly #shape: Shape;
  readonly #places: ReadonlyMap<Role, number>;
  readonly #width: number;
  readonly #header: readonly string[];

  /** `header` is the first record of the file. */
  constructor(biller: Biller, header: CsvRecord) {
    this.#shape = shapes[biller];
    this.#width = header.cells.length;
    this.#header = header.cells;
    const names = header.cells.map(columnName);
    const places = new Map<Role, number>();
    for (const [role, spellings] of Object.entries(this.#shape.columns) as [Role, readonly string[]][]) {
      const found = spellings.find((name) => names.includes(name));
      if (found !== undefined) places.set(role, names.indexOf(found));
      else if (this.#shape.needed.includes(role)) throw missing(biller, spellings, header, names);
    }
    this.#places = places;
  }

  /** Undefined for a record of anything but models of the provider. */
  read(record: CsvRecord): BilledCost | undefined {
    const { cells, places } = record;
    if (cells.length !== this.#width)
      throw new FileMistake(
        places[Math.min(cells.length, this.#width) - 1] ?? { line: record.line, column: 1 },
        `this line has ${cells.length} cells; expected ${this.#width}, as many as the first line has`,
      );
    const cell = (role: Role): string => cells[this.#places.get(role) ?? -1]?.trim() ?? '';
    const name = this.#shape.name(cell);
    if (name === undefined) return undefined;
    const currency = cell('currency');
    if (currency !== '' && currency.toUpperCase() !== 'USD')
      throw this.#mistake(record, 'currency', 'the currency USD');
    const day = dayOf(cell('day'));
    if (day === undefined)
      throw this.#mistake(
        record,
        'day',
        'a day (2026-05-17), a time (2026-05-17T00:00:00Z) or seconds since the epoch',
      );
    const amount = readAmount(cell('amount'));
    if (amount === undefined)
      throw this.#mistake(record, 'amount', 'an amount in US dollars, a decimal number like 0.0123');
    return { day, name: name === '' ? '(no name)' : name, amount };
  }

  #mistake({ cells, places, line }: CsvRecord, role: Role, expected: string): FileMistake {
    const index = this.#places.get(role) ?? 0;
    const found = quoted(cells[index] ?? '');
    return new FileMistake(
      places[index] ?? { line, column: 1 },
      `${this.#header[index]?.trim() ?? ''} is ${found}; expected ${expected}`,
    );
  }
}

/** `lineItem/UsageStartDate` of older reports is `line_item_usage_start_date` of present ones. */
function columnName(given: string): string {
  return given
    .trim()
    .replaceAll('/', '_')
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase();
}

function missing(
  biller: Biller,
  spellings: readonly string[],
  header: CsvRecord,
  names: readonly string[],
): FileMistake {
  const [first = ''] = spellings;
  const near = didYouMean(first, names);
  const hint = near === undefined ? '' : `; is it ${quoted(near)}?`;
  return new FileMistake(
    { line: header.line, column: 1 },
    `there is no column ${listWords(spellings, 'or')}${hint} Expected an export of costs of ${biller}`,
  );
}

/** One record of a CSV file, with the place of each cell: lines and columns count from 1. */
interface CsvRecord {
  readonly line: number;
  readonly cells: readonly string[];
  readonly places: readonly { readonly line: number; readonly column: number }[];
}

/** Characters of a cell, and cells of a record. */
const longestCell = 1_048_576;
const maxCells = 2000;

/**
 * The records of a CSV file as RFC 4180 describes them, also with lines that end in LF. Empty lines are left out, and so
 * is a byte order mark. Throws a `FileMistake` for a quote that is not closed, or stands within a plain cell.
 */
async function* csvRecords(chunks: AsyncIterable<string>): AsyncGenerator<CsvRecord> {
  const reader = new CsvReader();
  for await (const chunk of chunks) yield* reader.take(chunk);
  yield* reader.end();
}

type State = 'start' | 'plain' | 'quoted' | 'closed';

class CsvReader {
  #state: State = 'start';
  #cell = '';
  #cells: string[] = [];
  #places: { line: number; column: number }[] = [];
  #line = 1;
  #column = 1;
  #place = { line: 1, column: 1 };
  #begins = true;

  *take(text: string): Generator<CsvRecord> {
    for (const character of this.#begins && text.startsWith('\uFEFF') ? text.slice(1) : text) {
      yield* this.#step(character);
      if (character === '\n') {
        this.#line += 1;
        this.#column = 1;
      } else this.#column += character.length;
      if (this.#state === 'start' && this.#cell === '')
        this.#place = { line: this.#line, column: this.#column };
    }
    if (text !== '') this.#begins = false;
  }

  *end(): Generator<CsvRecord> {
    if (this.#state === 'quoted') throw new FileMistake(this.#place, 'this quote is never closed');
    if (this.#state !== 'start' || this.#cells.length > 0) {
      this.#endCell();
      yield* this.#record();
    }
  }

  *#step(character: string): Generator<CsvRecord> {
    if (this.#state === 'quoted') {
      if (character === '"') this.#state = 'closed';
      else this.#add(character);
    } else if (character === ',') this.#endCell();
    else if (character === '\n') {
      this.#endCell();
      yield* this.#record();
    } else if (character === '"') this.#quote();
    else if (this.#state === 'closed' && character !== '\r')
      throw this.#mistake('expected a comma or the end of the line after the closing quote');
    else if (character !== '\r') {
      this.#state = 'plain';
      this.#add(character);
    }
  }

  #quote(): void {
    if (this.#state === 'plain')
      throw this.#mistake('expected no quote within a cell that does not begin with one');
    // A second quote behind the closing one is a quote of the text.
    if (this.#state === 'closed') this.#add('"');
    this.#state = 'quoted';
  }

  #add(character: string): void {
    if (this.#cell.length >= longestCell)
      throw new FileMistake(this.#place, `this cell is longer than ${longestCell} characters`);
    this.#cell += character;
  }

  #endCell(): void {
    if (this.#cells.length >= maxCells) throw this.#mistake(`this line has more than ${maxCells} cells`);
    this.#cells.push(this.#cell);
    this.#places.push(this.#place);
    this.#cell = '';
    this.#state = 'start';
  }

  *#record(): Generator<CsvRecord> {
    const [cells, places] = [this.#cells, this.#places];
    this.#cells = [];
    this.#places = [];
    const isEmpty = cells.length === 1 && cells[0] === '';
    if (!isEmpty) yield { line: places[0]?.line ?? this.#line, cells, places };
  }

  #mistake(message: string): FileMistake {
    return new FileMistake({ line: this.#line, column: this.#column }, message);
  }
}
