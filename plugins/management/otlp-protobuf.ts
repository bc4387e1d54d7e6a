/**
 * The part of protocol buffers that OTLP traces need, read into the shape of their JSON mapping, so that what comes after
 * knows one shape only. Fields that nobody asks for are skipped.
 */

/** How a field is read, and its name in JSON. */
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

/** Messages within messages; values of attributes can nest without end. */
const maxDepth = 32;

/** `ExportTraceServiceRequest` as its JSON mapping says it. Throws a `RangeError` for bytes that are none. */
export function readExportRequest(bytes: Buffer): unknown {
  return readMessage(new Reader(bytes), exportRequest, 0);
}

/** `ExportTraceServiceResponse`: nothing at all when every span was taken. */
export function writeExportResponse(rejected: number, reason: string): Buffer {
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
  if (depth > maxDepth) throw new RangeError('messages are nested too deep');
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
