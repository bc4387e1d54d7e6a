import { descend, type PathRule, type PathState } from './json-path.ts';

/** A text within a document, subject to patterns. */
export interface Leaf {
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
export interface Scan {
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
export function scanJson(text: string, rules: readonly PathRule[], collects: boolean): Scan {
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
