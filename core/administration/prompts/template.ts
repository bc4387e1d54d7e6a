import Mustache from 'mustache';
import { checkTags } from './check-tags.ts';
import { TemplateError } from './template-error.ts';

/** A piece of a template. */
export type TemplatePart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string; readonly path: readonly string[] }
  | {
      readonly kind: 'section' | 'inverted';
      readonly path: readonly string[];
      readonly parts: readonly TemplatePart[];
    }
  /** `name` is what stands in the tag: `slug`, or `slug@5`. */
  | { readonly kind: 'partial'; readonly name: string };

/** A text with tags, ready to be rendered. */
export interface Template {
  readonly parts: readonly TemplatePart[];
  /** What it includes, each once, in order. */
  readonly partials: readonly string[];
}

/** The longest template, in characters. */
export const maxTemplateLength = 262_144;
const maxNesting = 20;

/** What the parser makes of a tag: its symbol, what stands in it, where, and for sections what is within. */
type Token = readonly [symbol: string, value: string, start: number, end: number, ...rest: unknown[]];

/**
 * Parses a Mustache template: variables (never escaped: the text is for models), sections, inverted sections, comments
 * and partials. Throws `TemplateError`.
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
  // A writer of its own: the shared one would keep every template for ever.
  const writer = new Mustache.Writer();
  try {
    return writer.parse(source, ['{{', '}}']) as readonly Token[];
  } catch (error) {
    const message = error instanceof Error ? error.message : 'it cannot be parsed';
    const [, what = message, offset = '0'] = /^(.*) at (\d+)$/s.exec(message) ?? [];
    throw new TemplateError(what.charAt(0).toLowerCase() + what.slice(1), source, Number(offset));
  }
}
