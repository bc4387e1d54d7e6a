import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Problem } from '../../config/problem.ts';
import { unreadableReason } from '../../config/read-file.ts';
import { lineStart, readLine, type ReadLine } from './record-lines.ts';
import { messageOf } from '../../errors/gateway-error.ts';

/** Longest line that is read, in bytes. */
const maxLineBytes = 8_388_608;

/** A place in a file. */
export interface LinePlace {
  /** Bytes from the beginning. */
  readonly offset: number;
  /** From 1. */
  readonly number: number;
}

interface Line extends LinePlace {
  readonly text: string;
}

/** A line of a record or a version, with its place. */
export type PlacedLine = ReadLine & { readonly place: LinePlace };

/** The lines of an organisation's records in a file. */
export interface RecordSection {
  readonly start: LinePlace;
  /** Whether some of its records have secrets. */
  readonly hasSecrets: boolean;
}

/** The part of an export that is read at once. */
interface ExportFileIndex {
  /** The organisations, as YAML. */
  readonly head: string;
  /** Start of the record lines; undefined for none. */
  readonly lines: LinePlace | undefined;
}

/** Reads the part of an export before the records. Rejects with an error whose message continues the file's name. */
export async function readHead(file: string, limit: number): Promise<ExportFileIndex> {
  await requireRegular(file);
  const parts: string[] = [];
  let bytes = 0;
  for await (const { text, offset, number } of linesFrom(file, { offset: 0, number: 1 })) {
    if (text.startsWith(`${lineStart}{`)) return { head: parts.join('\n'), lines: { offset, number } };
    bytes += Buffer.byteLength(text) + 1;
    if (bytes > limit)
      throw new Error(`has more than ${limit} bytes before its records; is it the right file?`);
    parts.push(text);
  }
  return { head: parts.join('\n'), lines: undefined };
}

/** Opening a pipe would block, and the records are read more than once. */
async function requireRegular(file: string): Promise<void> {
  const found = await stat(file).catch((error: unknown) => {
    throw new Error(unreadableReason(error), { cause: error });
  });
  if (!found.isFile() && !found.isDirectory()) throw new Error('is not a regular file');
}

const maxProblems = 20;

/**
 * Reads every record line once. Gives the start of each organisation's lines, or up to 20 problems. `organisations` are
 * those of the file.
 */
export async function indexRecords(
  file: string,
  start: LinePlace,
  organisations: ReadonlySet<string>,
): Promise<{
  readonly sections: ReadonlyMap<string, RecordSection>;
  readonly problems: readonly Problem[];
}> {
  const sections = new Map<string, { start: LinePlace; hasSecrets: boolean }>();
  const problems: Problem[] = [];
  const order = new LineOrder(organisations);
  for await (const line of linesFrom(file, start)) {
    if (line.text === '') continue;
    try {
      const read = readRecordLine(line);
      order.next(read);
      const section = sections.get(read.organisationId);
      const hasSecrets = 'record' in read && Object.keys(read.record.secrets).length > 0;
      if (section === undefined) {
        const { offset, number } = line;
        sections.set(read.organisationId, { start: { offset, number }, hasSecrets });
      } else section.hasSecrets ||= hasSecrets;
    } catch (error) {
      const message = messageOf(error);
      problems.push({ file, line: line.number, column: 1, path: '', message });
      if (problems.length === maxProblems) break;
    }
  }
  return { sections, problems };
}

/** Lines of one organisation from a place on. */
export async function* recordsFrom(
  file: string,
  organisationId: string,
  start: LinePlace,
): AsyncGenerator<PlacedLine> {
  for await (const line of linesFrom(file, start)) {
    if (line.text === '') continue;
    const read = readRecordLine(line);
    if (read.organisationId !== organisationId) return;
    yield { ...read, place: line };
  }
}

function readRecordLine({ text }: Line): ReadLine {
  if (!text.startsWith(lineStart)) throw new Error(`does not begin with "${lineStart}", like every record`);
  return readLine(text);
}

/** Checks the order of consecutive lines. */
class LineOrder {
  readonly #organisations: ReadonlySet<string>;
  readonly #ended = new Set<string>();
  #organisation = '';
  #record = '';
  #versions = 0;

  constructor(organisations: ReadonlySet<string>) {
    this.#organisations = organisations;
  }

  /** Throws an error that says which line is out of order. */
  next(line: ReadLine): void {
    const { organisationId } = line;
    if (organisationId !== this.#organisation) {
      if (!this.#organisations.has(organisationId))
        throw new Error(`/organisation_id: the file has no organisation "${organisationId}"`);
      if (this.#ended.has(organisationId))
        throw new Error(`/organisation_id: the records of "${organisationId}" must stand together`);
      this.#ended.add(this.#organisation);
      this.#organisation = organisationId;
      this.#record = '';
    }
    if ('record' in line) {
      this.#record = line.record.id;
      this.#versions = 0;
      return;
    }
    const { recordId, number } = line.version;
    if (recordId !== this.#record)
      throw new Error(`/version_of: "${recordId}" is not the record that stands before it`);
    this.#versions += 1;
    if (number !== this.#versions)
      throw new Error(`/number: is ${number}, and version ${this.#versions} of the record was expected`);
  }
}

/** Lines of a file from a place on. Rejects with an error whose message continues the file's name. */
async function* linesFrom(file: string, { offset: start, number: first }: LinePlace): AsyncGenerator<Line> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let kept: Buffer[] = [];
  let length = 0;
  let offset = start;
  let number = first;
  const line = (end: Buffer): Line => {
    const whole = kept.length === 0 ? end : Buffer.concat([...kept, end]);
    try {
      return { text: decoder.decode(whole).replace(/\r$/, ''), offset, number };
    } catch {
      throw new Error(`is not UTF-8 text in line ${number}; save it as UTF-8`);
    }
  };
  const stream = createReadStream(file, { start });
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      let from = 0;
      for (let end; (end = chunk.indexOf(10, from)) !== -1; from = end + 1) {
        yield line(chunk.subarray(from, end));
        offset += length + end - from + 1;
        number += 1;
        kept = [];
        length = 0;
      }
      if (from === chunk.length) continue;
      kept.push(chunk.subarray(from));
      length += chunk.length - from;
      if (length > maxLineBytes)
        throw new Error(`has a line of more than ${maxLineBytes} bytes, line ${number}`);
    }
    if (length > 0) yield line(Buffer.alloc(0));
  } catch (error) {
    if (error instanceof Error && 'code' in error) throw new Error(unreadableReason(error), { cause: error });
    throw error;
  } finally {
    stream.destroy();
  }
}
