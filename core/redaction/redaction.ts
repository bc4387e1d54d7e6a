import type { Clock } from '../ports/clock.ts';
import { findLinearly } from '../base/linear-pattern.ts';
import { inSlices } from './in-slices.ts';
import { parsePath } from './json-path.ts';
import { namedPattern } from './named-patterns.ts';
import { redactDocument, redactEvents, type BodyRules } from './redact-body.ts';
import type { RedactionRuleOption } from './redaction-options.ts';
import { redactText } from './redact-text.ts';

type Metadata = Readonly<Record<string, string>>;

interface RuleFault {
  readonly path: string;
  readonly message: string;
}

const usual = '[redacted]';
/** How far back a cut text is cut once more, so that no half of something stays that is found only whole. */
const longestHalf = 256;
/** Steps that one expression may expand to. */
const mostSteps = 1000;

/** Takes out of what is logged what must not be there. */
export class Redaction {
  private readonly rules: BodyRules;

  constructor(rules: BodyRules) {
    this.rules = rules;
  }

  /** Some rules name places, which are those of the client's wire. */
  get hasPaths(): boolean {
    return this.rules.paths.length > 0;
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
  metadata(values: Metadata): Metadata {
    const names = Object.keys(values);
    if (names.length === 0) return values;
    const redacted = JSON.parse(this.json(JSON.stringify({ metadata: values }))) as {
      readonly metadata: Metadata | string;
    };
    if (typeof redacted.metadata !== 'string') return redacted.metadata;
    const hidden = redacted.metadata;
    return Object.fromEntries(names.map((name) => [name, hidden]));
  }

  /** A body, with turns for requests when it is long. One that was cut (`isTruncated`) loses its torn end. */
  async body(
    text: string,
    { isEventStream, isTruncated }: { readonly isEventStream: boolean; readonly isTruncated: boolean },
    clock: Pick<Clock, 'monotonic'>,
  ): Promise<string> {
    const whole = isTruncated ? withoutTornEnd(text) : text;
    return inSlices((isEventStream ? redactEvents : redactDocument)(whole, this.rules), clock);
  }
}

/** What is wrong with rules that their schema takes: expressions that RE2 does not take. `path` is that of the option. */
export function redactionFaults(options: readonly RedactionRuleOption[] = [], path: string): RuleFault[] {
  const faults: RuleFault[] = [];
  for (const [index, option] of options.entries()) {
    if (!('expression' in option)) continue;
    const found = findLinearly(option.expression, mostSteps);
    if (typeof found !== 'string') continue;
    const message = `this is no regular expression of RE2 (it ${found}); correct it, and put other rules in the place of look-around and back-references`;
    faults.push({ path: `${path}/${index}/expression`, message });
  }
  return faults;
}

/**
 * Compiles the rules of the options; undefined when there are none. Throws for those in which `redactionFaults` finds
 * faults.
 */
export function compileRedaction(
  options: readonly RedactionRuleOption[],
  keyPrefix: string,
): Redaction | undefined {
  if (options.length === 0) return undefined;
  const paths: BodyRules['paths'][number][] = [];
  const texts: BodyRules['texts'][number][] = [];
  for (const option of options) {
    const { replacement = usual } = option;
    if ('path' in option) paths.push({ steps: parsePath(option.path), replacement });
    else if ('pattern' in option) texts.push({ find: namedPattern(option.pattern, keyPrefix), replacement });
    else {
      const find = findLinearly(option.expression, mostSteps);
      if (typeof find === 'string') throw new Error(`The expression of a redaction rule ${find}.`);
      texts.push({ find, replacement });
    }
  }
  return new Redaction({ paths, texts });
}

/** The text up to the last place at which nothing goes on. */
function withoutTornEnd(text: string): string {
  const from = Math.max(0, text.length - longestHalf);
  for (let at = text.length; at > from; at -= 1)
    if (/[\s",;:<>]/.test(text[at - 1] ?? '')) return text.slice(0, at);
  return text.slice(0, from);
}

function finished<T>(work: Generator<void, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}
