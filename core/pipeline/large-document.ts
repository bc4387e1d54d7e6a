import type { JsonObject, JsonPath, JsonValue, Replacement } from './context.ts';
import { removeAt, replaceAllAt, setAt } from './json-splice.ts';
import { type JsonBounds, JsonReading, type LargeValue, type MemberSpan } from './json-guard.ts';
import type { GatewayError } from '../errors/gateway-error.ts';
import { ownTurn } from '../base/turns.ts';
import { parseJson, writeJson } from '../base/json.ts';

/** Longer bodies are read in pieces; reading a shorter one takes about a millisecond. */
export const largeBytes = 262_144;
/** Bytes that are checked at once. */
const checkedBytes = 524_288;
/** Bytes of a long string that are decoded at once. */
const stringPiece = 262_144;
/** After this time the event loop gets a turn. */
const pieceMs = 2;

const quote = 34;
const openList = 91;
const backslash = 92;
const closeList = 93;
const closeObject = 125;
const letterU = 117;

/** Result of reading a large JSON object or list. */
interface LargeReading {
  readonly refused: GatewayError | undefined;
  /** Undefined where the bytes are not JSON. */
  readonly json: JsonValue | undefined;
  /** Where `json` is an object: changes single members without rewriting the rest. */
  readonly document: LargeDocument | undefined;
}

/**
 * Checks and parses a large JSON object or list as `jsonRefusal` and `parseJson` do, in pieces of a few milliseconds
 * between which the event loop gets a turn.
 */
export async function readLargeJson(bytes: Buffer, bounds: JsonBounds): Promise<LargeReading> {
  const reading = new JsonReading(bytes, bounds, true);
  await ownTurn();
  for (let until = checkedBytes; !reading.readTo(until); until += checkedBytes) await ownTurn();
  const { refused, root, topMembers } = reading;
  if (refused !== undefined) return { refused, json: undefined, document: undefined };
  const json = root === undefined ? undefined : await new PieceReader(bytes).document(root);
  const isObject = typeof json === 'object' && json !== null && !Array.isArray(json);
  const document = isObject ? LargeDocument.read(bytes, json, topMembers) : undefined;
  return { refused: undefined, json, document };
}

/** A piece is not JSON. */
class NoJson extends Error {}

/** Items of a list that grows: millions in one would be copied each time that it has grown by half. */
const partItems = 32_768;
/** A shorter text is as cheap to move as a reference to a part of another. */
const longText = 100;
/** Characters of texts that are joined to one. V8 never moves a string of more than 128 KiB. */
const sharedTexts = 262_144;

/**
 * Makes the texts of a document parts of a few long ones. A garbage collection moves whatever is new and alive, all in
 * one turn of the event loop: of the texts of 10 MB this takes some 10 ms, of references to their parts a third of it.
 */
class SharedTexts {
  private holders: Holder[] = [];
  private names: (string | number)[] = [];
  private texts: string[] = [];
  private length = 0;

  /** Takes the long texts at and below that place, which must not move in `holder` from now on. */
  take(holder: Holder, name: string | number): void {
    const value = valueAt(holder, name);
    if (typeof value === 'string') this.takeText(holder, name, value);
    else if (typeof value === 'object' && value !== null) this.takeBelow(value);
    if (this.length >= sharedTexts) this.share();
  }

  /** Replaces the texts that were taken since the last time. */
  share(): void {
    const { holders, names, texts } = this;
    const shared = texts.join('');
    let from = 0;
    for (let i = 0; i < texts.length; i += 1) {
      const to = from + (texts[i] as string).length;
      setValueAt(holders[i] as Holder, names[i] as string | number, shared.slice(from, to));
      from = to;
    }
    this.holders = [];
    this.names = [];
    this.texts = [];
    this.length = 0;
  }

  private takeBelow(whole: Holder): void {
    // No recursion: an operator may allow any depth.
    const waiting = [whole];
    for (let holder = waiting.pop(); holder !== undefined; holder = waiting.pop()) {
      const names = Array.isArray(holder) ? holder.keys() : Object.keys(holder);
      for (const name of names) {
        const value = valueAt(holder, name);
        if (typeof value === 'string') this.takeText(holder, name, value);
        else if (typeof value === 'object' && value !== null) waiting.push(value);
      }
    }
  }

  private takeText(holder: Holder, name: string | number, text: string): void {
    if (text.length < longText || text.length > sharedTexts) return;
    this.holders.push(holder);
    this.names.push(name);
    this.texts.push(text);
    this.length += text.length;
  }
}

type Holder = JsonValue[] | Record<string, JsonValue>;

function valueAt(holder: Holder, name: string | number): JsonValue | undefined {
  return Array.isArray(holder) ? holder[name as number] : holder[name];
}

function setValueAt(holder: Holder, name: string | number, value: JsonValue): void {
  if (Array.isArray(holder)) holder[name as number] = value;
  else holder[name] = value;
}

class PieceReader {
  private readonly bytes: Buffer;
  private readonly texts = new SharedTexts();
  private since = performance.now();

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** Undefined where the bytes are not JSON. */
  async document(root: LargeValue): Promise<JsonValue | undefined> {
    const { bytes } = this;
    if (!isSpace(bytes, 0, root.start) || !isSpace(bytes, root.end, bytes.length)) return undefined;
    try {
      const whole = await this.value(root);
      this.texts.share();
      return whole;
    } catch (error) {
      if (error instanceof NoJson) return undefined;
      throw error;
    }
  }

  private async value(large: LargeValue): Promise<JsonValue> {
    const first = this.bytes[large.start];
    if (first === quote) return this.string(large);
    return first === openList ? this.list(large) : this.object(large);
  }

  private async list(large: LargeValue): Promise<JsonValue[]> {
    let part: JsonValue[] = [];
    const parts = [part];
    await this.pieces(large, closeList, async (inside, inner) => {
      const items = parseJson(`[${inside}]`);
      if (!Array.isArray(items)) throw new NoJson();
      if (part.length >= partItems) parts.push((part = []));
      const hasText = inside.includes('"');
      for (const item of items) {
        part.push(item);
        if (hasText) this.texts.take(part, part.length - 1);
      }
      if (inner !== undefined) part[part.length - 1] = await this.value(inner);
      return items.length;
    });
    if (parts.length === 1) return part;
    this.texts.share();
    return ([] as JsonValue[]).concat(...parts);
  }

  private async object(large: LargeValue): Promise<Record<string, JsonValue>> {
    const whole: Record<string, JsonValue> = {};
    await this.pieces(large, closeObject, async (inside, inner) => {
      const members = parseJson(`{${inside}}`);
      if (typeof members !== 'object' || members === null || Array.isArray(members)) throw new NoJson();
      const names = Object.keys(members);
      for (const name of names) {
        define(whole, name, members[name] as JsonValue);
        this.texts.take(whole, name);
      }
      if (inner !== undefined) define(whole, this.nameBefore(inner.start), await this.value(inner));
      return names.length;
    });
    return whole;
  }

  /** Hands on the text of each piece, with `null` for the large value at its end. `add` returns its number of members. */
  private async pieces(
    { start, end, cuts, inner }: LargeValue,
    close: number,
    add: (inside: string, inner: LargeValue | undefined) => Promise<number>,
  ): Promise<void> {
    const { bytes } = this;
    if (bytes[end - 1] !== close) throw new NoJson();
    let from = start + 1;
    for (let i = 0; i <= cuts.length; i += 1) {
      const to = cuts[i] ?? end - 1;
      const large = inner[i];
      const inside =
        large === undefined
          ? bytes.toString('utf8', from, to)
          : `${bytes.toString('utf8', from, large.start)}null${bytes.toString('utf8', large.end, to)}`;
      const count = await add(inside, large);
      // Two commas in a row, or one before the end.
      if (count === 0 && cuts.length > 0) throw new NoJson();
      from = to + 1;
      await this.othersTurn();
    }
  }

  /** The name of the member whose value begins there. */
  private nameBefore(valueStart: number): string {
    const { bytes } = this;
    let end = valueStart - 1;
    while (end > 0 && bytes[end] !== quote) end -= 1;
    let start = end - 1;
    for (; start > 0; start -= 1) if (bytes[start] === quote && !isEscaped(bytes, start)) break;
    const name = parseJson(bytes.toString('utf8', start, end + 1));
    if (typeof name !== 'string') throw new NoJson();
    return name;
  }

  private async string({ start, end }: LargeValue): Promise<string> {
    const { bytes } = this;
    let text = '';
    for (let from = start + 1; from < end - 1;) {
      const to = betweenCharacters(bytes, from, Math.min(from + stringPiece, end - 1), end - 1);
      text += decodedString(bytes.toString('utf8', from, to));
      from = to;
      await this.othersTurn();
    }
    return text;
  }

  private async othersTurn(): Promise<void> {
    if (performance.now() - this.since < pieceMs) return;
    await ownTurn();
    this.since = performance.now();
  }
}

function decodedString(inside: string): string {
  try {
    return JSON.parse(`"${inside}"`) as string;
  } catch {
    throw new NoJson();
  }
}

/** `__proto__` is a name like any other. */
function define(object: Record<string, JsonValue>, name: string, value: JsonValue): void {
  if (name === '__proto__')
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  else object[name] = value;
}

function isEscaped(bytes: Buffer, at: number): boolean {
  let slashes = 0;
  while (bytes[at - 1 - slashes] === backslash) slashes += 1;
  return slashes % 2 === 1;
}

/** The next place at or before `at` that splits neither a character nor an escape. */
function betweenCharacters(bytes: Buffer, from: number, at: number, end: number): number {
  if (at === end) return end;
  let place = at;
  while (place > from && place > at - 3 && ((bytes[place] as number) & 0xc0) === 0x80) place -= 1;
  // An escape is a backslash and one character, or `u` and four digits.
  for (let back = 1; back <= 5 && place - back >= from; back += 1) {
    if (bytes[place - back] !== backslash || isEscapedFrom(bytes, from, place - back)) continue;
    const length = bytes[place - back + 1] === letterU ? 6 : 2;
    return length > back ? place - back : place;
  }
  return place;
}

/** The same as `isEscaped` for a place in a string that is read from `from` on. */
function isEscapedFrom(bytes: Buffer, from: number, at: number): boolean {
  let slashes = 0;
  while (at - 1 - slashes >= from && bytes[at - 1 - slashes] === backslash) slashes += 1;
  return slashes % 2 === 1;
}

function isSpace(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at];
    if (byte !== 32 && byte !== 10 && byte !== 13 && byte !== 9) return false;
  }
  return true;
}

/** A body that may be kept as such a document. */
export interface MayBeLarge {
  /** Set where it is a large object: changing it writes no more than it has to. */
  readonly large?: LargeDocument | undefined;
}

/** A member of the document, and its change. */
interface Member {
  readonly span: MemberSpan;
  /** Bytes of its value now; undefined for those that were received. */
  readonly value: Buffer | undefined;
  readonly isRemoved: boolean;
}

/**
 * A large JSON object whose single members can change: only they are written, the rest stays the received bytes.
 * Each change makes another document and leaves this one as it is.
 */
export class LargeDocument {
  readonly json: JsonObject;
  private readonly source: Buffer;
  private readonly members: readonly Member[];
  /** New members, as they are written. */
  private readonly added: ReadonlyMap<string, Buffer>;
  private joined: Buffer | undefined;
  private decoded: string | undefined;

  private constructor(
    source: Buffer,
    json: JsonObject,
    members: readonly Member[],
    added: ReadonlyMap<string, Buffer>,
  ) {
    this.source = source;
    this.json = json;
    this.members = members;
    this.added = added;
  }

  /** `json` is the parsed `source`, `spans` are its members. */
  static read(source: Buffer, json: JsonObject, spans: readonly MemberSpan[]): LargeDocument {
    const members = spans.map((span) => ({ span, value: undefined, isRemoved: false }));
    const document = new LargeDocument(source, json, members, new Map());
    document.joined = source;
    return document;
  }

  get bytes(): Buffer {
    this.joined ??= Buffer.concat(this.pieces());
    return this.joined;
  }

  get text(): string {
    this.decoded ??= this.bytes.toString('utf8');
    return this.decoded;
  }

  /** As `setAt` of `json-splice.ts`. Throws a `RangeError` when a parent of the place does not exist. */
  set(path: JsonPath, value: JsonValue): LargeDocument {
    const [name, ...rest] = path;
    if (typeof name !== 'string') throw new RangeError(`Cannot set /${path.join('/')}: this is an object.`);
    const written =
      rest.length === 0
        ? Buffer.from(writeJson(value), 'utf8')
        : this.edited(name, [rest], (text, write) => setAt(text, rest, value, write));
    return this.withMember(name, written, withValueAt(this.json, path, value) as JsonObject);
  }

  /** As `replaceAllAt` of `json-splice.ts`. */
  replaceAll(replacements: readonly Replacement[]): LargeDocument {
    const byName = new Map<string, Replacement[]>();
    for (const { path, value } of replacements) {
      const [name, ...rest] = path;
      if (typeof name !== 'string' || !Object.hasOwn(this.json, name))
        throw new RangeError(`Cannot replace /${path.join('/')}: it is missing.`);
      const ofName = byName.get(name) ?? [];
      ofName.push({ path: rest, value });
      byName.set(name, ofName);
    }
    return [...byName].reduce<LargeDocument>((document, [name, inside]) => {
      const whole = inside.length === 1 && inside[0]?.path.length === 0 ? inside[0] : undefined;
      const paths = inside.map(({ path }) => path);
      const written =
        whole === undefined
          ? document.edited(name, paths, (text, write) => replaceAllAt(text, inside, write))
          : Buffer.from(writeJson(whole.value), 'utf8');
      const json = inside.reduce<JsonValue>(
        (tree, { path, value }) => withValueAt(tree, [name, ...path], value),
        document.json,
      );
      return document.withMember(name, written, json as JsonObject);
    }, this);
  }

  /** As `removeAt` of `json-splice.ts`; this document itself when there is nothing to remove. */
  remove(path: JsonPath): LargeDocument {
    const [name, ...rest] = path;
    if (typeof name !== 'string' || !Object.hasOwn(this.json, name)) return this;
    if (rest.length > 0) {
      const before = this.valueOf(name);
      const written = this.edited(name, [rest], (text) => removeAt(text, rest));
      return written.length === before.length
        ? this
        : this.withMember(name, written, withoutValueAt(this.json, path) as JsonObject);
    }
    const added = new Map(this.added);
    added.delete(name);
    const members = this.members.map((one) => (one.span.name === name ? { ...one, isRemoved: true } : one));
    return new LargeDocument(this.source, withoutValueAt(this.json, path) as JsonObject, members, added);
  }

  /**
   * The value of a member, changed within. Its text has one character for each byte, which is made in a fraction of the
   * time of the real one; names beyond ASCII need that.
   */
  private edited(
    name: string,
    paths: readonly JsonPath[],
    edit: (text: string, write: (value: JsonValue) => string) => string,
  ): Buffer {
    const bytes = this.valueOf(name);
    const isPlain = paths.every((path) => path.every((step) => typeof step === 'number' || isAscii(step)));
    if (!isPlain) return Buffer.from(edit(bytes.toString('utf8'), writeJson), 'utf8');
    const write = (value: JsonValue): string => Buffer.from(writeJson(value), 'utf8').toString('latin1');
    return Buffer.from(edit(bytes.toString('latin1'), write), 'latin1');
  }

  /** The bytes of a member's value now. Throws a `RangeError` when there is no such member. */
  private valueOf(name: string): Buffer {
    const added = this.added.get(name);
    if (added !== undefined) return added;
    const member = this.members.find(({ span, isRemoved }) => span.name === name && !isRemoved);
    if (member === undefined) throw new RangeError(`Cannot set a value within "${name}": it is missing.`);
    const { span, value } = member;
    return value ?? this.source.subarray(span.valueStart, span.end);
  }

  private withMember(name: string, value: Buffer, json: JsonObject): LargeDocument {
    const at = this.members.findIndex(({ span, isRemoved }) => span.name === name && !isRemoved);
    const member = this.members[at];
    if (member === undefined)
      return new LargeDocument(this.source, json, this.members, new Map(this.added).set(name, value));
    const members = [...this.members];
    members[at] = { ...member, value };
    return new LargeDocument(this.source, json, members, this.added);
  }

  private pieces(): Buffer[] {
    const { source, members } = this;
    const first = members[0]?.span.start ?? source.lastIndexOf('}');
    const pieces = [source.subarray(0, first)];
    let end = first;
    let isFirst = true;
    // The bytes between a member and the next are kept for its new successor.
    let gap: Buffer | undefined;
    members.forEach(({ span, value, isRemoved }, index) => {
      end = span.end;
      if (isRemoved) return;
      if (!isFirst && gap !== undefined) pieces.push(gap);
      if (value === undefined) pieces.push(source.subarray(span.start, span.end));
      else pieces.push(source.subarray(span.start, span.valueStart), value);
      isFirst = false;
      gap = source.subarray(span.end, members[index + 1]?.span.start ?? span.end);
    });
    for (const [name, value] of this.added) {
      pieces.push(Buffer.from(`${isFirst ? '' : ','}${JSON.stringify(name)}:`), value);
      isFirst = false;
    }
    pieces.push(source.subarray(end));
    return pieces;
  }
}

function isAscii(text: string): boolean {
  return !/[\u0080-\uffff]/.test(text);
}

/** The document with one value replaced or added; everything beside the path is shared with the given one. */
export function withValueAt(json: JsonValue | undefined, path: JsonPath, value: JsonValue): JsonValue {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  if (Array.isArray(json)) {
    const index = Number(step);
    const copy = [...json];
    copy[index] = withValueAt(json[index], rest, value);
    return copy;
  }
  const object = typeof json === 'object' && json !== null ? json : {};
  return { ...object, [step]: withValueAt(object[step], rest, value) };
}

/** The document without one value, which must be there. */
function withoutValueAt(json: JsonValue | undefined, path: JsonPath): JsonValue {
  const [step, ...rest] = path;
  if (Array.isArray(json)) {
    const index = Number(step);
    if (rest.length > 0) return json.with(index, withoutValueAt(json[index], rest));
    return json.toSpliced(index, 1);
  }
  const object = { ...(json as JsonObject) };
  const name = String(step);
  if (rest.length > 0) object[name] = withoutValueAt(object[name], rest);
  else Reflect.deleteProperty(object, name);
  return object;
}
