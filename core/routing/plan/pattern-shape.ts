/** What a regular expression is made of, as far as its running time hangs on it. */
export type PatternShape =
  /** One character of a set: a bit for each of the first 128, and one for all others. */
  | { readonly kind: 'set'; readonly chars: bigint }
  /** No character, and none before it: `^`. */
  | { readonly kind: 'start' }
  /** No character: `\b`. */
  | { readonly kind: 'edge' }
  /** No character, and none behind it: `$`. */
  | { readonly kind: 'end' }
  /** A look ahead or behind. */
  | { readonly kind: 'look'; readonly body: PatternShape }
  | { readonly kind: 'sequence'; readonly items: readonly PatternShape[] }
  | { readonly kind: 'choice'; readonly options: readonly PatternShape[] }
  | { readonly kind: 'repeat'; readonly body: PatternShape; readonly least: number; readonly most: number };

const otherCharacters = 1n << 128n;
/** Every character. */
export const allCharacters = (1n << 129n) - 1n;

const digits = bits(/\d/);
const word = bits(/\w/);
const space = bits(/\s/) | otherCharacters;
const escapedSets: Readonly<Record<string, bigint>> = {
  d: digits,
  D: allCharacters ^ digits,
  w: word,
  W: allCharacters ^ word,
  s: space,
  S: allCharacters ^ bits(/\s/),
};
const controls: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, '0': 0 };
const quantifier = /(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})\??/y;
const groupStart = /\((?:\?(?::|(<?[=!])|<[^>]+>))?/y;
const numbered = /(?:x([0-9a-f]{2})|u([0-9a-f]{4}))/iy;

/**
 * The shape of an expression that is valid without flags; undefined for one with back-references, octal escapes or
 * groups that change flags, whose running time or meaning nobody can tell from it.
 */
export function patternShape(source: string): PatternShape | undefined {
  const reader = new ShapeReader(source);
  const shape = reader.choice();
  return reader.unknown ? undefined : shape;
}

class ShapeReader {
  unknown = false;
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  choice(): PatternShape {
    const options = [this.#sequence()];
    while (this.#source[this.#at] === '|') {
      this.#at++;
      options.push(this.#sequence());
    }
    const [only] = options;
    return options.length === 1 && only !== undefined ? only : { kind: 'choice', options };
  }

  #sequence(): PatternShape {
    const items: PatternShape[] = [];
    while (this.#at < this.#source.length && !this.unknown) {
      const character = this.#source[this.#at];
      if (character === '|' || character === ')') break;
      items.push(this.#quantified(this.#atom()));
    }
    return { kind: 'sequence', items };
  }

  #quantified(body: PatternShape): PatternShape {
    const found = this.#match(quantifier);
    if (found === undefined) return body;
    const [, sign, low, comma, high] = found;
    if (sign !== undefined) {
      const least = sign === '+' ? 1 : 0;
      return { kind: 'repeat', body, least, most: sign === '?' ? 1 : Number.POSITIVE_INFINITY };
    }
    const least = Number(low);
    const open = comma !== undefined && (high === undefined || high === '');
    return { kind: 'repeat', body, least, most: open ? Number.POSITIVE_INFINITY : Number(high ?? low) };
  }

  #atom(): PatternShape {
    const character = this.#source[this.#at];
    if (character === '(') return this.#group();
    this.#at++;
    switch (character) {
      case '[':
        return { kind: 'set', chars: this.#characterClass() };
      case '\\':
        return this.#escape();
      case '.':
        return { kind: 'set', chars: allCharacters ^ bitOf(10) ^ bitOf(13) };
      case '^':
        return { kind: 'start' };
      case '$':
        return { kind: 'end' };
      default:
        return { kind: 'set', chars: bitOf(this.#source.charCodeAt(this.#at - 1)) };
    }
  }

  #group(): PatternShape {
    const found = this.#match(groupStart);
    const look = found?.[1] !== undefined;
    // `(?` that begins none of the known groups.
    if (found === undefined || this.#source[this.#at] === '?') this.unknown = true;
    const body = this.choice();
    this.#at++;
    return look ? { kind: 'look', body } : body;
  }

  #escape(): PatternShape {
    const character = this.#source[this.#at] ?? '';
    if (character === 'b' || character === 'B') {
      this.#at++;
      return { kind: 'edge' };
    }
    const next = this.#source[this.#at + 1] ?? '';
    if (/[1-9k]/.test(character) || (character === '0' && /\d/.test(next))) this.unknown = true;
    const found = this.#escaped();
    return { kind: 'set', chars: typeof found === 'number' ? bitOf(found) : found };
  }

  /** The character behind a backslash, or the set of those that it may stand for. */
  #escaped(): number | bigint {
    const found = this.#match(numbered);
    if (found !== undefined) return Number.parseInt(found[1] ?? found[2] ?? '', 16);
    const character = this.#source[this.#at] ?? '';
    // Control letters are rare, and what an unfinished one means is rarer.
    if (character === 'c') return allCharacters;
    this.#at++;
    return escapedSets[character] ?? controls[character] ?? character.charCodeAt(0);
  }

  /** The set between brackets, the opening one of which was read. */
  #characterClass(): bigint {
    const negated = this.#source[this.#at] === '^';
    if (negated) this.#at++;
    let chars = 0n;
    while (this.#at < this.#source.length && this.#source[this.#at] !== ']') {
      const from = this.#classMember();
      const ranged = this.#source[this.#at] === '-' && this.#source[this.#at + 1] !== ']';
      if (!ranged) {
        chars |= typeof from === 'number' ? bitOf(from) : from;
        continue;
      }
      this.#at++;
      const to = this.#classMember();
      if (typeof from === 'number' && typeof to === 'number') chars |= rangeOf(from, to);
      else chars |= valueBits(from) | valueBits(to) | bitOf(45);
    }
    this.#at++;
    // Outside the first 128 characters nobody knows which ones are meant, so that a set and its opposite both have them.
    return negated ? (allCharacters ^ chars) | otherCharacters : chars;
  }

  #classMember(): number | bigint {
    const character = this.#source[this.#at] ?? '';
    if (character !== '\\') {
      this.#at++;
      return character.charCodeAt(0);
    }
    this.#at++;
    const escaped = this.#source[this.#at] ?? '';
    if (/[0-9]/.test(escaped)) {
      this.#at++;
      return allCharacters;
    }
    if (escaped === 'b') {
      this.#at++;
      return 8;
    }
    return this.#escaped();
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source);
    if (found === null) return undefined;
    this.#at = pattern.lastIndex;
    return found;
  }
}

function bitOf(code: number): bigint {
  return code < 128 ? 1n << BigInt(code) : otherCharacters;
}

function valueBits(value: number | bigint): bigint {
  return typeof value === 'number' ? bitOf(value) : value;
}

function rangeOf(from: number, to: number): bigint {
  let chars = to >= 128 ? otherCharacters : 0n;
  for (let code = from; code <= Math.min(to, 127); code++) chars |= bitOf(code);
  return chars;
}

function bits(pattern: RegExp): bigint {
  let chars = 0n;
  for (let code = 0; code < 128; code++) if (pattern.test(String.fromCharCode(code))) chars |= bitOf(code);
  return chars;
}
