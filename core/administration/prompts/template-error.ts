/** What is wrong with a template, and where. */
export class TemplateError extends Error {
  /** From 1. */
  readonly line: number;
  /** In UTF-16 units, from 1. */
  readonly column: number;

  constructor(message: string, source: string, offset: number) {
    const before = source.slice(0, offset);
    const line = before.split('\n').length;
    const column = offset - before.lastIndexOf('\n');
    super(`line ${line}, column ${column}: ${message}`);
    this.name = 'TemplateError';
    this.line = line;
    this.column = column;
  }
}
