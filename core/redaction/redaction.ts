import type { Clock } from '../ports/clock.ts';
import { findLinearly } from '../base/linear-pattern.ts';
import { parsePath, type PathRule } from './json-path.ts';
import { namedPattern } from './named-patterns.ts';
import type { RedactionRuleOption } from './redaction-options.ts';
import { redactPieces, redactText, type TextRule } from './redact-text.ts';
import { type Leaf, type Scan, scanJson } from './scan-json.ts';

/** Rules for content that must not be logged. */
interface BodyRules {
  readonly paths: readonly PathRule[];
  readonly texts: readonly TextRule[];
}

/** Members in which streams send a text in fragments. */
const told =
  /\.(?:content|text|delta|arguments|partial_json|thinking|refusal|reasoning|reasoning_content|transcript|completion|input)$/;

/** Redacts a text or JSON. Yields between its parts, so that a long one can be paused. */
export function* redactDocument(text: string, rules: BodyRules): Generator<void, string> {
  const scan = scanJson(text, rules.paths, rules.texts.length > 0);
  yield* redactLeaves([scan], rules.texts);
  return scan.pieces.join('');
}

/**
 * The same for server-sent events: paths apply to the JSON of each event, and patterns to the joined text of the
 * events, because a name may arrive letter by letter.
 */
export function* redactEvents(text: string, rules: BodyRules): Generator<void, string> {
  const parts: (string | Scan)[] = [];
  const scans: Scan[] = [];
  let data: string[] = [];
  const close = (): void => {
    if (data.length === 0) return;
    const scan = scanJson(data.join('\n'), rules.paths, rules.texts.length > 0);
    scans.push(scan);
    parts.push(scan);
    data = [];
  };
  for (const line of text.split(/\r\n|\n|\r/)) {
    if (line.startsWith('data:')) {
      data.push(line.slice(line[5] === ' ' ? 6 : 5));
      continue;
    }
    close();
    parts.push(redactText(line, rules.texts));
  }
  close();
  yield;
  yield* redactLeaves(scans, rules.texts);
  return parts.map((part) => (typeof part === 'string' ? part : linesOf(part))).join('\n');
}

function linesOf({ pieces }: Scan): string {
  return `data: ${pieces.join('').replaceAll('\n', '\ndata: ')}`;
}

interface Told {
  readonly pieces: string[];
  readonly leaf: Leaf;
}

function* redactLeaves(scans: readonly Scan[], rules: readonly TextRule[]): Generator<void> {
  const streams = new Map<string, Told[]>();
  let length = 0;
  for (const { pieces, leaves, indexes } of scans) {
    for (const leaf of leaves) {
      if (leaf.kind !== 'number' && leaf.kind !== 'name' && told.test(leaf.place)) {
        const stream = `${indexes}${leaf.place}`;
        const known = streams.get(stream);
        if (known === undefined) streams.set(stream, [{ pieces, leaf }]);
        else known.push({ pieces, leaf });
        continue;
      }
      replace(pieces, leaf, redactText(leaf.text, rules));
      length += leaf.text.length;
      if (length < 4096) continue;
      length = 0;
      yield;
    }
  }
  for (const stream of streams.values()) {
    const redacted = redactPieces(
      stream.map(({ leaf }) => leaf.text),
      rules,
    );
    for (const [index, { pieces, leaf }] of stream.entries()) replace(pieces, leaf, redacted[index] ?? '');
    yield;
  }
}

function replace(pieces: string[], { piece, text, kind }: Leaf, redacted: string): void {
  if (redacted === text) return;
  if (kind === 'rest') pieces[piece] = redacted;
  else pieces[piece] = kind === 'open' ? JSON.stringify(redacted).slice(0, -1) : JSON.stringify(redacted);
}

/** Longest time in milliseconds for which work holds up requests. */
const sliceMs = 5;

/** Runs work to its end: synchronously when it is short, else with pauses for requests. */
function inSlices<T>(work: Generator<void, T>, clock: Pick<Clock, 'monotonic'>): T | Promise<T> {
  const until = clock.monotonic() + sliceMs;
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    if (clock.monotonic() < until) continue;
    return new Promise((resolve, reject) => {
      setImmediate(() => {
        try {
          resolve(inSlices(work, clock));
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      });
    });
  }
}

type Metadata = Readonly<Record<string, string>>;

interface RuleFault {
  readonly path: string;
  readonly message: string;
}

const defaultReplacement = '[redacted]';
/**
 * Length by which a truncated text is shortened further, so that no half of a pattern remains that only matches whole.
 */
const longestHalf = 256;
/** Steps that one expression may expand to. */
const maxSteps = 1000;

/** Removes from logged content what must not be there. */
export class Redaction {
  private readonly rules: BodyRules;

  constructor(rules: BodyRules) {
    this.rules = rules;
  }

  /** Whether some rules name paths, which refer to the client's wire. */
  get hasPaths(): boolean {
    return this.rules.paths.length > 0;
  }

  /** Redacts a text of the row. */
  text(text: string): string {
    return redactText(text, this.rules.texts);
  }

  /** Redacts JSON of the row. */
  json(text: string): string {
    return text === '' ? '' : finished(redactDocument(text, this.rules));
  }

  /** Redacts metadata of the request, by patterns and by the paths below `metadata`; keeps names, values are texts. */
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

  /** Redacts a body; yields to requests when it is long. A truncated one (`isTruncated`) loses its torn end. */
  async body(
    text: string,
    { isEventStream, isTruncated }: { readonly isEventStream: boolean; readonly isTruncated: boolean },
    clock: Pick<Clock, 'monotonic'>,
  ): Promise<string> {
    const whole = isTruncated ? withoutTornEnd(text) : text;
    return inSlices((isEventStream ? redactEvents : redactDocument)(whole, this.rules), clock);
  }
}

/** Violations in rules that their schema cannot detect: expressions that RE2 rejects. `path` is that of the option. */
export function redactionFaults(options: readonly RedactionRuleOption[] = [], path: string): RuleFault[] {
  const faults: RuleFault[] = [];
  for (const [index, option] of options.entries()) {
    if (!('expression' in option)) continue;
    const found = findLinearly(option.expression, maxSteps);
    if (typeof found !== 'string') continue;
    const message = `this is no regular expression of RE2 (it ${found}); correct it, and replace look-around and back-references by other rules`;
    faults.push({ path: `${path}/${index}/expression`, message });
  }
  return faults;
}

/** Compiles the rules of the options; undefined for none. Throws for rules with `redactionFaults`. */
export function compileRedaction(
  options: readonly RedactionRuleOption[],
  keyPrefix: string,
): Redaction | undefined {
  if (options.length === 0) return undefined;
  const paths: BodyRules['paths'][number][] = [];
  const texts: BodyRules['texts'][number][] = [];
  for (const option of options) {
    const { replacement = defaultReplacement } = option;
    if ('path' in option) paths.push({ steps: parsePath(option.path), replacement });
    else if ('pattern' in option) texts.push({ find: namedPattern(option.pattern, keyPrefix), replacement });
    else {
      const find = findLinearly(option.expression, maxSteps);
      if (typeof find === 'string') throw new Error(`The expression of a redaction rule ${find}.`);
      texts.push({ find, replacement });
    }
  }
  return new Redaction({ paths, texts });
}

/** The text up to the last separator. */
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
