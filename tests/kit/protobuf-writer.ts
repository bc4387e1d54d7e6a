/** Writes messages of protocol buffers, field by field. */
export class ProtobufWriter {
  readonly #parts: Buffer[] = [];

  get result(): Buffer {
    return Buffer.concat(this.#parts);
  }

  raw(bytes: readonly number[]): this {
    this.#parts.push(Buffer.from(bytes));
    return this;
  }

  varint(field: number, value: bigint): this {
    return this.raw([...varint(BigInt(field * 8)), ...varint(value)]);
  }

  fixed(field: number, value: bigint): this {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(value);
    return this.raw([...varint(BigInt(field * 8 + 1)), ...bytes]);
  }

  fixed32(field: number, value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return this.raw([...varint(BigInt(field * 8 + 5)), ...bytes]);
  }

  double(field: number, value: number): this {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(value);
    return this.raw([...varint(BigInt(field * 8 + 1)), ...bytes]);
  }

  bytes(field: number, value: Buffer): this {
    return this.raw([...varint(BigInt(field * 8 + 2)), ...varint(BigInt(value.length)), ...value]);
  }

  text(field: number, value: string): this {
    return this.bytes(field, Buffer.from(value, 'utf8'));
  }

  message(field: number, value: ProtobufWriter): this {
    return this.bytes(field, value.result);
  }
}

function varint(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return [...bytes, Number(rest)];
}
