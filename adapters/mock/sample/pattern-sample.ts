const maxLength = 400;
const maxDepth = 20;

interface CodeRange {
  readonly from: number;
  readonly to: number;
}

const digits: readonly CodeRange[] = [{ from: 48, to: 57 }];
const wordCharacters: readonly CodeRange[] = [
  { from: 97, to: 122 },
  { from: 65, to: 90 },
  ...digits,
  { from: 95, to: 95 },
];
const spaces: readonly CodeRange[] = [
  { from: 32, to: 32 },
  { from: 9, to: 13 },
];
const escapedClasses: Readonly<Record<string, readonly CodeRange[]>> = {
  d: digits,
  w: wordCharacters,
  s: spaces,
};
/** A character outside the class, for a lone `\\D`, `\\W` or `\\S`. */
const escapedComplements: Readonly<Record<string, string>> = { D: 'a', W: '-', S: 'a' };
const controlEscapes: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  f: '\f',
  v: '\v',
  '0': '\0',
};

/** The pattern uses unsupported syntax (look-around, back references, `\p{…}`). */
class UnknownSyntax extends Error {}

/**
 * A short text that matches a regular expression, built from the pattern itself: the expression is never run, so a
 * hostile one costs nothing. `repeats` is the number of repetitions of an open-ended part (`+`, `*`, `{2,}`). Undefined
 * for a pattern with look-around, back references or other unsupported syntax.
 */
export function samplePattern(pattern: string, repeats: number): string | undefined {
  try {
    return new PatternReader(pattern, repeats).read();
  } catch (error) {
    if (error instanceof UnknownSyntax) return undefined;
    throw error;
  }
}

class PatternReader {
  readonly #pattern: string;
  readonly #repeats: number;
  #at = 0;
  #depth = 0;

  constructor(pattern: string, repeats: number) {
    this.#pattern = pattern;
    this.#repeats = repeats;
  }

  read(): string {
    const text = this.#alternatives();
    if (this.#at < this.#pattern.length) throw new UnknownSyntax();
    return text;
  }

  /** The first alternative; the others are skipped. */
  #alternatives(): string {
    const first = this.#sequence();
    while (this.#peek() === '|') {
      this.#at += 1;
      this.#sequence();
    }
    return first;
  }

  #sequence(): string {
    let text = '';
    for (let next = this.#peek(); next !== '' && next !== '|' && next !== ')'; next = this.#peek()) {
      if (next === '^' || next === '$') {
        this.#at += 1;
        continue;
      }
      const atom = this.#atom();
      const count = this.#quantifier();
      if (atom.length * count + text.length > maxLength) throw new UnknownSyntax();
      text += atom.repeat(count);
    }
    return text;
  }

  #atom(): string {
    const character = this.#take();
    if (character === '(') return this.#group();
    if (character === '[') return this.#characterClass();
    if (character === '.') return 'a';
    if (character === '\\') return this.#escape();
    if ('*+?{'.includes(character)) throw new UnknownSyntax();
    return character;
  }

  #group(): string {
    if (this.#peek() === '?') {
      if (this.#pattern[this.#at + 1] !== ':') throw new UnknownSyntax();
      this.#at += 2;
    }
    this.#depth += 1;
    if (this.#depth > maxDepth) throw new UnknownSyntax();
    const text = this.#alternatives();
    if (this.#take() !== ')') throw new UnknownSyntax();
    this.#depth -= 1;
    return text;
  }

  #escape(): string {
    const letter = this.#peek();
    const first = escapedClasses[letter]?.[0];
    const outside = escapedComplements[letter];
    if (first === undefined && outside === undefined) return this.#escapedCharacter();
    this.#at += 1;
    return outside ?? String.fromCodePoint((first as CodeRange).from);
  }

  #escapedCharacter(): string {
    const letter = this.#take();
    const control = controlEscapes[letter];
    if (control !== undefined) return control;
    if (letter === 'x' || letter === 'u') {
      const hex = this.#pattern.slice(this.#at, this.#at + (letter === 'x' ? 2 : 4));
      if (!/^[0-9a-fA-F]+$/.test(hex)) throw new UnknownSyntax();
      this.#at += hex.length;
      return String.fromCharCode(parseInt(hex, 16));
    }
    if (/[a-zA-Z0-9]/.test(letter)) throw new UnknownSyntax();
    return letter;
  }

  #characterClass(): string {
    const negated = this.#peek() === '^';
    if (negated) this.#at += 1;
    const ranges: CodeRange[] = [];
    while (this.#peek() !== ']') ranges.push(...this.#classItem());
    this.#at += 1;
    if (!negated) {
      const first = ranges[0];
      if (first === undefined) throw new UnknownSyntax();
      return String.fromCodePoint(first.from);
    }
    for (let code = 32; code < 127; code++) {
      // Letters before punctuation: people read the sample.
      const candidate = 32 + ((code - 32 + 65) % 95);
      if (!ranges.some((range) => candidate >= range.from && candidate <= range.to)) {
        return String.fromCodePoint(candidate);
      }
    }
    throw new UnknownSyntax();
  }

  #classItem(): readonly CodeRange[] {
    const known = this.#peek() === '\\' ? escapedClasses[this.#pattern[this.#at + 1] ?? ''] : undefined;
    if (known !== undefined) {
      this.#at += 2;
      return known;
    }
    const from = this.#classCharacter();
    const next = this.#pattern[this.#at + 1];
    if (this.#peek() !== '-' || next === undefined || next === ']') return [{ from, to: from }];
    this.#at += 1;
    const to = this.#classCharacter();
    if (to < from) throw new UnknownSyntax();
    return [{ from, to }];
  }

  #classCharacter(): number {
    const character = this.#take();
    return (character === '\\' ? this.#escapedCharacter() : character).codePointAt(0) as number;
  }

  #quantifier(): number {
    const [least, most] = this.#bounds();
    if (this.#peek() === '?') this.#at += 1;
    if (least > maxLength) throw new UnknownSyntax();
    return Math.max(least, Math.min(this.#repeats, most));
  }

  #bounds(): [least: number, most: number] {
    const sign = this.#peek();
    if (sign === '*' || sign === '+') {
      this.#at += 1;
      return [sign === '+' ? 1 : 0, Infinity];
    }
    if (sign === '?') {
      this.#at += 1;
      return [0, 0];
    }
    if (sign !== '{') return [1, 1];
    const end = this.#pattern.indexOf('}', this.#at);
    const found = end < 0 ? null : /^(\d{1,6})(,?)(\d{0,6})$/.exec(this.#pattern.slice(this.#at + 1, end));
    if (found === null) throw new UnknownSyntax();
    this.#at = end + 1;
    const least = Number(found[1]);
    if (found[2] === '') return [least, least];
    return [least, found[3] === '' ? Infinity : Number(found[3])];
  }

  #peek(): string {
    return this.#pattern[this.#at] ?? '';
  }

  #take(): string {
    const code = this.#pattern.codePointAt(this.#at);
    if (code === undefined) throw new UnknownSyntax();
    const character = String.fromCodePoint(code);
    this.#at += character.length;
    return character;
  }
}
