import { messageOf } from '../../../core/errors/gateway-error.ts';

/** Reads errors of the engine. */
export const engineErrors = { code: engineCodeOf, message: engineMessageOf };

const leadingCode = /^(?:Error: )?Code: (\d+)\./;

/** An error with the text and number of a ClickHouse server, so that its clients can read it. */
export class EngineError extends Error {
  readonly engineCode: number;

  constructor(engineCode: number, type: string, message: string) {
    super(`Code: ${engineCode}. DB::Exception: ${message} (${type})`);
    this.name = 'EngineError';
    this.engineCode = engineCode;
  }
}

/** The engine's error number of anything thrown; 1002 (unknown exception) when it has none. */
function engineCodeOf(error: unknown): number {
  if (error instanceof EngineError) return error.engineCode;
  const message = messageOf(error);
  const code = leadingCode.exec(message)?.[1];
  return code === undefined ? 1002 : Number(code);
}

/** Body of a failed answer: always starts with `Code: N.`, as clients expect. */
function engineMessageOf(error: unknown): string {
  const message = messageOf(error);
  return leadingCode.test(message) ? message : `Code: 1002. DB::Exception: ${message}. (UNKNOWN_EXCEPTION)`;
}

/** One piece of SQL. `text` is the piece as written, quotes included. */
interface SqlToken {
  readonly kind: 'word' | 'string' | 'quoted' | 'symbol';
  readonly text: string;
  readonly start: number;
}

const word = /[A-Za-z0-9_\u0080-\u2017\u201a\u201b\u201e-\uffff]+/y;
const heredocTag = /\$[A-Za-z0-9_]*\$/y;
const closing: Readonly<Record<string, string>> = { '‘': '’', '“': '”' };

/**
 * Splits SQL into words, string literals, quoted identifiers and symbols like the engine's lexer; white space and
 * comments are left out. Never fails: text with an unclosed quote or comment extends to the end, so that the engine,
 * not this function, reports it.
 */
export function* sqlTokens(sql: string): Generator<SqlToken, void, undefined> {
  let at = 0;
  while (at < sql.length) {
    const char = sql[at] as string;
    const comment = commentEnd(sql, at);
    if (comment > at) {
      at = comment;
      continue;
    }
    if (/\s/.test(char)) {
      at += 1;
      continue;
    }
    const end = tokenEnd(sql, at, char);
    yield { kind: kindOf(char, end - at), text: sql.slice(at, end), start: at };
    at = end;
  }
}

function kindOf(char: string, length: number): SqlToken['kind'] {
  if (char === "'" || char === '‘' || (char === '$' && length > 1)) return 'string';
  if (char === '"' || char === '`' || char === '“') return 'quoted';
  word.lastIndex = 0;
  return word.test(char) ? 'word' : 'symbol';
}

function tokenEnd(sql: string, at: number, char: string): number {
  if (char === "'" || char === '"' || char === '`') return quoteEnd(sql, at, char);
  const close = closing[char];
  if (close !== undefined) return endOf(sql, close, at + 1);
  if (char === '$') {
    heredocTag.lastIndex = at;
    const tag = heredocTag.exec(sql)?.[0];
    return tag === undefined ? at + 1 : endOf(sql, tag, at + tag.length);
  }
  word.lastIndex = at;
  return word.test(sql) ? word.lastIndex : at + 1;
}

/** End of a quoted piece: a backslash escapes the next character, a doubled quote stands for itself. */
function quoteEnd(sql: string, start: number, quote: string): number {
  let at = start + 1;
  while (at < sql.length) {
    if (sql[at] === '\\') at += 2;
    else if (sql[at] !== quote) at += 1;
    else if (sql[at + 1] === quote) at += 2;
    else return at + 1;
  }
  return sql.length;
}

/** End of the comment that starts at `at`, or `at` when there is none. Block comments nest. */
function commentEnd(sql: string, at: number): number {
  const two = sql.slice(at, at + 2);
  if (two === '--' || two === '# ' || two === '#!') return endOf(sql, '\n', at);
  if (two !== '/*') return at;
  let depth = 1;
  let position = at + 2;
  while (position < sql.length && depth > 0) {
    const pair = sql.slice(position, position + 2);
    if (pair === '/*' || pair === '*/') {
      depth += pair === '/*' ? 1 : -1;
      position += 2;
    } else position += 1;
  }
  return position;
}

function endOf(sql: string, text: string, from: number): number {
  const found = sql.indexOf(text, from);
  return found < 0 ? sql.length : found + text.length;
}

/** Target of the raw bytes of a request body. */
interface InsertTarget {
  readonly table: string;
  readonly columns: readonly string[] | undefined;
  readonly format: string;
}

/** One statement, parsed once before it runs. */
export interface Statement {
  readonly sql: string;
  /** Names of its `{name:Type}` placeholders. */
  readonly placeholders: ReadonlySet<string>;
  /** Set for an `INSERT INTO t [(columns)] FORMAT x`, whose data are separate. */
  readonly insert: InsertTarget | undefined;
}

/**
 * Reads one statement. Throws an `EngineError` when there is none, or more than one (a server refuses several
 * statements in one request; the embedded engine would run them). Placeholders are only listed, never filled in: the
 * engine binds them itself.
 */
export function readStatement(sql: string): Statement {
  const tokens: SqlToken[] = [];
  let end = sql.length;
  for (const token of sqlTokens(sql)) {
    if (end < sql.length && token.text !== ';') {
      throw new EngineError(
        62,
        'SYNTAX_ERROR',
        'Several statements in one request are not allowed: send one.',
      );
    }
    if (token.text === ';') end = Math.min(end, token.start);
    else tokens.push(token);
  }
  if (tokens.length === 0) throw new EngineError(62, 'SYNTAX_ERROR', 'Empty query.');
  return { sql: sql.slice(0, end), placeholders: placeholdersOf(tokens), insert: readInsert(tokens) };
}

function placeholdersOf(tokens: readonly SqlToken[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (let i = 0; i + 2 < tokens.length; i += 1) {
    const name = tokens[i + 1];
    if (tokens[i]?.text === '{' && name?.kind === 'word' && tokens[i + 2]?.text === ':') names.add(name.text);
  }
  return names;
}

function readInsert(tokens: readonly SqlToken[]): InsertTarget | undefined {
  let at = 0;
  const skipWord = (text: string): boolean => {
    const matches = tokens[at]?.kind === 'word' && tokens[at]?.text.toUpperCase() === text;
    if (matches) at += 1;
    return matches;
  };
  const skipSymbol = (text: string): boolean => {
    const matches = tokens[at]?.kind === 'symbol' && tokens[at]?.text === text;
    if (matches) at += 1;
    return matches;
  };
  const name = (): string => plainName(tokens[at++]);

  if (!skipWord('INSERT')) return undefined;
  skipWord('INTO');
  skipWord('TABLE');
  const names = [name()];
  if (skipSymbol('.')) names.push(name());
  let columns: string[] | undefined;
  if (skipSymbol('(')) {
    columns = [];
    do columns.push(name());
    while (skipSymbol(','));
    if (!skipSymbol(')')) return undefined;
  }
  if (!skipWord('FORMAT')) return undefined;
  const format = name();
  const understood =
    at === tokens.length && [...names, ...(columns ?? []), format].every((part) => part !== '');
  return understood ? { table: names.join('.'), columns, format } : undefined;
}

/** A name without its quotes, or nothing: the engine's raw insert accepts plain names only. */
function plainName(token: SqlToken | undefined): string {
  const text = token?.kind === 'quoted' ? token.text.slice(1, -1) : token?.kind === 'word' ? token.text : '';
  return /^\w+$/.test(text) ? text : '';
}
