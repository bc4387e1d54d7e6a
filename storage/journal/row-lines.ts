import { createReadStream } from 'node:fs';

/** One line of a file. */
export interface RowLine {
  /** Where it begins in the file. */
  readonly offset: number;
  /** Without its line break; empty when the line is too long. */
  readonly bytes: Buffer;
  /** False for the last line of a range when no line break ends it. */
  readonly isEnded: boolean;
  readonly isTooLong: boolean;
}

/** What a row is about, or why it is none. */
export type RowHead =
  { readonly id: string; readonly value: Record<string, unknown> } | { readonly fault: string };

const readBytes = 256 * 1024;
/** A row has 8 Mi characters at the most, and a character three bytes. */
const longestLine = 32 * 1024 * 1024;
const newline = 10;

/** The lines of a byte range, in order, with little in memory. Rejects with the system's error. */
export async function* linesOf(path: string, from = 0, end = Infinity): AsyncGenerator<RowLine> {
  if (end <= from) return;
  const stream = createReadStream(path, { start: from, end: end - 1, highWaterMark: readBytes });
  let held: Buffer[] = [];
  let length = 0;
  let offset = from;
  const line = (isEnded: boolean): RowLine => {
    const isTooLong = length > longestLine;
    const found = { offset, bytes: isTooLong ? Buffer.alloc(0) : Buffer.concat(held), isEnded, isTooLong };
    offset += length + 1;
    held = [];
    length = 0;
    return found;
  };
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
      if (length <= longestLine) held.push(chunk.subarray(start, at));
      length += at - start;
      yield line(true);
      start = at + 1;
    }
    if (start === chunk.length) continue;
    if (length <= longestLine) held.push(chunk.subarray(start));
    length += chunk.length - start;
  }
  if (length > 0) yield line(false);
}

/** Reads a row as far as the journal understands it: one JSON object with an id. */
export function readRow(line: Pick<RowLine, 'bytes' | 'isTooLong'>): RowHead {
  if (line.isTooLong) return { fault: `is longer than ${longestLine} bytes` };
  let value: unknown;
  try {
    value = JSON.parse(line.bytes.toString('utf8'));
  } catch {
    return { fault: 'is no JSON' };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { fault: 'is no JSON object' };
  const row = value as Record<string, unknown>;
  const { id } = row;
  return typeof id === 'string' && id !== '' ? { id, value: row } : { fault: 'has no id' };
}
