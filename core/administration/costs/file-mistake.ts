/** Something wrong in a file of costs: where (lines and columns from 1; 0: the whole file), what, and what is expected. */
export class FileMistake extends Error {
  readonly line: number;
  readonly column: number;

  constructor({ line, column }: { readonly line: number; readonly column: number }, message: string) {
    super(message);
    this.line = line;
    this.column = column;
  }
}
