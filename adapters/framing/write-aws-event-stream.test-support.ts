import { crc32 } from 'node:zlib';

/**
 * One message of an `application/vnd.amazon.eventstream` body with string headers. Throws RangeError for a header
 * that the format cannot hold (a name over 255 bytes, a value over 65,535).
 */
export function writeAwsEventStreamMessage(
  headers: Readonly<Record<string, string>>,
  payload: string | Uint8Array,
): Buffer {
  return writeAwsEventStreamFrame(Buffer.concat(Object.entries(headers).map(writeHeader)), payload);
}

/** One message around a block of headers that is encoded already. */
export function writeAwsEventStreamFrame(headerBlock: Uint8Array, payload: string | Uint8Array): Buffer {
  const body = typeof payload === 'string' ? Buffer.from(payload) : payload;
  const total = 12 + headerBlock.length + body.length + 4;
  const message = Buffer.alloc(total);
  message.writeUInt32BE(total, 0);
  message.writeUInt32BE(headerBlock.length, 4);
  message.writeUInt32BE(crc32(message.subarray(0, 8)), 8);
  message.set(headerBlock, 12);
  message.set(body, 12 + headerBlock.length);
  message.writeUInt32BE(crc32(message.subarray(0, total - 4)), total - 4);
  return message;
}

const stringType = 7;

function writeHeader([name, value]: readonly [string, string]): Buffer {
  const nameBytes = Buffer.from(name);
  const valueBytes = Buffer.from(value);
  const header = Buffer.alloc(1 + nameBytes.length + 3 + valueBytes.length);
  header.writeUInt8(nameBytes.length, 0);
  header.set(nameBytes, 1);
  header.writeUInt8(stringType, 1 + nameBytes.length);
  header.writeUInt16BE(valueBytes.length, 2 + nameBytes.length);
  header.set(valueBytes, 4 + nameBytes.length);
  return header;
}
