/** One piece of SQL. `text` is the piece as written, quotes included. */
export interface SqlToken {
  readonly kind: 'word' | 'string' | 'quoted' | 'symbol';
  readonly text: string;
  readonly start: number;
}

const word = /[A-Za-z0-9_\u0080-\u2017\u201a\u201b\u201e-\uffff]+/y;
const heredocTag = /\$[A-Za-z0-9_]*\$/y;
const closing: Readonly<Record<string, string>> = { '‘': '’', '“': '”' };

/**
 * Cuts SQL into words, string literals, quoted identifiers and symbols the way the engine's lexer does;
 * white space and comments are left out. Total: text that never closes its quote or comment runs to the end,
 * so that the engine, not this function, reports it.
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

/** Past a quoted piece: a backslash takes the next character with it, a doubled quote stands for itself. */
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

/** Past the comment that begins at `at`, or `at` when none does. Block comments nest. */
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
