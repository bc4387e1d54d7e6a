import type { JsonObject, JsonPath, JsonValue, Replacement } from './context.ts';
import { encode, removeAt, replaceAllAt, setAt } from './json-splice.ts';
import type { MemberSpan } from './json-guard.ts';

/** A body that may be held as such a document. */
export interface MayBeLarge {
  /** Set where it is a large object: changing it writes no more than it has to. */
  readonly large?: LargeDocument | undefined;
}

/** A member of the document, and what it became. */
interface Member {
  readonly span: MemberSpan;
  /** Bytes of its value now; undefined for those that were received. */
  readonly value: Buffer | undefined;
  readonly isRemoved: boolean;
}

/**
 * A large JSON object of which single members change: only they are written, the rest stays the bytes that were received.
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

  /** `json` is what `source` says, `spans` are its members. */
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
        ? Buffer.from(encode(value), 'utf8')
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
          : Buffer.from(encode(whole.value), 'utf8');
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
    if (!isPlain) return Buffer.from(edit(bytes.toString('utf8'), encode), 'utf8');
    const write = (value: JsonValue): string => Buffer.from(encode(value), 'utf8').toString('latin1');
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
    // What stands between a member and the next is kept for the one that follows it now.
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
