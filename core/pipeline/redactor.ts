import type { AnswerText } from '../dialects/dialect.ts';
import type { Emit, MaybePromise, RequestContext, ResponseContext, StreamTap } from './context.ts';
import { boundedPattern, type BoundedPattern } from '../base/linear-pattern.ts';
import { type Cut, redactCuts } from '../redaction/redact-text.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import type { StreamEvent, TextEvent } from '../dialects/stream-event.ts';

/** One pattern that is removed from answers, and its replacement. */
export interface RedactorRule {
  /** An expression of RE2 whose matches have a greatest length: `{1,64}` in place of `+`. */
  readonly pattern: string;
  /** Default `[redacted]`. */
  readonly replacement?: string;
}

/**
 * Replaces the matches of rules in answers, whole or streamed, with the same result. The leftmost match is replaced
 * first; of several at one place, that of the earliest rule; the search continues behind it.
 */
export interface Redactor {
  /** How many UTF-16 units of each text a stream holds back at most: the longest match, and an eighth more where it is long. */
  readonly longest: number;
  /** A text that is whole. */
  text(text: string): string;
  /** For the `response` hook: redacts the texts of a complete answer. True when it replaced a match. */
  response(context: ResponseContext): boolean;
  /** For the `stream` hook: the tap that redacts a streamed answer. No part of a match leaves, however it is cut. */
  stream(context: RequestContext): StreamTap;
}

/** Steps that one expression may expand to. */
const maxSteps = 2000;
/** Longest match in UTF-16 units. */
const maxUnits = 4096;
const defaultReplacement = '[redacted]';

/**
 * Compiles the rules, or returns a text that names the refused one and the reason.
 * @example
 * const redaction = redactor([{ pattern: '\\b[0-9]{3}-[0-9]{2}-[0-9]{4}\\b', replacement: '[ssn]' }]);
 * if (typeof redaction === 'string') throw new Error(redaction);
 * return {
 *   response: (context) => void redaction.response(context),
 *   stream: (context) => redaction.stream(context),
 * };
 */
export function redactor(rules: readonly RedactorRule[]): Redactor | string {
  const compiled: CompiledRule[] = [];
  for (const [index, { pattern, replacement = defaultReplacement }] of rules.entries()) {
    const found = boundedPattern(pattern, maxSteps);
    if (typeof found === 'string') return `the pattern of rule ${index} ${found}`;
    if (found.longest > maxUnits)
      return `the pattern of rule ${index} has matches of up to ${found.longest} UTF-16 units, and ${maxUnits} is the most; shorten it`;
    compiled.push({ pattern: found, replacement });
  }
  return new RuleRedactor(compiled);
}

interface CompiledRule {
  readonly pattern: BoundedPattern;
  readonly replacement: string;
}

class RuleRedactor implements Redactor {
  readonly longest: number;
  private readonly reach: number;
  private readonly rules: readonly CompiledRule[];
  /** The same for the arguments of tool calls, which are JSON: replacements stand within a string. */
  private readonly jsonRules: readonly CompiledRule[];

  constructor(rules: readonly CompiledRule[]) {
    this.rules = rules;
    this.jsonRules = rules.map((rule) => ({
      ...rule,
      replacement: JSON.stringify(rule.replacement).slice(1, -1),
    }));
    // One unit behind the longest match decides whether a word ends there.
    this.reach = Math.max(0, ...rules.map(({ pattern }) => pattern.longest)) + 1;
    this.longest = this.reach + batchOf(this.reach);
  }

  text(text: string): string {
    return redactCuts([text], [...cutsIn(text, this.rules, 0, text.length)])[0] as string;
  }

  response({ response, endpoint }: ResponseContext): boolean {
    const { texts } = response;
    if (texts.length === 0) return false;
    const changed = new Map<AnswerText, string>();
    for (const run of runsOf(texts, isGathered(endpoint.dialect))) {
      const pieces = run.map(({ text }) => text);
      const whole = pieces.join('');
      const cuts = [...cutsIn(whole, this.rulesFor(run[0]?.type), 0, whole.length)];
      if (cuts.length === 0) continue;
      redactCuts(pieces, cuts).forEach((text, i) => changed.set(run[i] as AnswerText, text));
    }
    if (changed.size > 0) response.setTexts((part) => changed.get(part) ?? part.text);
    return changed.size > 0;
  }

  stream({ endpoint }: RequestContext): StreamTap {
    const { dialect } = endpoint;
    return new TextWindow(dialect, ({ type }) => new RedactedText(this.rulesFor(type), this.reach));
  }

  private rulesFor(type: AnswerText['type'] | TextEvent['type'] | undefined): readonly CompiledRule[] {
    return type?.startsWith('tool-arguments') === true ? this.jsonRules : this.rules;
  }
}

/** Replacements in a text from `from` on, for matches that begin at `last` or before. */
function* cutsIn(text: string, rules: readonly CompiledRule[], from: number, last: number): Generator<Cut> {
  let at = from;
  const upcoming = rules.map((rule) => ({ rule, match: rule.pattern.find(text, at) }));
  for (;;) {
    let first: Cut | undefined;
    for (const one of upcoming) {
      if (one.match !== undefined && one.match.start < at) one.match = one.rule.pattern.find(text, at);
      const { match, rule } = one;
      if (match === undefined || match.start > last || (first !== undefined && match.start >= first.start))
        continue;
      first = { ...match, replacement: rule.replacement };
    }
    if (first === undefined) return;
    yield first;
    at = first.end;
  }
}

/** One text of a stream; holds back its end while that may still be part of a match. */
class RedactedText implements HeldText {
  private readonly rules: readonly CompiledRule[];
  private readonly reach: number;
  /** The text held back, after one character that has left, which decides whether a word begins behind it. */
  private known = '';
  private from = 0;

  constructor(rules: readonly CompiledRule[], reach: number) {
    this.rules = rules;
    this.reach = reach;
  }

  /** Takes the next piece; returns the text that may leave now. */
  push(text: string, isLast: boolean): string {
    this.known += text;
    const { known } = this;
    // Whether a match begins beyond this place is not known yet: more of it may come.
    const decided = isLast ? known.length : known.length - this.reach;
    // Searching the held text again with each small piece would cost more the longer matches are.
    if (!isLast && decided - this.from < batchOf(this.reach)) return '';
    let leaving = '';
    let at = this.from;
    for (const { start, end, replacement } of cutsIn(known, this.rules, at, decided)) {
      leaving += known.slice(at, start) + replacement;
      at = end;
    }
    const end = isLast ? known.length : withoutHalfCharacter(known, Math.max(at, decided + 1));
    leaving += known.slice(at, end);
    const kept = end === 0 ? 0 : withoutHalfCharacter(known, end - 1);
    this.known = known.slice(kept);
    this.from = end - kept;
    return leaving;
  }
}

/** The texts that are read as one, in order: on wires of blocks only those that follow one another. */
function runsOf(texts: readonly AnswerText[], gathered: boolean): readonly (readonly AnswerText[])[] {
  const runs: AnswerText[][] = [];
  const open = new Map<string, AnswerText[]>();
  const latest = new Map<number, string>();
  for (const part of texts) {
    if (part.text === '' && part.type !== 'tool-arguments') continue;
    const key = keyOfText(part);
    const before = open.get(key);
    if (before !== undefined && (gathered || latest.get(part.choice) === key)) before.push(part);
    else {
      const run = [part];
      open.set(key, run);
      runs.push(run);
    }
    latest.set(part.choice, key);
  }
  return runs;
}

/** One text of a stream, partly held back. */
export interface HeldText {
  /** Takes the next piece; returns the text that may leave now, with the last piece all that is held. */
  push(text: string, isLast: boolean): MaybePromise<string>;
}

/** Units that have to come before a text is searched again, when findings have at most the length `reach`. */
export function batchOf(reach: number): number {
  return reach < 64 ? 0 : reach >> 3;
}

/** The place, or the one before it where it would split a surrogate pair. */
export function withoutHalfCharacter(text: string, place: number): number {
  const isWithin = place > 0 && place < text.length && (text.codePointAt(place - 1) ?? 0) > 0xffff;
  return isWithin ? place - 1 : place;
}

/** The wire has one text of each kind for a choice, whatever comes between its pieces. */
function isGathered(dialect: DialectName): boolean {
  return dialect === 'openai-chat' || dialect === 'openai-completions';
}

/** Key that identifies one text of an answer. */
export function keyOfText(part: {
  readonly type: string;
  readonly choice: number;
  readonly call?: number | undefined;
}): string {
  return `${part.type}:${part.choice}:${part.call ?? ''}`;
}

/**
 * The tap that holds back a part of each text of a streamed answer. On wires of blocks, a text leaves whole before the
 * next one begins.
 */
export class TextWindow implements StreamTap {
  private readonly dialect: DialectName;
  private readonly begin: (event: TextEvent) => HeldText;
  private readonly open = new Map<string, { readonly event: TextEvent; readonly held: HeldText }>();

  /** `begin` is called with the first event of each text. */
  constructor(dialect: DialectName, begin: (event: TextEvent) => HeldText) {
    this.dialect = dialect;
    this.begin = begin;
  }

  event(event: StreamEvent, emit: Emit): MaybePromise<void> {
    if (event.type === 'finish') return after(this.finish(emit, event.choice), () => emit(event));
    if (!('text' in event)) return emit(event);
    if (event.text === '' && event.type !== 'tool-arguments-delta') return emit(event);
    const key = keyOfText(event);
    if (isGathered(this.dialect)) return this.push(key, event, emit);
    return after(this.finish(emit, event.choice, key), () => this.push(key, event, emit));
  }

  end(emit: Emit): MaybePromise<void> {
    return this.finish(emit);
  }

  private push(key: string, event: TextEvent, emit: Emit): MaybePromise<void> {
    const isCall = event.type === 'tool-arguments-delta';
    let one = this.open.get(key);
    if (one === undefined) {
      one = { event, held: this.begin(event) };
      this.open.set(key, one);
    }
    // This wire has no pieces of calls.
    const isWhole = isCall && this.dialect === 'google-gemini';
    if (isWhole) this.open.delete(key);
    return after(one.held.push(event.text, isWhole), (text) => {
      if (text === event.text) emit(event);
      else if (text !== '' || (isCall && event.name !== undefined)) emit({ ...event, text });
    });
  }

  /** Emits the held parts of texts that have ended: all of a choice but one, or all. */
  private finish(emit: Emit, choice?: number, except?: string): MaybePromise<void> {
    let given: MaybePromise<void> = undefined;
    for (const [key, { event, held }] of this.open) {
      if (key === except || (choice !== undefined && event.choice !== choice)) continue;
      this.open.delete(key);
      given = after(given, () => after(held.push('', true), (text) => giveRest(event, text, emit)));
    }
    return given;
  }
}

function giveRest(event: TextEvent, text: string, emit: Emit): void {
  if (text === '') return;
  if (event.type === 'tool-arguments-delta')
    emit({ type: event.type, choice: event.choice, call: event.call, text });
  else emit({ ...event, text });
}

function after<T>(pending: MaybePromise<T>, run: (value: T) => MaybePromise<void>): MaybePromise<void> {
  return pending instanceof Promise ? pending.then(run) : run(pending);
}
