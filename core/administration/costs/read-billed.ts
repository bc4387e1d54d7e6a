import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { createGunzip } from 'node:zlib';
import type { Biller } from './billed-costs.ts';
import { BilledCsv } from './billed-csv.ts';
import { type BilledFile, readBilledJson } from './billed-json.ts';
import { csvRecords } from './csv-records.ts';
import { FileMistake } from './file-mistake.ts';

/** Largest file of JSON, in bytes; CSV is read record by record, and may be larger. */
const longestJson = 67_108_864;

/**
 * Reads a provider's file of costs: CSV, or JSON where its first character is `{` or `[`; either may be packed by gzip.
 * Throws a `FileMistake`, and errors of the file system.
 */
export async function readBilled(biller: Biller, file: string): Promise<BilledFile> {
  const chunks = textOf(file);
  const first = await chunks.next();
  const head = first.done === true ? '' : first.value;
  const all = followedBy(head, chunks);
  const isJson = /^\uFEFF?\s*[[{]/.test(head);
  return isJson ? readBilledJson(biller, await whole(all)) : readBilledCsv(biller, all);
}

async function readBilledCsv(biller: Biller, chunks: AsyncIterable<string>): Promise<BilledFile> {
  // Reports have many small rows of one day and one name: they are added up as they come.
  const sums = new Map<string, { day: string; name: string; amount: bigint }>();
  let reader: BilledCsv | undefined;
  for await (const record of csvRecords(chunks)) {
    if (reader === undefined) {
      reader = new BilledCsv(biller, record);
      continue;
    }
    const cost = reader.read(record);
    if (cost === undefined) continue;
    const key = `${cost.day}\n${cost.name}`;
    const sum = sums.get(key);
    if (sum === undefined) sums.set(key, { ...cost });
    else sum.amount += cost.amount;
  }
  if (reader === undefined)
    throw new FileMistake(
      { line: 1, column: 1 },
      `the file is empty; expected an export of costs of ${biller}`,
    );
  return { costs: [...sums.values()], isCut: false };
}

async function* followedBy(head: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield head;
  yield* rest;
}

async function whole(chunks: AsyncIterable<string>): Promise<string> {
  let text = '';
  for await (const chunk of chunks) {
    text += chunk;
    if (text.length > longestJson)
      throw new FileMistake(
        { line: 0, column: 0 },
        `JSON of more than ${longestJson} bytes; ask for fewer days`,
      );
  }
  return text.replace(/^\uFEFF/, '');
}

async function* textOf(file: string): AsyncGenerator<string> {
  if (!(await stat(file)).isFile()) throw new FileMistake({ line: 0, column: 0 }, 'is no file');
  const bytes = createReadStream(file);
  const stream = (await isPacked(file)) ? bytes.pipe(createGunzip()) : bytes;
  bytes.on('error', (error) => stream.destroy(error));
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      const text = decoder.decode(chunk, { stream: true });
      if (text !== '') yield text;
    }
    decoder.decode();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new FileMistake(
      { line: 0, column: 0 },
      'holds bytes that are no UTF-8; expected CSV or JSON in UTF-8',
    );
  }
}

async function isPacked(file: string): Promise<boolean> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    return bytesRead === 2 && buffer[0] === 0x1f && buffer[1] === 0x8b;
  } finally {
    await handle.close();
  }
}
