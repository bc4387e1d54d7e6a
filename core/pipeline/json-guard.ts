import { GatewayError } from '../errors/gateway-error.ts';

/** What a JSON body may hold; a check of the bytes, before anything is made of them. */
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

/**
 * Members of requests that rules read. Some providers take `Model` for `model` (Go's decoder does): a rule that looks
 * for `model` would not see it, so another spelling of one of these is refused.
 */
const readByRules = new Map(
  [
    ...['model', 'models', 'messages', 'input', 'prompt', 'system', 'instructions', 'contents', 'tools'],
    ...[
      'systemInstruction',
      'generationConfig',
      'tool_choice',
      'functions',
      'stream',
      'n',
      'user',
      'metadata',
    ],
    ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'max_tokens_to_sample', 'temperature'],
    ...['top_p', 'top_k', 'stop', 'seed', 'store', 'previous_response_id', 'response_format', 'reasoning'],
  ].map((name) => [name.toLowerCase(), name]),
);

const quote = 34;
const comma = 44;
const openList = 91;
const backslash = 92;
const closeList = 93;
const openObject = 123;
const closeObject = 125;

/** One object whose end has not come. */
interface OpenObject {
  /** Where its members begin in the list of keys. */
  readonly from: number;
  /** Places in the list of keys by hash, once there are more than a few. */
  places: Map<number, number> | undefined;
  /** Instead of both, where a name can be written in several ways or two of them have one hash. */
  names: Set<string> | undefined;
}

/**
 * Why a JSON body is refused that two readers take for different things, or that takes too long to read: a member that
 * is there twice, another spelling of a member that rules read, too many members, too deep a nesting. Undefined for all
 * others, and for what is no JSON object or list, of which others speak.
 */
export function jsonRefusal(bytes: Uint8Array, bounds: JsonBounds): GatewayError | undefined {
  const first = firstByte(bytes);
  if (first !== openObject && first !== openList) return undefined;
  return new Reading(bytes, bounds).refusal();
}

function firstByte(bytes: Uint8Array): number | undefined {
  let at = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  while (at < bytes.length && (bytes[at] as number) <= 32) at += 1;
  return bytes[at];
}

class Reading {
  private readonly bytes: Uint8Array;
  private readonly bounds: JsonBounds;
  /** Undefined for a list. */
  private readonly open: (OpenObject | undefined)[] = [];
  /** Hash, start and end of each member of the objects that are open. */
  private readonly keys: number[] = [];
  private members = 0;

  constructor(bytes: Uint8Array, bounds: JsonBounds) {
    this.bytes = bytes;
    this.bounds = bounds;
  }

  refusal(): GatewayError | undefined {
    const { bytes, open, bounds } = this;
    let takesKey = false;
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at] as number;
      if (byte === quote) {
        const end = this.endOfString(at + 1);
        if (takesKey) {
          const refused = this.addKey(at + 1, end);
          if (refused !== undefined) return refused;
          takesKey = false;
        }
        at = end;
      } else if (byte === comma) takesKey = open.length > 0 && open[open.length - 1] !== undefined;
      else if (byte === openObject || byte === openList) {
        takesKey = byte === openObject;
        open.push(takesKey ? { from: this.keys.length, places: undefined, names: undefined } : undefined);
        if (open.length > bounds.maxDepth) return this.tooDeep();
        this.members += 1;
        if (this.members > bounds.maxMembers) return this.tooMany();
      } else if (byte === closeObject || byte === closeList) {
        const closed = open.pop();
        if (closed !== undefined) this.keys.length = closed.from;
        takesKey = false;
      }
    }
    return undefined;
  }

  /** Where the quote is that ends a string which begins here; the end of the bytes for one without. */
  private endOfString(start: number): number {
    const { bytes } = this;
    for (let at = start; at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (byte === quote) return at;
      if (byte === backslash) at += 1;
      else if (at - start > shortString) return this.endOfLongString(at);
    }
    return bytes.length;
  }

  private endOfLongString(start: number): number {
    const { bytes } = this;
    for (let from = start; ;) {
      const at = bytes.indexOf(quote, from);
      if (at === -1) return bytes.length;
      let slashes = 0;
      while (bytes[at - 1 - slashes] === backslash && at - 1 - slashes >= start) slashes += 1;
      if (slashes % 2 === 0) return at;
      from = at + 1;
    }
  }

  private addKey(start: number, end: number): GatewayError | undefined {
    const { bytes, keys, open } = this;
    this.members += 1;
    if (this.members > this.bounds.maxMembers) return this.tooMany();
    const object = open[open.length - 1] as OpenObject;
    const isTop = open.length === 1;
    let hash = end - start;
    let isPlain = true;
    for (let at = start; at < end; at += 1) {
      const byte = bytes[at] as number;
      if (byte === backslash || byte > 127 || (isTop && byte >= 65 && byte <= 90)) isPlain = false;
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    if (!isPlain || object.names !== undefined) return this.addNamed(object, start, end, isTop);
    const place = this.placeOf(object, hash);
    if (place !== undefined) {
      return this.isSame(place, start, end)
        ? this.twice(this.nameAt(start, end), start)
        : this.addNamed(object, start, end, isTop);
    }
    object.places?.set(hash, keys.length);
    keys.push(hash, start, end);
    return undefined;
  }

  /** Where a member with this hash stands in the list of keys. */
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
  private addNamed(object: OpenObject, start: number, end: number, isTop: boolean): GatewayError | undefined {
    const { keys } = this;
    const compared = (name: string): string => (isTop ? folded(name) : name);
    if (object.names === undefined) {
      object.names = new Set();
      for (let at = object.from; at < keys.length; at += 3)
        object.names.add(compared(this.nameAt(keys[at + 1] as number, keys[at + 2] as number)));
      keys.length = object.from;
    }
    const name = this.nameAt(start, end);
    const known = compared(name);
    if (object.names.has(known)) return this.twice(name, start);
    object.names.add(known);
    const meant = isTop ? readByRules.get(known) : undefined;
    return meant === undefined || meant === name ? undefined : misspelled(name, meant);
  }

  private isSame(place: number, start: number, end: number): boolean {
    const { bytes, keys } = this;
    const known = keys[place + 1] as number;
    if ((keys[place + 2] as number) - known !== end - start) return false;
    for (let at = 0; start + at < end; at += 1) if (bytes[known + at] !== bytes[start + at]) return false;
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
      `The body has ${shown(name)} twice in one object (at byte ${start}), in one spelling or in two. Providers differ in which one they read. Send it once.`,
      { param: name.slice(0, 200) },
    );
  }

  private tooMany(): GatewayError {
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

function misspelled(name: string, meant: string): GatewayError {
  return new GatewayError(
    'invalid_request',
    `The body has ${shown(name)}, which some providers take for "${meant}" and others do not read. Write "${meant}".`,
    { param: name.slice(0, 200) },
  );
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 200));
}

/** As decoders without regard to case compare names: Go's also takes the long s and the sign for kelvin for letters. */
function folded(name: string): string {
  return name.toLowerCase().replaceAll('ſ', 's').replaceAll('\u212a', 'k');
}
