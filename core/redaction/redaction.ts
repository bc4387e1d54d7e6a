import type { Clock } from '../ports/clock.ts';
import { findLinearly } from '../base/linear-pattern.ts';
import {
  type RedactionRuleOption,
  descend,
  parsePath,
  type PathRule,
  type PathState,
} from './redaction-options.ts';
import { redactPieces, redactText, type TextRule, namedPattern } from './redact-text.ts';
import type { Mistake } from '../base/json.ts';

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
export function redactionFaults(options: readonly RedactionRuleOption[] = [], path: string): Mistake[] {
  const faults: Mistake[] = [];
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

/** A text within a document, subject to patterns. */
interface Leaf {
  /** Index among the pieces of the scan. */
  readonly piece: number;
  readonly text: string;
  /**
   * `string` and `name` are quoted, `number` is not, `open` is a truncated string, and `rest` is text outside of any
   * document.
   */
  readonly kind: 'string' | 'name' | 'number' | 'open' | 'rest';
  /** Path of members to it; equal for the same place in each document of a stream. */
  readonly place: string;
}

/** A text in pieces, with the paths already redacted; joined, they are the text. */
interface Scan {
  readonly pieces: string[];
  readonly leaves: readonly Leaf[];
  /** Values of `index` members: they distinguish parallel streams. */
  readonly indexes: string;
}

/** Everything deeper is redacted: no meaningful document reaches this depth. */
const deepest = 128;
const tooDeep: PathRule = { steps: [], replacement: '[redacted]' };
/** Shorter numbers identify nobody. */
const shortestNumber = 8;

/**
 * Scans one or several JSON documents, once, without parsing them: text that is not redacted stays unchanged, digits
 * and spacing included. A truncated document is read as far as it goes. From the first invalid JSON on, the rest is a
 * leaf of its own, or redacted when there are paths, which cannot be followed there.
 */
function scanJson(text: string, rules: readonly PathRule[], collects: boolean): Scan {
  const scanner = new Scanner(text, collects);
  scanner.run(rules);
  return scanner;
}

class NoJson extends Error {}

class Scanner implements Scan {
  readonly pieces: string[] = [];
  readonly leaves: Leaf[] = [];
  indexes = '';
  private readonly text: string;
  private readonly collects: boolean;
  private at = 0;
  /** Offset up to which the text is in the pieces. */
  private copied = 0;

  constructor(text: string, collects: boolean) {
    this.text = text;
    this.collects = collects;
  }

  run(rules: readonly PathRule[]): void {
    const states = rules.map((rule): PathState => ({ rule, next: 0 }));
    try {
      for (this.skipSpace(); this.at < this.text.length; this.skipSpace()) {
        const start = this.text.charCodeAt(this.at);
        if (start !== 0x7b && start !== 0x5b) throw new NoJson();
        this.value(states, '', 0);
      }
      this.copy(this.at);
    } catch (error) {
      if (!(error instanceof NoJson)) throw error;
      this.rest(this.at > 0 ? rules[0] : undefined);
    }
  }

  private rest(hides: PathRule | undefined): void {
    this.copy(this.at);
    const rest = this.text.slice(this.at);
    if (hides === undefined) this.leaf(rest, rest, 'rest', '');
    else this.pieces.push(hides.replacement);
    this.at = this.copied = this.text.length;
  }

  private value(states: readonly PathState[], place: string, depth: number): void {
    const first = this.text.charCodeAt(this.at);
    if (first === 0x22) this.string('string', place);
    else if (first === 0x7b || first === 0x5b) {
      if (depth >= deepest) return this.hide(tooDeep);
      this.at += 1;
      if (first === 0x7b) this.members(states, place, depth + 1);
      else this.elements(states, place, depth + 1);
    } else this.scalar(place);
  }

  private members(states: readonly PathState[], place: string, depth: number): void {
    for (this.skipSpace(); this.at < this.text.length; this.skipSpace()) {
      const next = this.text.charCodeAt(this.at);
      if (next === 0x7d || next === 0x2c) {
        this.at += 1;
        if (next === 0x7d) return;
        continue;
      }
      if (next !== 0x22) throw new NoJson();
      const name = this.string('name', place);
      this.skipSpace();
      if (this.at >= this.text.length) return;
      if (this.text.charCodeAt(this.at) !== 0x3a) throw new NoJson();
      this.at += 1;
      this.skipSpace();
      if (this.at < this.text.length) this.below(descend(states, name), `${place}.${name}`, depth);
    }
  }

  private elements(states: readonly PathState[], place: string, depth: number): void {
    let index = 0;
    for (this.skipSpace(); this.at < this.text.length; this.skipSpace()) {
      const next = this.text.charCodeAt(this.at);
      if (next === 0x5d || next === 0x2c) {
        this.at += 1;
        if (next === 0x5d) return;
        index += 1;
        continue;
      }
      // A stream may also be one list: equal places in its elements belong together.
      this.below(descend(states, index), place === '' ? '[]' : `${place}[${index}]`, depth);
    }
  }

  private below(states: readonly PathState[] | PathRule, place: string, depth: number): void {
    if ('steps' in states) this.hide(states);
    else this.value(states, place, depth);
  }

  private hide({ replacement }: PathRule): void {
    this.copy(this.at);
    this.pieces.push(JSON.stringify(replacement));
    this.skipValue();
    this.copied = this.at;
  }

  private string(kind: 'string' | 'name', place: string): string {
    const start = this.at;
    const isClosed = this.skipString();
    const token = this.text.slice(start, this.at);
    const text = decoded(token, isClosed);
    if (this.collects && token.length > 2) {
      this.copy(start);
      this.leaf(token, text, isClosed ? kind : 'open', place);
      this.copied = this.at;
    }
    return text;
  }

  private scalar(place: string): void {
    const start = this.at;
    while (this.at < this.text.length && !endsScalar(this.text.charCodeAt(this.at))) this.at += 1;
    if (this.at === start) throw new NoJson();
    if (!this.collects) return;
    const token = this.text.slice(start, this.at);
    if (place.endsWith('.index')) this.indexes += `${token},`;
    if (token.length < shortestNumber) return;
    this.copy(start);
    this.leaf(token, token, 'number', place);
    this.copied = this.at;
  }

  private leaf(piece: string, text: string, kind: Leaf['kind'], place: string): void {
    this.leaves.push({ piece: this.pieces.length, text, kind, place });
    this.pieces.push(piece);
  }

  private copy(to: number): void {
    if (to > this.copied) this.pieces.push(this.text.slice(this.copied, to));
    this.copied = to;
  }

  private skipSpace(): void {
    while (this.at < this.text.length && this.text.charCodeAt(this.at) <= 0x20) this.at += 1;
  }

  /** Moves past a string; false when it is unterminated. */
  private skipString(): boolean {
    for (let end = this.at + 1; ; end += 1) {
      end = this.text.indexOf('"', end);
      if (end === -1) break;
      let slashes = 0;
      while (this.text.charCodeAt(end - 1 - slashes) === 0x5c) slashes += 1;
      if (slashes % 2 === 1) continue;
      this.at = end + 1;
      return true;
    }
    this.at = this.text.length;
    return false;
  }

  private skipValue(): void {
    let depth = 0;
    do {
      const next = this.text.charCodeAt(this.at);
      if (next === 0x22) this.skipString();
      else if (next === 0x7b || next === 0x5b) {
        depth += 1;
        this.at += 1;
      } else if (next === 0x7d || next === 0x5d) {
        depth -= 1;
        this.at += 1;
      } else if (depth > 0) this.at += 1;
      else while (this.at < this.text.length && !endsScalar(this.text.charCodeAt(this.at))) this.at += 1;
    } while (depth > 0 && this.at < this.text.length);
  }
}

/** White space, a comma, or the end of a list or an object. */
function endsScalar(code: number): boolean {
  return code <= 0x20 || code === 0x2c || code === 0x5d || code === 0x7d || code === 0x22 || code === 0x3a;
}

function decoded(token: string, isClosed: boolean): string {
  if (!token.includes('\\')) return isClosed ? token.slice(1, -1) : token.slice(1);
  try {
    return JSON.parse(isClosed ? token : `${token}"`) as string;
  } catch {
    return isClosed ? token.slice(1, -1) : token.slice(1);
  }
}
