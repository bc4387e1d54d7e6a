/**
 * Where things stand in a text of YAML that is being written, and so need not be valid: blocks by their indents, flow
 * collections by their brackets. Tags, anchors and keys that are no plain or quoted word on one line are passed over.
 */

type Place = readonly (string | number)[];

/** A name before a colon (`isName`) or a scalar, with the names and indexes that lead to it. */
export interface YamlEntry {
  readonly place: Place;
  readonly isName: boolean;
  /** Without its quotes. */
  readonly text: string;
  /** Offsets, quotes included. */
  readonly from: number;
  readonly to: number;
}

/** What may be written at the end of a text. */
export interface YamlSlot {
  /** The collection or the value that it would be part of. */
  readonly place: Place;
  /** A name of a member of `place`, its value, or either of them. */
  readonly takes: 'name' | 'value' | 'both';
  readonly isFlow: boolean;
  /** Column of a name that is written there, from 0. */
  readonly indent: number;
}

interface Frame {
  readonly kind: 'map' | 'list';
  readonly isFlow: boolean;
  /** Column of its names or dashes; of a flow collection, that of its line. */
  readonly indent: number;
  /** The member that is being read. */
  name: string | undefined;
  index: number;
}

/** The last token: the start of its line, a colon, a dash, or a word. */
type Last = 'start' | 'colon' | 'dash' | 'word';

const nameBeforeColon =
  /("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"'#,{}[\]&*!|>%@`-][^\n]*?|-[^\s][^\n]*?)[ \t]*:(?=\s|$)/y;
const quoted = /"(?:[^"\\\n]|\\.)*(?:"|$)|'[^'\n]*(?:'|$)/my;
const plainInBlock = /(?:[^\s#]|(?<=\S)#)(?:[^\n#]|(?<=\S)#)*/y;
const plainInFlow =
  /(?:[^\s,[\]{}:#]|:(?![\s,[\]{}]|$)|(?<=\S)#)+(?:[ \t]+(?:[^\s,[\]{}:#]|:(?![\s,[\]{}]|$)|(?<=\S)#)+)*/my;
const blockText = /[|>][-+\d]*[ \t]*(?:#[^\n]*)?(?=\n|$)/y;
const properties = /(?:[&!][^\s,[\]{}]*[ \t]+)+/y;

/** Every name and scalar of a text, in their order. */
export function yamlEntries(text: string): readonly YamlEntry[] {
  return new Scanner(text).run().entries;
}

/** What may be written at the end of a text; undefined in a comment, in a text of its own, or after a word. */
export function yamlSlot(text: string): YamlSlot | undefined {
  return new Scanner(text).run().slot();
}

class Scanner {
  readonly entries: YamlEntry[] = [];
  readonly #text: string;
  readonly #frames: Frame[] = [];
  #at = 0;
  #lineStart = 0;
  #last: Last = 'start';
  /** The text ends in a comment, or in a text of more than one line. */
  #isWithin = false;
  /** Indent of the name whose text of more than one line follows. */
  #blockOf: number | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  run(): this {
    while (this.#at < this.#text.length) {
      if (this.#text[this.#at] === '\n') this.#newLine();
      else if (/[ \t\r]/.test(this.#text[this.#at] ?? '')) this.#at += 1;
      else if (this.#text[this.#at] === '#' && /^\s?$/.test(this.#text[this.#at - 1] ?? '')) this.#comment();
      else if (this.#top?.isFlow === true) this.#flow();
      else this.#block();
    }
    return this;
  }

  slot(): YamlSlot | undefined {
    if (this.#isWithin || this.#last === 'word') return undefined;
    const column = this.#text.length - this.#lineStart;
    const top = this.#top;
    if (top?.isFlow === true) {
      const { kind, name, indent } = top;
      const takes = kind === 'list' ? 'both' : name === undefined ? 'name' : 'value';
      return { place: this.#place(), takes, isFlow: true, indent };
    }
    if (this.#last === 'colon')
      return { place: this.#place(), takes: 'value', isFlow: false, indent: column };
    if (this.#blockOf !== undefined && column > this.#blockOf) return undefined;
    if (this.#last === 'dash') return { place: this.#place(), takes: 'both', isFlow: false, indent: column };
    while (this.#top !== undefined && this.#top.indent > column) this.#frames.pop();
    // A list may stand below its name without an indent.
    if (this.#top?.kind === 'list' && this.#frames.at(-2)?.indent === column) this.#frames.pop();
    const holder = this.#top;
    if (holder?.kind === 'list') return undefined;
    if (holder !== undefined && holder.indent === column) holder.name = undefined;
    return { place: this.#place(), takes: 'name', isFlow: false, indent: column };
  }

  get #top(): Frame | undefined {
    return this.#frames.at(-1);
  }

  #place(): Place {
    return this.#frames.flatMap(({ kind, name, index }): Place =>
      kind === 'list' ? [index] : name === undefined ? [] : [name],
    );
  }

  #newLine(): void {
    this.#at += 1;
    this.#lineStart = this.#at;
    if (this.#top?.isFlow === true) return;
    this.#last = 'start';
    const indent = this.#blockOf;
    if (indent === undefined) return;
    const end = this.#text.indexOf('\n', this.#at);
    const line = this.#text.slice(this.#at, end === -1 ? undefined : end);
    const isDeeper = /^ */.exec(line)?.[0].length ?? 0;
    if (line.trim() !== '' && isDeeper <= indent) this.#blockOf = undefined;
    else if (line.trim() !== '') {
      this.#at += line.length;
      this.#isWithin = this.#at === this.#text.length;
    }
  }

  #comment(): void {
    const end = this.#text.indexOf('\n', this.#at);
    this.#isWithin = end === -1;
    this.#at = end === -1 ? this.#text.length : end;
  }

  #found(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#text);
  }

  #entry(found: string, isName: boolean): void {
    const from = this.#at;
    const text = unquoted(found.trimEnd());
    this.entries.push({ place: this.#place(), isName, text, from, to: from + found.trimEnd().length });
  }

  #block(): void {
    const column = this.#at - this.#lineStart;
    if (this.#last === 'start')
      while (this.#top !== undefined && this.#top.indent > column) this.#frames.pop();
    const dash = this.#text[this.#at] === '-' && /^\s?$/.test(this.#text[this.#at + 1] ?? '');
    if (dash && this.#last !== 'colon') {
      const top = this.#top;
      if (top?.kind === 'list' && top.indent === column) top.index += 1;
      else this.#open('list', false, column);
      this.#at += 1;
      this.#last = 'dash';
      return;
    }
    const skipped = this.#found(properties);
    if (skipped !== null && this.#last !== 'start') {
      this.#at += skipped[0].length;
      return;
    }
    const named = this.#last === 'colon' ? null : this.#found(nameBeforeColon);
    if (named !== null) {
      const [whole, name = ''] = named;
      if (this.#top?.kind === 'list' && this.#top.indent === column) this.#frames.pop();
      if (this.#top?.kind !== 'map' || this.#top.indent !== column) this.#open('map', false, column);
      this.#name(name, whole.length);
      return;
    }
    const opening = this.#text[this.#at];
    if (opening === '{' || opening === '[') return this.#flow();
    const block = this.#found(blockText);
    if (block !== null) {
      this.#blockOf = this.#top?.indent ?? 0;
      this.#at += block[0].length;
      this.#last = 'word';
      return;
    }
    this.#word(plainInBlock);
  }

  #flow(): void {
    const sign = this.#text[this.#at];
    const top = this.#top;
    if (sign === '{' || sign === '[') {
      this.#open(sign === '{' ? 'map' : 'list', true, this.#indentOfLine());
      this.#last = 'start';
    } else if (sign === '}' || sign === ']') {
      this.#frames.pop();
      this.#last = 'word';
    } else if (sign === ',' && top !== undefined) {
      top.index += 1;
      top.name = undefined;
      this.#last = 'start';
    } else if (sign === ':') {
      const before = this.entries.at(-1);
      if (top?.kind === 'map' && before !== undefined && this.#last === 'word') {
        this.entries[this.entries.length - 1] = { ...before, isName: true };
        top.name = before.text;
      }
      this.#last = 'colon';
    } else return this.#word(plainInFlow);
    this.#at += 1;
  }

  #word(plain: RegExp): void {
    const found = this.#found(quoted) ?? this.#found(plain);
    const word = found?.[0] ?? '';
    if (word !== '') this.#entry(word, false);
    this.#at += Math.max(1, word.length);
    this.#last = 'word';
  }

  #name(name: string, length: number): void {
    const top = this.#top;
    if (top === undefined) return;
    top.name = undefined;
    this.#entry(name, true);
    top.name = unquoted(name);
    this.#at += length;
    this.#last = 'colon';
  }

  #open(kind: Frame['kind'], isFlow: boolean, indent: number): void {
    this.#frames.push({ kind, isFlow, indent, name: undefined, index: 0 });
  }

  #indentOfLine(): number {
    return /^ */.exec(this.#text.slice(this.#lineStart, this.#at))?.[0].length ?? 0;
  }
}

function unquoted(text: string): string {
  const [, double, single] = /^(?:"([^]*?)"?|'([^]*?)'?)$/.exec(text) ?? [];
  return double ?? single ?? text;
}
