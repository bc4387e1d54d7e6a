import { isStorable } from '../../../core/base/bytes.ts';

/** Reads and answers exports of spans. */
export const otlp = { readRequest: readExportRequest, writeResponse: writeExportResponse, readSpans };

/**
 * Decoder for the part of protocol buffers that OTLP traces need. Its result has the shape of their JSON mapping, so
 * that later code handles one shape only. Unused fields are skipped.
 */

/** Type of a field; a function returns a nested message. */
type Kind = 'text' | 'hex' | 'boolean' | 'integer' | 'double' | 'nanos' | (() => Message);
interface Field {
  readonly name: string;
  readonly kind: Kind;
  readonly repeated?: true;
}
type Message = Readonly<Record<number, Field>>;

const list = (name: string, kind: Kind): Field => ({ name, kind, repeated: true });
const one = (name: string, kind: Kind): Field => ({ name, kind });

const anyValue: Message = {
  1: one('stringValue', 'text'),
  2: one('boolValue', 'boolean'),
  3: one('intValue', 'integer'),
  4: one('doubleValue', 'double'),
  5: one('arrayValue', () => ({ 1: list('values', () => anyValue) })),
  6: one('kvlistValue', () => ({ 1: list('values', () => keyValue) })),
};
const keyValue: Message = { 1: one('key', 'text'), 2: one('value', () => anyValue) };
const event: Message = { 2: one('name', 'text'), 3: list('attributes', () => keyValue) };
const status: Message = { 2: one('message', 'text'), 3: one('code', 'integer') };
const span: Message = {
  1: one('traceId', 'hex'),
  2: one('spanId', 'hex'),
  4: one('parentSpanId', 'hex'),
  5: one('name', 'text'),
  7: one('startTimeUnixNano', 'nanos'),
  8: one('endTimeUnixNano', 'nanos'),
  9: list('attributes', () => keyValue),
  11: list('events', () => event),
  15: one('status', () => status),
};
const scope: Message = { 1: one('name', 'text'), 2: one('version', 'text') };
const scopeSpans: Message = { 1: one('scope', () => scope), 2: list('spans', () => span) };
const resource: Message = { 1: list('attributes', () => keyValue) };
const resourceSpans: Message = {
  1: one('resource', () => resource),
  2: list('scopeSpans', () => scopeSpans),
};
const exportRequest: Message = { 1: list('resourceSpans', () => resourceSpans) };

/** Upper bound of nested messages; values of attributes can nest without limit. */
const deepestMessage = 32;

/** `ExportTraceServiceRequest` in its JSON mapping. Throws a `RangeError` for invalid bytes. */
function readExportRequest(bytes: Buffer): unknown {
  return readMessage(new Reader(bytes), exportRequest, 0);
}

/** `ExportTraceServiceResponse`: empty when every span was accepted. */
function writeExportResponse(rejected: number, reason: string): Buffer {
  if (rejected === 0) return Buffer.alloc(0);
  const message = Buffer.from(reason, 'utf8');
  const partial = Buffer.concat([
    Buffer.from([0x08, ...varint(rejected), 0x12, ...varint(message.length)]),
    message,
  ]);
  return Buffer.concat([Buffer.from([0x0a, ...varint(partial.length)]), partial]);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return [...bytes, rest];
}

function readMessage(reader: Reader, message: Message, depth: number): Record<string, unknown> {
  if (depth > deepestMessage) throw new RangeError('messages are nested too deep');
  const read: Record<string, unknown> = {};
  while (!reader.atEnd) {
    const tag = Number(reader.varint());
    const field = message[Math.floor(tag / 8)];
    const wire = tag % 8;
    if (field === undefined) {
      reader.skip(wire);
      continue;
    }
    const value = readValue(reader, field.kind, wire, depth);
    if (field.repeated === true) ((read[field.name] ??= []) as unknown[]).push(value);
    else read[field.name] = value;
  }
  return read;
}

function readValue(reader: Reader, kind: Kind, wire: number, depth: number): unknown {
  const expected =
    kind === 'boolean' || kind === 'integer' ? 0 : kind === 'double' || kind === 'nanos' ? 1 : 2;
  if (wire !== expected) throw new RangeError('a field has another type');
  if (kind === 'boolean') return reader.varint() !== 0n;
  if (kind === 'integer') return String(BigInt.asIntN(64, reader.varint()));
  if (kind === 'double') return reader.fixed().readDoubleLE();
  if (kind === 'nanos') return String(reader.fixed().readBigUInt64LE());
  const bytes = reader.bytes();
  if (kind === 'text') return bytes.toString('utf8');
  return kind === 'hex' ? bytes.toString('hex') : readMessage(new Reader(bytes), kind(), depth + 1);
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get atEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) break;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new RangeError('a number has no end');
  }

  fixed(): Buffer {
    return this.#take(8);
  }

  bytes(): Buffer {
    return this.#take(Number(this.varint()));
  }

  skip(wire: number): void {
    if (wire === 0) this.varint();
    else if (wire === 1) this.#take(8);
    else if (wire === 2) this.bytes();
    else if (wire === 5) this.#take(4);
    else throw new RangeError('a field has an unknown type');
  }

  #take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new RangeError('a field goes beyond its message');
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}

/** Value of an attribute: a text, number or boolean, or a list or map of values. */
export type AttributeValue =
  string | number | boolean | readonly AttributeValue[] | { readonly [key: string]: AttributeValue };
export type SpanAttributes = ReadonlyMap<string, AttributeValue>;

/** A reported span. */
export interface ReportedSpan {
  /** 32 hexadecimal digits in lower case. */
  readonly traceId: string;
  /** 16 hexadecimal digits in lower case. */
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly durationMs: number;
  readonly isError: boolean;
  readonly statusMessage: string;
  readonly attributes: SpanAttributes;
  readonly resource: SpanAttributes;
  readonly events: readonly { readonly name: string; readonly attributes: SpanAttributes }[];
  /** Scope of the instrumentation: `name version`. */
  readonly scope: string;
}

/** Spans of an export, the number of rejected ones, and the reason of the first rejection. */
export interface ReadSpans {
  readonly spans: readonly ReportedSpan[];
  readonly rejected: number;
  readonly reason: string;
}

const maxAttributes = 256;
const maxEvents = 64;
const deepestValue = 16;

/** Reads the JSON mapping of `ExportTraceServiceRequest`, at most `most` spans. Undefined for any other JSON. */
function readSpans(body: unknown, most: number): ReadSpans | undefined {
  const resources = listOf(member(body, 'resourceSpans'));
  if (resources === undefined) return undefined;
  const spans: ReportedSpan[] = [];
  let rejected = 0;
  let reason = '';
  const reject = (why: string): void => {
    rejected++;
    reason ||= why;
  };
  for (const one of resources) {
    const resource = attributesOf(member(member(one, 'resource'), 'attributes'));
    for (const group of listOf(member(one, 'scopeSpans')) ?? []) {
      const scope = member(group, 'scope');
      const scopeName = [member(scope, 'name'), member(scope, 'version')].map(textOf).join(' ').trim();
      for (const span of listOf(member(group, 'spans')) ?? []) {
        if (spans.length >= most) reject(`an export may hold ${most} spans; send the rest in further ones`);
        else {
          const read = readSpan(span, resource, scopeName);
          if (typeof read === 'string') reject(read);
          else spans.push(read);
        }
      }
    }
  }
  return { spans, rejected, reason };
}

/** The span, or the reason for its rejection. */
function readSpan(span: unknown, resource: SpanAttributes, scope: string): ReportedSpan | string {
  const traceId = textOf(member(span, 'traceId')).toLowerCase();
  const spanId = textOf(member(span, 'spanId')).toLowerCase();
  const parentSpanId = textOf(member(span, 'parentSpanId')).toLowerCase();
  if (!/^[0-9a-f]{32}$/.test(traceId) || /^0+$/.test(traceId))
    return 'a span has no traceId of 32 hexadecimal digits';
  if (!/^[0-9a-f]{16}$/.test(spanId) || /^0+$/.test(spanId))
    return 'a span has no spanId of 16 hexadecimal digits';
  const start = nanosOf(member(span, 'startTimeUnixNano'));
  const end = nanosOf(member(span, 'endTimeUnixNano'));
  if (start === undefined || end === undefined || end < start)
    return 'a span has no startTimeUnixNano and endTimeUnixNano, in nanoseconds and in that order';
  const status = member(span, 'status');
  const code = member(status, 'code');
  return {
    traceId,
    spanId,
    scope,
    resource,
    parentSpanId: /^[0-9a-f]{16}$/.test(parentSpanId) && !/^0+$/.test(parentSpanId) ? parentSpanId : '',
    name: textOf(member(span, 'name')),
    startedAt: Number(start / 1_000_000n),
    durationMs: Number(end - start) / 1e6,
    isError: Number(code) === 2 || code === 'STATUS_CODE_ERROR',
    statusMessage: textOf(member(status, 'message')),
    attributes: attributesOf(member(span, 'attributes')),
    events: (listOf(member(span, 'events')) ?? []).slice(0, maxEvents).map((event) => ({
      name: textOf(member(event, 'name')),
      attributes: attributesOf(member(event, 'attributes')),
    })),
  };
}

function attributesOf(value: unknown): SpanAttributes {
  const read = new Map<string, AttributeValue>();
  for (const one of (listOf(value) ?? []).slice(0, maxAttributes)) {
    const key = textOf(member(one, 'key'));
    const found = valueOf(member(one, 'value'), 0);
    if (key !== '' && found !== undefined) read.set(key, found);
  }
  return read;
}

function valueOf(value: unknown, depth: number): AttributeValue | undefined {
  const text = member(value, 'stringValue');
  if (typeof text === 'string') return storable(text);
  const flag = member(value, 'boolValue');
  if (typeof flag === 'boolean') return flag;
  const integer = member(value, 'intValue') ?? member(value, 'doubleValue');
  if (integer !== undefined) return Number.isFinite(Number(integer)) ? Number(integer) : undefined;
  if (depth >= deepestValue) return undefined;
  const items = listOf(member(member(value, 'arrayValue'), 'values'));
  if (items !== undefined) return items.flatMap((item) => valueOf(item, depth + 1) ?? []);
  const entries = listOf(member(member(value, 'kvlistValue'), 'values'));
  if (entries === undefined) return undefined;
  const pairs = entries.flatMap((entry): [string, AttributeValue][] => {
    const inner = valueOf(member(entry, 'value'), depth + 1);
    return inner === undefined ? [] : [[textOf(member(entry, 'key')), inner]];
  });
  return Object.fromEntries(pairs);
}

/** Nanoseconds; the JSON mapping allows a text, a number or a big integer. */
function nanosOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value > 0n ? value : undefined;
  if (typeof value === 'number') return Number.isSafeInteger(value) && value > 0 ? BigInt(value) : undefined;
  return typeof value === 'string' && /^[1-9]\d{0,19}$/.test(value) ? BigInt(value) : undefined;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? storable(value) : '';
}

/** The text without characters that stores refuse. */
function storable(text: string): string {
  return isStorable(text) ? text : text.replaceAll('\0', '').replace(/\p{Surrogate}/gu, '\u{fffd}');
}

function listOf(value: unknown): readonly unknown[] | undefined {
  return Array.isArray(value) ? (value as unknown[]) : undefined;
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}
