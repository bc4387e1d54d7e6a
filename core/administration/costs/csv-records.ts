import { FileMistake } from './file-mistake.ts';

/** One record of a CSV file, with the place of each cell: lines and columns count from 1. */
export interface CsvRecord {
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
export async function* csvRecords(chunks: AsyncIterable<string>): AsyncGenerator<CsvRecord> {
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
