import { RE2JS, RE2Set } from 're2js';
import { messageOf } from '../errors/gateway-error.ts';

/** A regular expression whose time is linear in the text, for any expression and text. */
export interface LinearPattern {
  /** Upper bound of steps per character of a text, counted before anything is built. */
  readonly steps: number;
  /** Whether it matches anywhere in the text. */
  test(text: string): boolean;
}

/**
 * The engine's cache memory per step of an expression, and its minimum; beyond it the engine works without the cache.
 */
const bytesPerStep = 512;
const minBytes = 8192;
/** Building the set of a class such as `\pL` costs as much as this number of characters. */
const stepsOfClass = 16;

/**
 * Compiles an expression of RE2's or JavaScript's syntax, or returns the reason for a refusal: it is invalid, needs
 * backtracking, or expands to more than `maxSteps`.
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
    const set = new RE2Set(RE2Set.UNANCHORED, 0, Math.max(minBytes, steps * bytesPerStep));
    set.add(translated);
    set.compile();
    return { steps, test: (text) => set.match(text).length > 0 };
  } catch (error) {
    return noPattern(error);
  }
}

/** The same for an expression in RE2's syntax only, with the places of its matches in a text. */
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

/** A regular expression whose matches have an upper bound of length, for any text. */
export interface BoundedPattern {
  /** Longest possible match, in UTF-16 units. */
  readonly longest: number;
  /** Leftmost match that begins at or after `from`; `\b` and `^` see the text before it. */
  find(text: string, from: number): { readonly start: number; readonly end: number } | undefined;
}

/**
 * The same for matches in a text of which only a part is known yet. Returns the reason for a refusal: as for
 * `findLinearly`, or because a match may have any length or be empty.
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

/** The engine's message, with the part of the expression that it concerns. */
function noPattern(error: unknown): string {
  const message = messageOf(error);
  return `is no valid regular expression: ${message.replace(/^error parsing regexp: /, '').slice(0, 200)}`;
}

const repeatCount = /\{([0-9]+)(?:(,)([0-9]*))?\}/y;
const escaped =
  /\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|u\{[0-9A-Fa-f]+\}|u[0-9A-Fa-f]{4}|0[0-7]{0,2}|[pP](?:\{[^}]*\}|[^{])|[^])/y;
const groupStart = /\((?:\?(?:P?<\w+>|[A-Za-z-]*:|[A-Za-z-]*(?=\))))?/y;
/** Escapes that stand between characters, and those whose character may take two UTF-16 units. */
const betweenCharacters = /^\\[bBAz]$/;
const perhapsTwoUnits = /^\\(?:[DWSCpP]|[xu]\{[0-9A-Fa-f]{5,})/;

/** Lengths of the matches of a part of an expression, in UTF-16 units. */
interface Lengths {
  readonly shortest: number;
  readonly longest: number;
}

const none: Lengths = { shortest: 0, longest: 0 };
const oneUnit: Lengths = { shortest: 1, longest: 1 };
const oneCharacter: Lengths = { shortest: 1, longest: 2 };

/** A group that is still open. */
interface OpenGroup {
  /** Steps before the group, and before its latest item. */
  readonly before: number;
  /** Lengths before the group within its own alternative. */
  readonly sequence: Lengths;
  /** Finished alternatives of the surrounding group. */
  readonly others: Lengths | undefined;
}

/**
 * Size of an expression with its counted repetitions written out, at least as large as the engine's own. Building it
 * would be the costly part: `(?:a{30}){30}` is 14 characters. Also the length of its matches: at least `shortest`, at
 * most `longest`.
 */
class Expansion implements Lengths {
  steps = 1;
  shortest = 0;
  longest = 0;
  unsupported: string | undefined;
  readonly #source: string;
  #at = 0;
  /** Lengths of the latest item, of the items before it in its alternative, and of the earlier alternatives. */
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

  /** Closes the latest item: it can no longer be repeated. */
  #endItem(): void {
    this.#sequence = {
      shortest: this.#sequence.shortest + this.#latest.shortest,
      longest: this.#sequence.longest + this.#latest.longest,
    };
    this.#latest = none;
  }

  /** Lengths of the open group as read so far. */
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
    // A following question mark makes it lazy.
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

  /** Skips one character, escape or class; returns its steps. */
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
    // Only an unambiguous set of single units counts as one.
    const isPlain = /^\[(?!\^)(?:[\x20-\x5b\x5d-\x7e]|\\[^DWSpPxu])*$/.test(source.slice(from, this.#at));
    this.#latest = isPlain && !/\[:\^/.test(source.slice(from, this.#at)) ? oneUnit : oneCharacter;
    return steps;
  }
}
