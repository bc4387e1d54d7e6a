import { RE2JS, RE2Set } from 're2js';

/** A regular expression that takes time in proportion to the text, whatever either of them is. */
export interface LinearPattern {
  /** What the engine does at most for each character of a text, counted before anything is built. */
  readonly steps: number;
  /** Whether it is found anywhere in the text. */
  test(text: string): boolean;
}

/** Memory of the engine for each step of an expression, and at least; beyond it the engine works without a memory. */
const bytesPerStep = 512;
const leastBytes = 8192;
/** Building the set of a class such as `\pL` costs as much as that many characters. */
const stepsOfClass = 16;

/**
 * Compiles an expression of RE2's or JavaScript's syntax, or says as a text why it is refused: it is none, it needs an
 * engine that backtracks, or it expands to more than `maxSteps`.
 * @example
 * const pattern = linearPattern('^gpt-4', 100);
 * if (typeof pattern !== 'string') pattern.test('gpt-4o'); // true
 */
export function linearPattern(source: string, maxSteps: number): LinearPattern | string {
  const translated = RE2JS.translateRegExp(source);
  const { steps, unsupported } = new Expansion(source);
  if (unsupported !== undefined) return unsupported;
  if (steps > maxSteps) return tooLarge(steps, maxSteps);
  try {
    const set = new RE2Set(RE2Set.UNANCHORED, 0, Math.max(leastBytes, steps * bytesPerStep));
    set.add(translated);
    set.compile();
    return { steps, test: (text) => set.match(text).length > 0 };
  } catch (error) {
    return noPattern(error);
  }
}

/** The same for one whose matches are looked for, in RE2's syntax alone: where they begin and end in a text. */
export function findLinearly(
  source: string,
  maxSteps: number,
): ((text: string) => Iterable<{ readonly start: number; readonly end: number }>) | string {
  const pattern = compileFinder(source, maxSteps);
  if (typeof pattern === 'string') return pattern;
  return function* (text) {
    const matcher = pattern.expression.matcher(text);
    while (matcher.find()) yield { start: matcher.start(), end: matcher.end() };
  };
}

/** A regular expression whose matches have a greatest length, whatever the text. */
export interface BoundedPattern {
  /** What a match has at most, in UTF-16 units. */
  readonly longest: number;
  /** The leftmost match that begins at this place or behind it; what stands before the place is seen by `\b` and `^`. */
  find(text: string, from: number): { readonly start: number; readonly end: number } | undefined;
}

/**
 * The same for matches that are looked for in a text of which only a part is known yet. Says as a text why an expression
 * is refused: for the reasons of `findLinearly`, because a match may have any length, or because it may be empty.
 */
export function boundedPattern(source: string, maxSteps: number): BoundedPattern | string {
  const pattern = compileFinder(source, maxSteps);
  if (typeof pattern === 'string') return pattern;
  const { expression, shortest, longest } = pattern;
  if (longest === Infinity)
    return 'has matches of any length ("*", "+" or "{n,}"); say how often at most: "{1,200}" in place of "+"';
  if (shortest === 0) return 'matches the empty text; demand at least one character';
  return {
    longest,
    find(text, from) {
      const matcher = expression.matcher(text);
      return matcher.find(from) ? { start: matcher.start(), end: matcher.end() } : undefined;
    },
  };
}

function compileFinder(
  source: string,
  maxSteps: number,
): { readonly expression: RE2JS; readonly shortest: number; readonly longest: number } | string {
  const { steps, unsupported, shortest, longest } = new Expansion(source);
  if (unsupported !== undefined) return unsupported;
  if (steps > maxSteps) return tooLarge(steps, maxSteps);
  try {
    return { expression: RE2JS.compile(source), shortest, longest };
  } catch (error) {
    return noPattern(error);
  }
}

function tooLarge(steps: number, maxSteps: number): string {
  return `is too large: it expands to ${steps} steps, and ${maxSteps} are left; repeat fewer times or shorten it`;
}

/** The engine's own words, with the part of the expression that they are about. */
function noPattern(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return `is no valid regular expression: ${message.replace(/^error parsing regexp: /, '').slice(0, 200)}`;
}

const repeatCount = /\{([0-9]+)(?:(,)([0-9]*))?\}/y;
const escaped =
  /\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|u\{[0-9A-Fa-f]+\}|u[0-9A-Fa-f]{4}|0[0-7]{0,2}|[pP](?:\{[^}]*\}|[^{])|[^])/y;
const groupStart = /\((?:\?(?:P?<\w+>|[A-Za-z-]*:|[A-Za-z-]*(?=\))))?/y;
/** Escapes that stand between characters, and those whose character may take two UTF-16 units. */
const betweenCharacters = /^\\[bBAz]$/;
const perhapsTwoUnits = /^\\(?:[DWSCpP]|[xu]\{[0-9A-Fa-f]{5,})/;

/** The lengths of what a part of an expression matches, in UTF-16 units. */
interface Lengths {
  readonly shortest: number;
  readonly longest: number;
}

const none: Lengths = { shortest: 0, longest: 0 };
const oneUnit: Lengths = { shortest: 1, longest: 1 };
const oneCharacter: Lengths = { shortest: 1, longest: 2 };

/** A group that is open. */
interface OpenGroup {
  /** Steps of what stands before the group, and of what stands before its latest item. */
  readonly before: number;
  /** What stands before the group within its own alternative. */
  readonly sequence: Lengths;
  /** The alternatives of the surrounding group that have ended. */
  readonly others: Lengths | undefined;
}

/**
 * How large an expression becomes when its counted repetitions are written out, at least as large as the engine makes
 * it. Building it would be the costly part: `(?:a{30}){30}` is 14 characters. And how long its matches are: at least
 * `shortest`, and never more than `longest`.
 */
class Expansion implements Lengths {
  steps = 1;
  shortest = 0;
  longest = 0;
  unsupported: string | undefined;
  readonly #source: string;
  #at = 0;
  /** Of the latest item, of what stands before it in its alternative, and of the alternatives before that. */
  #latest = none;
  #sequence = none;
  #others: Lengths | undefined;

  constructor(source: string) {
    this.#source = source;
    this.#walk();
    Object.assign(this, this.#alternatives());
  }

  #walk(): void {
    const source = this.#source;
    const open: OpenGroup[] = [];
    let before = 0;
    let latest = 0;
    while (this.#at < source.length && this.unsupported === undefined) {
      const character = source[this.#at];
      if (character === '(') {
        this.#openGroup();
        this.#endItem();
        open.push({ before: before + latest, sequence: this.#sequence, others: this.#others });
        this.#sequence = none;
        this.#others = undefined;
        before = latest = 0;
      } else if (character === ')') {
        this.#at++;
        const group = open.pop();
        latest += before + 2;
        before = group?.before ?? 0;
        this.#latest = this.#alternatives();
        this.#sequence = group?.sequence ?? none;
        this.#others = group?.others;
      } else if (character === '{' && (repeatCount.lastIndex = this.#at) >= 0 && repeatCount.test(source)) {
        repeatCount.lastIndex = this.#at;
        const [written = '', least, comma, most] = repeatCount.exec(source) ?? [];
        this.#at += written.length;
        const times = Math.max(Number(least), Number(most ?? 0), 1);
        latest = (latest + 1) * times;
        this.#repeat(Number(least), most === '' ? Infinity : Number(comma === undefined ? least : most));
      } else if (character === '*' || character === '+' || character === '?') {
        this.#at++;
        latest += 1;
        this.#repeat(character === '+' ? 1 : 0, character === '?' ? 1 : Infinity);
      } else {
        before += latest;
        this.#endItem();
        if (character === '|') {
          this.#others = this.#alternatives();
          this.#sequence = none;
        }
        latest = this.#atom(character);
      }
    }
    this.steps += open.reduce((sum, group) => sum + group.before, before + latest);
  }

  /** The latest item can no longer be repeated. */
  #endItem(): void {
    this.#sequence = {
      shortest: this.#sequence.shortest + this.#latest.shortest,
      longest: this.#sequence.longest + this.#latest.longest,
    };
    this.#latest = none;
  }

  /** Of the open group as far as it has been read. */
  #alternatives(): Lengths {
    this.#endItem();
    if (this.#others === undefined) return this.#sequence;
    return {
      shortest: Math.min(this.#others.shortest, this.#sequence.shortest),
      longest: Math.max(this.#others.longest, this.#sequence.longest),
    };
  }

  #repeat(least: number, most: number): void {
    const { shortest, longest } = this.#latest;
    // A question mark behind it asks for as few as possible.
    if (this.#source[this.#at] === '?') this.#at++;
    this.#latest = { shortest: shortest * least, longest: longest === 0 ? 0 : longest * most };
  }

  #openGroup(): void {
    const source = this.#source;
    if (/^\(\?<?[=!]/.test(source.slice(this.#at, this.#at + 4)))
      this.unsupported =
        'looks ahead or behind ("(?=", "(?!", "(?<=", "(?<!"), which cannot be done in time that is proportional to the text; say it with several expressions';
    groupStart.lastIndex = this.#at;
    this.#at += groupStart.exec(source)?.[0].length ?? 1;
  }

  /** Goes past one character, escape or class; its steps. */
  #atom(character: string | undefined): number {
    if (character === '\\') return this.#escape();
    if (character === '[') return this.#set();
    const code = this.#source.codePointAt(this.#at) ?? 0;
    if (character === '.') this.#latest = oneCharacter;
    else if (code > 0xffff) this.#latest = { shortest: 2, longest: 2 };
    else if (character !== '^' && character !== '$' && character !== '|') this.#latest = oneUnit;
    this.#at += code > 0xffff ? 2 : 1;
    return 1;
  }

  #escape(): number {
    const source = this.#source;
    const kind = source[this.#at + 1] ?? '';
    if (/[1-9k]/.test(kind))
      this.unsupported =
        'has a back-reference (or an octal escape, which looks like one), which cannot be done in time that is proportional to the text; write out what is meant';
    else if (kind === 'Q') this.unsupported = 'has "\\Q"; escape each character instead';
    escaped.lastIndex = this.#at;
    const [written = '\\'] = escaped.exec(source) ?? [];
    this.#at += written.length;
    if (perhapsTwoUnits.test(written)) this.#latest = oneCharacter;
    else if (!betweenCharacters.test(written)) this.#latest = oneUnit;
    return kind === 'p' || kind === 'P' ? stepsOfClass : 1;
  }

  /** A set in brackets. The first character is a member even if it is the closing bracket. */
  #set(): number {
    const source = this.#source;
    const from = this.#at;
    let steps = 2;
    this.#at++;
    if (source[this.#at] === '^') this.#at++;
    if (source[this.#at] === ']') this.#at++;
    while (this.#at < source.length && source[this.#at] !== ']') {
      const isNamed = source.startsWith('[:', this.#at);
      const end = isNamed ? source.indexOf(':]', this.#at) : -1;
      if (end !== -1) this.#at = end + 2;
      else if (source[this.#at] === '\\') {
        if (/[pP]/.test(source[this.#at + 1] ?? '')) steps += stepsOfClass;
        this.#at += 2;
      } else this.#at++;
    }
    this.#at++;
    // Only what is plainly a set of single units is taken for one.
    const isPlain = /^\[(?!\^)(?:[\x20-\x5b\x5d-\x7e]|\\[^DWSpPxu])*$/.test(source.slice(from, this.#at));
    this.#latest = isPlain && !/\[:\^/.test(source.slice(from, this.#at)) ? oneUnit : oneCharacter;
    return steps;
  }
}
