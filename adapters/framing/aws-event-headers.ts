/**
 * The headers of one message, all ten value types as text: booleans `true` / `false`, integers in decimal (64 bits
 * exactly), byte arrays in base64, timestamps as milliseconds since the epoch, UUIDs in their usual spelling. A
 * sentence that says what is wrong when the block cannot be read.
 */
export function readAwsHeaders(block: Buffer): Record<string, string> | string {
  const headers = Object.create(null) as Record<string, string>;
  let at = 0;
  while (at < block.length) {
    const nameLength = block[at] as number;
    const nameEnd = at + 1 + nameLength;
    if (nameLength === 0 || nameEnd >= block.length) return 'a header has no name, or is cut off within it';
    const name = block.toString('utf8', at + 1, nameEnd);
    const type = block[nameEnd] as number;
    const size = sizeOf(type, block, nameEnd + 1);
    if (size === undefined) return `the header "${name}" has the unknown type ${type}, or no length`;
    const start = nameEnd + 1 + (isCounted(type) ? 2 : 0);
    if (start + size > block.length) return `the header "${name}" is cut off`;
    headers[name] = textOf(type, block, start, size);
    at = start + size;
  }
  return headers;
}

/** Bytes of the value of each type; byte arrays (6) and strings (7) are counted by two bytes before them. */
const fixedSizes: readonly (number | undefined)[] = [0, 0, 1, 2, 4, 8, undefined, undefined, 8, 16];

function isCounted(type: number): boolean {
  return type === 6 || type === 7;
}

function sizeOf(type: number, block: Buffer, at: number): number | undefined {
  if (!isCounted(type)) return fixedSizes[type];
  return at + 2 <= block.length ? block.readUInt16BE(at) : undefined;
}

function textOf(type: number, block: Buffer, start: number, size: number): string {
  switch (type) {
    case 0:
      return 'true';
    case 1:
      return 'false';
    case 2:
    case 3:
    case 4:
      return String(block.readIntBE(start, size));
    case 5:
    case 8:
      return String(block.readBigInt64BE(start));
    case 6:
      return block.toString('base64', start, start + size);
    case 9:
      return uuid(block.toString('hex', start, start + size));
    default:
      return block.toString('utf8', start, start + size);
  }
}

function uuid(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
