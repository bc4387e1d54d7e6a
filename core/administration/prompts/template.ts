import Mustache from 'mustache';

const maxTagLength = 512;
const maxTags = 5_000;

/**
 * Refuses, before a template is parsed, tags that do not end, have no name, exceed 512 characters or change the
 * delimiters; and templates with more than 5,000 tags. A template that passes is parsed in linear time. Throws
 * `TemplateError`.
 */
function checkTags(source: string): void {
  let tags = 0;
  for (let at = source.indexOf('{{'); at !== -1;) {
    const isTriple = source[at + 2] === '{';
    const begin = at + (isTriple ? 3 : 2);
    const closing = isTriple ? '}}}' : '}}';
    const end = source.indexOf(closing, begin);
    if (end === -1) throw new TemplateError(`the tag is never closed with "${closing}"`, source, at);
    if (end - begin > maxTagLength)
      throw new TemplateError(`the tag is longer than ${maxTagLength} characters`, source, at);
    if (++tags > maxTags)
      throw new TemplateError(`this is tag ${tags}, and ${maxTags} are the most`, source, at);
    checkTag(source.slice(begin, end).trim(), source, at);
    at = source.indexOf('{{', end + closing.length);
  }
}

function checkTag(content: string, source: string, at: number): void {
  if (content.startsWith('!')) return;
  if (content.startsWith('='))
    throw new TemplateError('delimiters cannot be changed; write {{ and }}', source, at);
  const name = content.replace(/^[#^/>&]/, '').trim();
  if (name === '') throw new TemplateError('the tag names nothing', source, at);
  if (/[{}\s]/.test(name))
    throw new TemplateError(`"${name}" is no name: names have no spaces and no braces`, source, at);
}

/** A mistake in a template, with its place. */
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

/** A piece of a template. */
export type TemplatePart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string; readonly path: readonly string[] }
  | {
      readonly kind: 'section' | 'inverted';
      readonly path: readonly string[];
      readonly parts: readonly TemplatePart[];
    }
  /** `name` is the content of the tag: `slug`, or `slug@5`. */
  | { readonly kind: 'partial'; readonly name: string };

/** A parsed text with tags. */
export interface Template {
  readonly parts: readonly TemplatePart[];
  /** Included partials, each once, in order. */
  readonly partials: readonly string[];
}

/** The longest template, in characters. */
export const maxTemplateLength = 262_144;
const maxNesting = 20;

/** Parsed tag: symbol, content, place, and for sections the inner tokens. */
type Token = readonly [symbol: string, value: string, start: number, end: number, ...rest: unknown[]];

/**
 * Parses a Mustache template: variables (unescaped: the text is for models), sections, inverted sections, comments and
 * partials. Throws `TemplateError`.
 */
export function compileTemplate(source: string): Template {
  if (source.length > maxTemplateLength)
    throw new TemplateError(`a template has ${maxTemplateLength} characters at the most`, source, 0);
  checkTags(source);
  const partials = new Set<string>();
  const parts = readTokens(parse(source), { source, partials, nesting: 0 });
  return { parts, partials: [...partials] };
}

interface Reading {
  readonly source: string;
  readonly partials: Set<string>;
  readonly nesting: number;
}

function readTokens(tokens: readonly Token[], reading: Reading): readonly TemplatePart[] {
  return tokens.flatMap((token) => readToken(token, reading) ?? []);
}

function readToken([symbol, value, start, , inner]: Token, reading: Reading): TemplatePart | undefined {
  switch (symbol) {
    case 'text':
      return { kind: 'text', text: value };
    case 'name':
    case '&':
      return { kind: 'variable', name: value, path: pathOf(value) };
    case '#':
    case '^': {
      const nesting = reading.nesting + 1;
      if (nesting > maxNesting)
        throw new TemplateError(`sections are nested ${maxNesting} deep at the most`, reading.source, start);
      const parts = readTokens(Array.isArray(inner) ? (inner as Token[]) : [], { ...reading, nesting });
      return { kind: symbol === '#' ? 'section' : 'inverted', path: pathOf(value), parts };
    }
    case '>':
      reading.partials.add(value);
      return { kind: 'partial', name: value };
    default:
      return undefined;
  }
}

function pathOf(name: string): readonly string[] {
  return name === '.' ? [] : name.split('.');
}

function parse(source: string): readonly Token[] {
  // A separate writer: the shared one would cache every template for ever.
  const writer = new Mustache.Writer();
  try {
    return writer.parse(source, ['{{', '}}']) as readonly Token[];
  } catch (error) {
    const message = error instanceof Error ? error.message : 'it cannot be parsed';
    const [, what = message, offset = '0'] = /^(.*) at (\d+)$/s.exec(message) ?? [];
    throw new TemplateError(what.charAt(0).toLowerCase() + what.slice(1), source, Number(offset));
  }
}
