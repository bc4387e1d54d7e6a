import type { EncodedCommand } from './encoded-command.ts';

/** CRC-16 of each byte: XMODEM, polynomial 0x1021. Source: the Redis cluster specification, "Key distribution model". */
const table = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});
const slots = 16_384;
const [open, close, carriageReturn, lineFeed, zero] = [0x7b, 0x7d, 0x0d, 0x0a, 0x30];

/** The slot of a key in a cluster: that of its first part in braces, or of all of it. */
export function slotOfKey(key: Buffer | string): number {
  const bytes = typeof key === 'string' ? Buffer.from(key) : key;
  const start = bytes.indexOf(open);
  const end = start < 0 ? -1 : bytes.indexOf(close, start + 1);
  return end > start + 1 ? slotOf(bytes, start + 1, end) : slotOf(bytes, 0, bytes.length);
}

function slotOf(bytes: Buffer, from: number, to: number): number {
  let crc = 0;
  for (let at = from; at < to; at++)
    crc = ((crc << 8) & 0xffff) ^ (table[(crc >> 8) ^ (bytes[at] as number)] as number);
  return crc % slots;
}

/** Commands of one limit share their constant part, and its keys. */
const slotsOfHeads = new WeakMap<Buffer, number>();

/** The slot of a command's keys, all of which are in one: the second part, or the fourth of a script's call. */
export function slotOfCommand({ name, head, bytes }: EncodedCommand): number {
  const position = name === 'evalsha' || name === 'eval' ? 3 : 1;
  if (head === undefined)
    return slotOfKey(partAt(Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes), position));
  let slot = slotsOfHeads.get(head);
  if (slot === undefined) slotsOfHeads.set(head, (slot = slotOfKey(partAt(head, position))));
  return slot;
}

/** A part of a command in wire form; empty when it has fewer. */
function partAt(bytes: Buffer, position: number): Buffer {
  let at = bytes.indexOf(lineFeed) + 1;
  for (let index = 0; at < bytes.length; index++) {
    let length = 0;
    for (at++; (bytes[at] ?? carriageReturn) !== carriageReturn; at++)
      length = length * 10 + (bytes[at] as number) - zero;
    at += 2;
    if (index === position) return bytes.subarray(at, at + length);
    at += length + 2;
  }
  return bytes.subarray(bytes.length);
}
