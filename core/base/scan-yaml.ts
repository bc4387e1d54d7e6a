import { Lexer } from 'yaml';

const openers = new Set(['[', '{']);
const closers = new Set([']', '}']);
const nestingIndicators = new Set(['-', '?', ':']);
/** Lexer marks that stand for no text: document start, flow error, and "the next token is a scalar". */
const scalarMark = '\u001f';
const marks = new Set(['\u0002', '\u0018', scalarMark]);

/** Findings in a text, as offsets into it. */
interface YamlScan {
  /** Place of excessive nesting, at which the scan ends. */
  readonly tooDeepAt: number | undefined;
  /** Unquoted placeholders within brackets: to YAML their `{` begins an object. */
  readonly unquotedPlaceholders: readonly number[];
}

/**
 * Scans a text before it is parsed; safe on text that would overflow the parser, which aborts the process. Counts brackets,
 * and indicators that open one block within another on the same line, up to `maxNesting`. Blocks nested by indentation
 * cost a line each; the reader of the parsed text finds them.
 */
export function scanYaml(text: string, maxNesting: number): YamlScan {
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
