import type { RequestFacts } from '../../core/pipeline/facts.ts';
import { parsePath } from './json-path.ts';
import { namedPattern, type FindSpans } from './named-patterns.ts';
import { redactDocument, redactEvents, type BodyRules } from './redact-body.ts';
import type { RedactionRuleOption } from './redaction-options.ts';
import { redactText } from './redact-text.ts';

const usual = '[redacted]';

/** Takes out of what is logged what must not be there. */
export class Redaction {
  private readonly rules: BodyRules;

  constructor(rules: BodyRules) {
    this.rules = rules;
  }

  /** A text of the row. */
  text(text: string): string {
    return redactText(text, this.rules.texts);
  }

  /** JSON of the row. */
  json(text: string): string {
    return text === '' ? '' : finished(redactDocument(text, this.rules));
  }

  /** Metadata of the request, by patterns and by the paths below `metadata`; names are kept, values are texts. */
  metadata(values: RequestFacts['metadata']): RequestFacts['metadata'] {
    const names = Object.keys(values);
    if (names.length === 0) return values;
    const redacted = JSON.parse(this.json(JSON.stringify({ metadata: values }))) as {
      readonly metadata: RequestFacts['metadata'] | string;
    };
    if (typeof redacted.metadata !== 'string') return redacted.metadata;
    const hidden = redacted.metadata;
    return Object.fromEntries(names.map((name) => [name, hidden]));
  }

  /** A body, a part at a time. */
  body(text: string, isEventStream: boolean): Generator<void, string> {
    return (isEventStream ? redactEvents : redactDocument)(text, this.rules);
  }
}

/**
 * Compiles the rules of the options; undefined when there are none. Throws one sentence for an expression that RE2 does
 * not take. The engine for expressions is loaded only when there is one.
 */
export async function compileRedaction(
  options: readonly RedactionRuleOption[],
  keyPrefix: string,
): Promise<Redaction | undefined> {
  if (options.length === 0) return undefined;
  const paths: BodyRules['paths'][number][] = [];
  const texts: BodyRules['texts'][number][] = [];
  for (const [index, option] of options.entries()) {
    const { replacement = usual } = option;
    if ('path' in option) paths.push({ steps: parsePath(option.path), replacement });
    else if ('pattern' in option) texts.push({ find: namedPattern(option.pattern, keyPrefix), replacement });
    else texts.push({ find: await expressionOf(option.expression, index), replacement });
  }
  return new Redaction({ paths, texts });
}

/** Linear in the text, whatever the expression: an operator's slip must not hold up the gateway. */
async function expressionOf(expression: string, index: number): Promise<FindSpans> {
  const { RE2JS } = await import('re2js');
  let compiled: InstanceType<typeof RE2JS>;
  try {
    compiled = RE2JS.compile(expression);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`redact/${index}/expression is no expression of RE2 (${reason})`, { cause: error });
  }
  return function* (text) {
    const matcher = compiled.matcher(text);
    while (matcher.find()) yield { start: matcher.start(), end: matcher.end() };
  };
}

function finished<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}
