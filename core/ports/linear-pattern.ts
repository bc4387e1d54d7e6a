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
  const { steps, unsupported } = new Expansion(source);
  if (unsupported !== undefined) return unsupported;
  if (steps > maxSteps) return tooLarge(steps, maxSteps);
  try {
    const pattern = RE2JS.compile(source);
    return function* (text) {
      const matcher = pattern.matcher(text);
      while (matcher.find()) yield { start: matcher.start(), end: matcher.end() };
    };
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

const repeatCount = /\{([0-9]+)(?:,([0-9]*))?\}/y;
const braced = /\{[^}]*\}/y;

/**
 * How large an expression becomes when its counted repetitions are written out, at least as large as the engine makes
 * it. Building it would be the costly part: `(?:a{30}){30}` is 14 characters.
 */
class Expansion {
  steps = 1;
  unsupported: string | undefined;
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
    this.#walk();
  }

  #walk(): void {
    const source = this.#source;
    /** Steps of the groups that are open, and of what stands before the latest item in each. */
    const open: number[] = [];
    let before = 0;
    let latest = 0;
    while (this.#at < source.length && this.unsupported === undefined) {
      const character = source[this.#at];
      if (character === '(') {
        this.#openGroup();
        open.push(before + latest);
        before = latest = 0;
      } else if (character === ')') {
        this.#at++;
        latest += before + 2;
        before = open.pop() ?? 0;
      } else if (character === '{' && (repeatCount.lastIndex = this.#at) >= 0 && repeatCount.test(source)) {
        repeatCount.lastIndex = this.#at;
        const [written = '', least, most] = repeatCount.exec(source) ?? [];
        this.#at += written.length;
        const times = Math.max(Number(least), Number(most ?? 0), 1);
        latest = (latest + 1) * times;
      } else if (character === '*' || character === '+' || character === '?') {
        this.#at++;
        latest += 1;
      } else {
        before += latest;
        latest = this.#atom(character);
      }
    }
    this.steps += open.reduce((sum, steps) => sum + steps, before + latest);
  }

  #openGroup(): void {
    const source = this.#source;
    if (/^\(\?<?[=!]/.test(source.slice(this.#at, this.#at + 4)))
      this.unsupported =
        'looks ahead or behind ("(?=", "(?!", "(?<=", "(?<!"), which cannot be done in time that is proportional to the text; say it with several expressions';
    this.#at += source[this.#at + 1] === '?' ? 2 : 1;
  }

  /** Goes past one character, escape or class; its steps. */
  #atom(character: string | undefined): number {
    if (character === '\\') return this.#escape();
    if (character === '[') return this.#set();
    this.#at++;
    return 1;
  }

  #escape(): number {
    const source = this.#source;
    const kind = source[this.#at + 1] ?? '';
    if (/[1-9k]/.test(kind))
      this.unsupported =
        'has a back-reference (or an octal escape, which looks like one), which cannot be done in time that is proportional to the text; write out what is meant';
    else if (kind === 'Q') this.unsupported = 'has "\\Q"; escape each character instead';
    this.#at += 2;
    if (!/[pPxu]/.test(kind)) return 1;
    braced.lastIndex = this.#at;
    if (braced.test(source)) this.#at = braced.lastIndex;
    return kind === 'p' || kind === 'P' ? stepsOfClass : 1;
  }

  /** A set in brackets. What stands first is a member even if it is the closing bracket. */
  #set(): number {
    const source = this.#source;
    let steps = 2;
    this.#at++;
    if (source[this.#at] === '^') this.#at++;
    if (source[this.#at] === ']') this.#at++;
    while (this.#at < source.length && source[this.#at] !== ']') {
      if (source[this.#at] === '\\') {
        if (/[pP]/.test(source[this.#at + 1] ?? '')) steps += stepsOfClass;
        this.#at += 2;
      } else this.#at++;
    }
    this.#at++;
    return steps;
  }
}
