import { EngineError } from './engine-error.ts';
import { sqlTokens, type SqlToken } from './sql-tokens.ts';

/** Where the raw bytes of a request body go. */
export interface InsertTarget {
  readonly table: string;
  readonly columns: readonly string[] | undefined;
  readonly format: string;
}

/** One statement, looked at once before it runs. */
export interface Statement {
  readonly sql: string;
  /** Names of its `{name:Type}` placeholders. */
  readonly placeholders: ReadonlySet<string>;
  /** Set when it is an `INSERT INTO t [(columns)] FORMAT x`, whose data follows apart from it. */
  readonly insert: InsertTarget | undefined;
}

/**
 * Reads one statement. Throws an `EngineError` when there is none, or more than one (a server refuses several
 * statements in one request; the embedded engine would run them). Placeholders are only listed, never filled in:
 * the engine binds them itself.
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

/** A name out of its quotes, or nothing: the engine's raw insert takes plain names only. */
function plainName(token: SqlToken | undefined): string {
  const text = token?.kind === 'quoted' ? token.text.slice(1, -1) : token?.kind === 'word' ? token.text : '';
  return /^\w+$/.test(text) ? text : '';
}
