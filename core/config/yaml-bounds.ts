import { Lexer } from 'yaml';

/** Deepest nesting of lists and objects. The real limit of the parser is the stack, and it aborts the process. */
export const maxNesting = 64;
/** Most values in one file, those repeated by aliases included. */
export const maxValues = 50_000;

const openers = new Set(['[', '{']);
const closers = new Set([']', '}']);
const nestingIndicators = new Set(['-', '?', ':']);
/** Marks of the lexer that stand for no text: document start, flow error, and "the next token is a scalar". */
const scalarMark = '\u001f';
const marks = new Set(['\u0002', '\u0018', scalarMark]);

/** What a look at the tokens alone finds, as offsets into the text. */
export interface TokenScan {
  /** Where the text nests deeper than any configuration does. The scan ends there. */
  readonly tooDeepAt: number | undefined;
  /** Placeholders without quotes within brackets: to YAML their `{` begins an object. */
  readonly unquotedPlaceholders: readonly number[];
}

/**
 * Looks at a text before it is parsed; safe on text that the parser would overflow on. Counts brackets, and
 * indicators that open one block within another on the same line. Blocks nested by indentation are found while
 * building, they cost a line each.
 */
export function scanTokens(text: string): TokenScan {
  const unquotedPlaceholders: number[] = [];
  let offset = 0;
  let brackets = 0;
  let onThisLine = 0;
  let previous = '';
  let scalarIsNext = false;
  for (const token of new Lexer().lex(text)) {
    const isScalar = scalarIsNext;
    scalarIsNext = token === scalarMark;
    if (!isScalar) {
      if (token === '{' && brackets > 0 && previous.endsWith('$')) unquotedPlaceholders.push(offset - 1);
      if (openers.has(token)) brackets++;
      else if (closers.has(token)) brackets = Math.max(0, brackets - 1);
      else if (token.includes('\n')) onThisLine = 0;
      else if (brackets === 0 && nestingIndicators.has(token)) onThisLine++;
    }
    if (brackets > maxNesting || onThisLine > maxNesting) return { tooDeepAt: offset, unquotedPlaceholders };
    if (!isScalar && marks.has(token)) continue;
    offset += token.length;
    previous = isScalar ? token : '';
  }
  return { tooDeepAt: undefined, unquotedPlaceholders };
}
