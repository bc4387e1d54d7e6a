import type { GatewayError } from '../errors/gateway-error.ts';
import { ownTurn } from '../base/turns.ts';
import type { JsonValue } from './context.ts';
import { JsonReading, type JsonBounds, type LargeValue } from './json-guard.ts';
import { LargeDocument } from './large-document.ts';
import { parseJson } from '../base/json.ts';

/** Longer bodies are read in pieces; reading a shorter one takes about a millisecond. */
export const largeBytes = 262_144;
/** Bytes that are checked at once. */
const checkedBytes = 524_288;
/** Bytes of a long string that are decoded at once. */
const stringPiece = 262_144;
/** After so long others have a turn. */
const pieceMs = 4;

const quote = 34;
const openList = 91;
const backslash = 92;
const closeList = 93;
const closeObject = 125;
const letterU = 117;

/** What a large JSON object or list says. */
export interface LargeReading {
  readonly refused: GatewayError | undefined;
  /** Undefined for what is no JSON. */
  readonly json: JsonValue | undefined;
  /** Where `json` is an object: by it single members change without the rest being written anew. */
  readonly document: LargeDocument | undefined;
}

/**
 * Checks and parses a large JSON object or list as `jsonRefusal` and `parseJson` do, in pieces of a few milliseconds
 * between which others have their turn.
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

/** A piece is no JSON. */
class NoJson extends Error {}

class PieceReader {
  private readonly bytes: Buffer;
  private since = performance.now();

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** Undefined for what is no JSON. */
  async document(root: LargeValue): Promise<JsonValue | undefined> {
    const { bytes } = this;
    if (!isSpace(bytes, 0, root.start) || !isSpace(bytes, root.end, bytes.length)) return undefined;
    try {
      return await this.value(root);
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
    const whole: JsonValue[] = [];
    await this.pieces(large, closeList, async (inside, inner) => {
      const items = parseJson(`[${inside}]`);
      if (!Array.isArray(items)) throw new NoJson();
      if (inner !== undefined) items[items.length - 1] = await this.value(inner);
      for (const item of items) whole.push(item);
      return items.length;
    });
    return whole;
  }

  private async object(large: LargeValue): Promise<Record<string, JsonValue>> {
    const whole: Record<string, JsonValue> = {};
    await this.pieces(large, closeObject, async (inside, inner) => {
      const members = parseJson(`{${inside}}`);
      if (typeof members !== 'object' || members === null || Array.isArray(members)) throw new NoJson();
      if (inner !== undefined) define(members, this.nameBefore(inner.start), await this.value(inner));
      const names = Object.keys(members);
      for (const name of names) define(whole, name, members[name] as JsonValue);
      return names.length;
    });
    return whole;
  }

  /** Hands on the text of each piece, with `null` for the large value at its end. `add` tells how many members it had. */
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

/** The next place at or before `at` where neither a character nor an escape is torn. */
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
