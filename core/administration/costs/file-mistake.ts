/** A mistake in a file of costs: place (lines and columns from 1; 0: the whole file), fault, and expectation. */
export class FileMistake extends Error {
  readonly line: number;
  readonly column: number;

  constructor({ line, column }: { readonly line: number; readonly column: number }, message: string) {
    super(message);
    this.line = line;
    this.column = column;
  }
}
