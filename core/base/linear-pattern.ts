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
  // The translation takes the backslash from references; only it says where sets end: `[^]` is one in JavaScript.
  const { unsupported } = new Expansion(source);
  const { steps, literal } = new Expansion(translated);
  if (unsupported !== undefined) return unsupported;
  if (steps > maxSteps) return tooLarge(steps, maxSteps);
  const mayMatch = hasLiteral(translated, literal);
  try {
    const set = new RE2Set(RE2Set.UNANCHORED, 0, Math.max(minBytes, steps * bytesPerStep));
    set.add(translated);
    set.compile();
    return { steps, test: (text) => mayMatch(text) && set.match(text).length > 0 };
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
    if (!pattern.mayMatch(text)) return;
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

interface Finder extends Lengths {
  readonly expression: RE2JS;
  readonly mayMatch: (text: string) => boolean;
}

function compileFinder(source: string, maxSteps: number): Finder | string {
  const { steps, unsupported, shortest, longest, literal } = new Expansion(source);
  if (unsupported !== undefined) return unsupported;
  if (steps > maxSteps) return tooLarge(steps, maxSteps);
  try {
    return { expression: RE2JS.compile(source), shortest, longest, mayMatch: hasLiteral(source, literal) };
  } catch (error) {
    return noPattern(error);
  }
}

/** Shorter literals are in most texts. */
const shortestLiteral = 3;

/**
 * False for texts without the literal, which cannot match. Searching for a literal takes a tenth of the time that the
 * engine takes, and most texts that are judged do not match.
 */
function hasLiteral(source: string, literal: string): (text: string) => boolean {
  if (literal.length < shortestLiteral) return () => true;
  // The flag may hold for a part of the expression only: more texts than needed go to the engine then.
  if (!/\(\?[A-Za-z-]*i/.test(source)) return (text) => text.includes(literal);
  // Only a literal, so it takes linear time. With "u" letters fold as they do in RE2: the Kelvin sign is a k.
  const folded = new RegExp(
    literal.replaceAll(/[^A-Za-z0-9 ]/g, (sign) => `\\x${sign.charCodeAt(0).toString(16)}`),
    'iu',
  );
  return (text) => folded.test(text);
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

/** Characters that stand for themselves, and signs that do behind a backslash. */
const isPlain = /^[A-Za-z0-9 !"#%&',/:;<=>@_`~-]$/;
const isSign = /^[!-/:-@[-`{-~]$/;
const isWholeEscape = /^[^A-Za-z0-9]$|^[0aAbBCdDfnrsStvwWz]$/;

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
 * most `longest`. Every match holds `literal`, which is empty when none is known.
 */
class Expansion implements Lengths {
  steps = 1;
  shortest = 0;
  longest = 0;
  literal = '';
  unsupported: string | undefined;
  readonly #source: string;
  #at = 0;
  /** Groups that are open at this place; only what is in none of them is surely in each match. */
  #depth = 0;
  /** Literal characters that follow each other up to the latest item, and that item when it is one. */
  #run = '';
  #plain = '';
  #isRepeated = false;
  /** No literal is certain: there are alternatives outside of groups, or something that may be read in two ways. */
  #hasChoice = false;
  /** Lengths of the latest item, of the items before it in its alternative, and of the earlier alternatives. */
  #latest = none;
  #sequence = none;
  #others: Lengths | undefined;

  constructor(source: string) {
    this.#source = source;
    this.#walk();
    Object.assign(this, this.#alternatives());
    this.#endRun();
    if (this.#hasChoice) this.literal = '';
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
        this.#endRun();
        this.#depth++;
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
        this.#depth--;
        this.#isRepeated = false;
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
          this.#hasChoice ||= this.#depth === 0;
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
    if (this.#depth === 0) {
      if (this.#plain === '' && !this.#isRepeated) this.#endRun();
      this.#run += this.#plain;
      this.#plain = '';
      this.#isRepeated = false;
    }
    this.#sequence = {
      shortest: this.#sequence.shortest + this.#latest.shortest,
      longest: this.#sequence.longest + this.#latest.longest,
    };
    this.#latest = none;
  }

  #endRun(): void {
    if (this.#run.length > this.literal.length) this.literal = this.#run;
    this.#run = '';
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
    if (this.#depth === 0) this.#repeatPlain(least);
    this.#latest = { shortest: shortest * least, longest: longest === 0 ? 0 : longest * most };
  }

  /** `ab+c` holds `ab` and `bc`. */
  #repeatPlain(least: number): void {
    const plain = least > 0 && !this.#isRepeated ? this.#plain : '';
    this.#hasChoice ||= this.#isRepeated;
    this.#isRepeated = true;
    this.#run += plain;
    this.#endRun();
    this.#run = plain;
    this.#plain = '';
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
    if (this.#depth === 0 && character !== undefined && isPlain.test(character)) this.#plain = character;
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
    if (this.#depth === 0 && isSign.test(kind)) this.#plain = kind;
    // What follows may belong to it: `\cA` is one character.
    this.#hasChoice ||= written.length === 2 && !isWholeEscape.test(kind);
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
    const isSimple = /^\[(?!\^)(?:[\x20-\x5b\x5d-\x7e]|\\[^DWSpPxu])*$/.test(source.slice(from, this.#at));
    this.#latest = isSimple && !/\[:\^/.test(source.slice(from, this.#at)) ? oneUnit : oneCharacter;
    return steps;
  }
}
