import { GatewayError } from '../errors/gateway-error.ts';
import { folded, requestMembers } from './known-members.ts';

type KnownMembers = typeof requestMembers;

/** Bounds of a JSON body, checked on its bytes before they are parsed. */
export interface JsonBounds {
  /** Members of all objects together, and objects and lists themselves. */
  readonly maxMembers: number;
  /** Objects and lists within each other. */
  readonly maxDepth: number;
}

/** Members of one object whose hashes are compared one by one; beyond it they go into a map. */
const fewMembers = 16;
/** Bytes of a string that are looked at one by one; the rest of a longer one is skipped by a search. */
const shortString = 32;

const quote = 34;
const comma = 44;
const openList = 91;
const colon = 58;
const backslash = 92;
const closeList = 93;
const openObject = 123;
const closeObject = 125;

/** Bytes of a document that are parsed at once. */
const pieceBytes = 65_536;
/** A longer string is decoded in pieces, too. */
const longString = 262_144;

/** An object, a list or a string that is too long to be parsed at once. */
export interface LargeValue {
  readonly start: number;
  readonly end: number;
  /** Commas between its own members at which it is split; empty for a string. */
  readonly cuts: readonly number[];
  /** For each piece between them the large value that it ends with. */
  readonly inner: readonly (LargeValue | undefined)[];
}

/** Where a member of the document itself stands. */
export interface MemberSpan {
  readonly name: string;
  /** The first byte of its name, the quote. */
  readonly start: number;
  readonly valueStart: number;
  readonly end: number;
}

/** Notes about one object or list whose end has not come. */
interface Level {
  start: number;
  lastCut: number;
  cuts: number[];
  inner: (LargeValue | undefined)[];
  /** The large value that came last. */
  pending: LargeValue | undefined;
}

/** One object whose end has not come. */
interface OpenObject {
  /** Where its members begin in the list of keys. */
  readonly from: number;
  /** Places in the list of keys by hash, once there are more than a few. */
  places: Map<number, number> | undefined;
  /** Instead of both, where a name has several spellings or two names have one hash. */
  names: Set<string> | undefined;
  /** Undefined where members may have any names. */
  readonly known: KnownMembers | undefined;
}

/**
 * The refusal of a JSON body that two parsers would read differently, or that takes too long to read: a duplicate
 * member, another spelling of a member that rules read, too many members, too deep a nesting. Undefined for all others,
 * and for anything but a JSON object or list, which is checked elsewhere.
 */
export function jsonRefusal(bytes: Uint8Array, bounds: JsonBounds): GatewayError | undefined {
  if (!beginsDocument(bytes)) return undefined;
  const reading = new JsonReading(bytes, bounds, false);
  reading.readTo(bytes.length);
  return reading.refused;
}

/** The bytes begin like a JSON object or list. */
export function beginsDocument(bytes: Uint8Array): boolean {
  const first = firstByte(bytes);
  return first === openObject || first === openList;
}

function firstByte(bytes: Uint8Array): number | undefined {
  let at = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  while (at < bytes.length && (bytes[at] as number) <= 32) at += 1;
  return bytes[at];
}

/**
 * Walks over the bytes of a JSON object or list, step by step, and finds the reason to refuse it. `takesNotes`: also
 * finds the places where a long document can be split.
 */
export class JsonReading {
  refused: GatewayError | undefined;
  /** The document; undefined before its end, and for one that is not large. */
  root: LargeValue | undefined;
  /** Of the document, where it is an object and notes are taken. */
  readonly topMembers: MemberSpan[] = [];
  private readonly bytes: Uint8Array;
  private readonly bounds: JsonBounds;
  private readonly takesNotes: boolean;
  private at = 0;
  private takesKey = false;
  /** Where the search for the end of a long string goes on; 0 outside of one. */
  private stringFrom = 0;
  /** By depth. */
  private readonly levels: Level[] = [];
  private topMember: { name: string; start: number; nameEnd: number } | undefined;
  /** Undefined for a list. */
  private readonly open: (OpenObject | undefined)[] = [];
  /** Known members of each open object; of each open list, those of the objects in it. */
  private readonly shapes: (KnownMembers | undefined)[] = [];
  /** The same for the value of the last member, in an object with known members. */
  private below: KnownMembers | undefined;
  /** `below` holds only for objects in a list. */
  private belowInLists = false;
  /** Hash, start and end of each member of the objects that are open. */
  private readonly keys: number[] = [];
  private members = 0;

  constructor(bytes: Uint8Array, bounds: JsonBounds, takesNotes: boolean) {
    this.bytes = bytes;
    this.bounds = bounds;
    this.takesNotes = takesNotes;
  }

  /** Continues up to that byte. True when it is done, with the document or with a refusal. */
  readTo(until: number): boolean {
    const { bytes, open, bounds, takesNotes } = this;
    let { at, takesKey } = this;
    for (; at < bytes.length; at += 1) {
      if (at > until) break;
      const byte = bytes[at] as number;
      if (byte === quote) {
        const end = this.endOfString(at + 1, until);
        if (end === -1) break;
        if (takesKey) {
          this.refused = this.addKey(at + 1, end);
          if (this.refused !== undefined) return true;
          takesKey = false;
        } else if (takesNotes && end - at > longString) this.noteString(at, end + 1);
        at = end;
      } else if (byte === comma) {
        takesKey = open.length > 0 && open[open.length - 1] !== undefined;
        if (takesNotes) this.noteComma(at);
      } else if (byte === openObject || byte === openList) {
        takesKey = byte === openObject;
        const known = this.knownHere(takesKey);
        this.shapes.push(known);
        open.push(
          takesKey ? { from: this.keys.length, places: undefined, names: undefined, known } : undefined,
        );
        if (takesNotes) this.noteOpen(at);
        this.members += 1;
        this.refused = open.length > bounds.maxDepth ? this.tooDeep() : this.tooManyOrNot();
        if (this.refused !== undefined) return true;
      } else if (byte === closeObject || byte === closeList) {
        if (takesNotes) this.noteClose(at);
        const closed = open.pop();
        this.shapes.pop();
        if (closed !== undefined) this.keys.length = closed.from;
        takesKey = false;
      }
    }
    this.at = at;
    this.takesKey = takesKey;
    return at >= bytes.length;
  }

  /** Known members of the object or list that opens now. */
  private knownHere(isObject: boolean): KnownMembers | undefined {
    const { open, shapes } = this;
    const depth = open.length;
    if (depth === 0) return isObject ? requestMembers : undefined;
    const outer = shapes[depth - 1];
    if (outer === undefined || open[depth - 1] === undefined) return outer;
    return isObject && this.belowInLists ? undefined : this.below;
  }

  private noteOpen(at: number): void {
    const depth = this.open.length - 1;
    const level = this.levels[depth];
    if (level === undefined) {
      this.levels.push({ start: at, lastCut: at, cuts: [], inner: [], pending: undefined });
      return;
    }
    level.start = level.lastCut = at;
    level.pending = undefined;
  }

  private noteComma(at: number): void {
    const depth = this.open.length - 1;
    const level = depth < 0 ? undefined : this.levels[depth];
    if (level === undefined) return;
    if (depth === 0) this.endTopMember(at);
    if (at - level.lastCut < pieceBytes) return;
    level.cuts.push(at);
    level.inner.push(level.pending);
    level.pending = undefined;
    level.lastCut = at;
  }

  private noteClose(at: number): void {
    const depth = this.open.length - 1;
    const level = depth < 0 ? undefined : this.levels[depth];
    if (level === undefined) return;
    if (depth === 0) this.endTopMember(at);
    const { start, cuts, inner, pending } = level;
    const parent = this.levels[depth - 1];
    if (depth > 0 && (parent === undefined || at - start <= pieceBytes)) return;
    const value = { start, end: at + 1, cuts, inner: [...inner, pending] };
    level.cuts = [];
    level.inner = [];
    if (depth > 0 && parent !== undefined) parent.pending = value;
    else this.root ??= value;
  }

  private noteString(start: number, end: number): void {
    const level = this.levels[this.open.length - 1];
    if (level !== undefined) level.pending = { start, end, cuts: [], inner: [] };
  }

  private endTopMember(at: number): void {
    const { topMember, bytes } = this;
    if (topMember === undefined) return;
    this.topMember = undefined;
    const { name, start, nameEnd } = topMember;
    let valueStart = nameEnd;
    while (valueStart < at && ((bytes[valueStart] as number) <= 32 || bytes[valueStart] === colon))
      valueStart += 1;
    let end = at;
    while (end > valueStart && (bytes[end - 1] as number) <= 32) end -= 1;
    this.topMembers.push({ name, start, valueStart, end });
  }

  /** Offset of the quote that ends the string at `start`; the end of the bytes without one, -1 when `until` comes before. */
  private endOfString(start: number, until: number): number {
    const { bytes, stringFrom } = this;
    if (stringFrom > 0) return this.endOfLongString(start, stringFrom, until);
    for (let at = start; at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (byte === quote) return at;
      if (byte === backslash) at += 1;
      else if (at - start > shortString) return this.endOfLongString(at, at, until);
    }
    return bytes.length;
  }

  private endOfLongString(start: number, begin: number, until: number): number {
    const { bytes } = this;
    this.stringFrom = 0;
    for (let from = begin; ;) {
      const at = bytes.indexOf(quote, from);
      if (at === -1) return bytes.length;
      let slashes = 0;
      while (bytes[at - 1 - slashes] === backslash && at - 1 - slashes >= start) slashes += 1;
      if (slashes % 2 === 0) return at;
      from = at + 1;
      if (from > until) {
        this.stringFrom = from;
        return -1;
      }
    }
  }

  private addKey(start: number, end: number): GatewayError | undefined {
    const { bytes, keys, open } = this;
    this.members += 1;
    const refused = this.tooManyOrNot();
    if (refused !== undefined) return refused;
    const object = open[open.length - 1] as OpenObject;
    const { known } = object;
    if (open.length === 1 && this.takesNotes)
      this.topMember = { name: this.nameAt(start, end), start: start - 1, nameEnd: end + 1 };
    let hash = end - start;
    let isPlain = true;
    for (let at = start; at < end; at += 1) {
      const byte = bytes[at] as number;
      if (byte === backslash || byte > 127 || (known !== undefined && byte >= 65 && byte <= 90))
        isPlain = false;
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    if (known !== undefined) {
      const member = known.byHash.get(hash);
      if (member !== undefined && this.spells(member.bytes, start, end)) {
        if (member.isMisspelled) return misspelledMemberError(this.nameAt(start, end), member.name);
        this.below = member.below;
        this.belowInLists = member.inLists;
        isPlain = true;
      } else this.below = undefined;
    }
    if (!isPlain || object.names !== undefined) return this.addNamed(object, start, end);
    const place = this.placeOf(object, hash);
    if (place !== undefined) {
      return this.isSame(place, start, end)
        ? this.twice(this.nameAt(start, end), start)
        : this.addNamed(object, start, end);
    }
    object.places?.set(hash, keys.length);
    keys.push(hash, start, end);
    return undefined;
  }

  /** Place of the member with this hash in the list of keys. */
  private placeOf(object: OpenObject, hash: number): number | undefined {
    const { keys } = this;
    if (object.places === undefined && keys.length - object.from >= 3 * fewMembers) {
      object.places = new Map();
      for (let at = object.from; at < keys.length; at += 3) object.places.set(keys[at] as number, at);
    }
    if (object.places !== undefined) return object.places.get(hash);
    for (let at = object.from; at < keys.length; at += 3) if (keys[at] === hash) return at;
    return undefined;
  }

  /** The names themselves are compared. */
  private addNamed(object: OpenObject, start: number, end: number): GatewayError | undefined {
    const { keys } = this;
    const { known } = object;
    const compared = (name: string): string => (known === undefined ? name : folded(name));
    if (object.names === undefined) {
      object.names = new Set();
      for (let at = object.from; at < keys.length; at += 3)
        object.names.add(compared(this.nameAt(keys[at + 1] as number, keys[at + 2] as number)));
      keys.length = object.from;
    }
    const name = this.nameAt(start, end);
    const spelling = compared(name);
    if (object.names.has(spelling)) return this.twice(name, start);
    object.names.add(spelling);
    if (known === undefined) return undefined;
    const member = known.byFolded.get(spelling);
    if (member !== undefined && member.name !== name) return misspelledMemberError(name, member.name);
    this.below = member?.below;
    this.belowInLists = member?.inLists === true;
    return undefined;
  }

  private isSame(place: number, start: number, end: number): boolean {
    const { bytes, keys } = this;
    const known = keys[place + 1] as number;
    if ((keys[place + 2] as number) - known !== end - start) return false;
    for (let at = 0; start + at < end; at += 1) if (bytes[known + at] !== bytes[start + at]) return false;
    return true;
  }

  private spells(name: Uint8Array, start: number, end: number): boolean {
    const { bytes } = this;
    if (name.length !== end - start) return false;
    for (let at = 0; at < name.length; at += 1) if (name[at] !== bytes[start + at]) return false;
    return true;
  }

  private nameAt(start: number, end: number): string {
    const text = Buffer.from(this.bytes.buffer, this.bytes.byteOffset + start, end - start).toString('utf8');
    if (!text.includes('\\')) return text;
    try {
      return JSON.parse(`"${text}"`) as string;
    } catch {
      return text;
    }
  }

  private twice(name: string, start: number): GatewayError {
    return new GatewayError(
      'invalid_request',
      `The body has ${quoteName(name)} twice in one object (at byte ${start}), in one spelling or in two. Providers differ in which one they read. Send it once.`,
      { param: name.slice(0, 200) },
    );
  }

  private tooManyOrNot(): GatewayError | undefined {
    if (this.members <= this.bounds.maxMembers) return undefined;
    return new GatewayError(
      'body_too_large',
      `The body has more than ${this.bounds.maxMembers} members of objects. Send less at once, or raise server.max_body_members.`,
    );
  }

  private tooDeep(): GatewayError {
    return new GatewayError(
      'invalid_request',
      `The body is nested more than ${this.bounds.maxDepth} deep. Send it flatter, or raise server.max_body_depth.`,
    );
  }
}

function misspelledMemberError(name: string, meant: string): GatewayError {
  return new GatewayError(
    'invalid_request',
    `The body has ${quoteName(name)}, which some providers take for "${meant}" and others do not read. Write "${meant}".`,
    { param: name.slice(0, 200) },
  );
}

function quoteName(name: string): string {
  return JSON.stringify(name.slice(0, 200));
}
