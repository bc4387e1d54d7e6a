import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { type Static, type TSchema, Type } from 'typebox';
import { type Checker, compileSchema } from '../../config/ajv.ts';
import type { Problem } from '../../config/problem.ts';
import { unreadableReason } from '../../config/read-file.ts';
import { messageOf } from '../../errors/gateway-error.ts';
import { Instant, strict } from '../../organisation/fields.ts';
import type { RecordKind, RecordVersion, StoredRecord } from '../../ports/records.ts';
import type { ResourcesReader } from '../../ports/resources.ts';
import { isoOf } from './export-records.ts';
import { recordDataSchemas, recordKinds } from './record-data-schema.ts';

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

type Reader = Pick<ResourcesReader, 'records'>;

/** A version may have 1 MiB. */
const versionsAPage = 16;

/** Owner of the records to read. */
interface RecordOwner {
  readonly organisationId: string;
  /** Workspaces as read before; records of newer ones are left out. */
  readonly workspaces: ReadonlySet<string>;
}

/**
 * Passes on the lines of one page of records by id, after `afterId`, each followed by its versions, oldest first.
 * Resolves to the `afterId` of the next page; undefined at the end.
 */
export async function takeRecordLines(
  reader: Reader,
  { organisationId, workspaces }: RecordOwner,
  afterId: string,
  take: (line: string) => void | Promise<void>,
): Promise<string | undefined> {
  const page = await reader.records.changedSince(organisationId, 0, recordKinds, afterId);
  for (const record of page) {
    if (record.workspaceId !== undefined && !workspaces.has(record.workspaceId)) continue;
    await take(recordLine(record));
    for await (const version of versionsOf(reader, record)) await take(versionLine(record, version));
  }
  return page.at(-1)?.id;
}

/** The store lists the newest first; this gives the oldest first. */
async function* versionsOf(
  { records }: Reader,
  { kind, organisationId, id }: StoredRecord,
): AsyncGenerator<RecordVersion> {
  const { total } = await records.versions(kind, organisationId, id, { offset: 0, limit: 1 });
  for (let end = total; end > 0; end -= versionsAPage) {
    const offset = Math.max(0, end - versionsAPage);
    const { data } = await records.versions(kind, organisationId, id, { offset, limit: end - offset });
    yield* data.toReversed();
  }
}

/**
 * After the organisations, an export has one line for each record and each of its versions: a YAML document that begins
 * with this, followed by JSON.
 */
const lineStart = '--- ';

const Id = Type.String({ minLength: 1, maxLength: 255 });

const Moment = Instant('ISO 8601 with a time zone.');

const Data = Type.Record(Type.String(), Type.Unknown());

const Kind = Type.Union(recordKinds.map((kind) => Type.Literal(kind)));

const RecordLine = Type.Object(
  {
    organisation_id: Id,
    kind: Kind,
    id: Id,
    workspace_id: Type.Optional(Id),
    slug: Type.String({ pattern: '^[a-zA-Z0-9_-]{1,255}$' }),
    name: Type.String({ maxLength: 1024 }),
    status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
    parent_id: Type.Optional(Id),
    data: Data,
    sealed_secrets: Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 1_048_576 }))),
    created_by: Type.String({ maxLength: 1024 }),
    updated_by: Type.String({ maxLength: 1024 }),
    created_at: Moment,
    updated_at: Moment,
    version: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }),
  },
  strict,
);

const VersionLine = Type.Object(
  {
    organisation_id: Id,
    version_of: Id,
    kind: Kind,
    id: Id,
    number: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }),
    name: Type.String({ maxLength: 1024 }),
    data: Data,
    description: Type.String({ maxLength: 65_536 }),
    label_id: Type.Optional(Id),
    created_by: Type.String({ maxLength: 1024 }),
    created_at: Moment,
  },
  strict,
);

type Typed<Line> = Omit<Line, 'kind' | 'data'> & {
  readonly kind: RecordKind;
  readonly data: StoredRecord['data'];
};

type ShownRecord = Typed<Static<typeof RecordLine>>;

type ShownVersion = Typed<Static<typeof VersionLine>>;

/** Content of a line. */
type ReadLine =
  | { readonly organisationId: string; readonly record: StoredRecord }
  | { readonly organisationId: string; readonly version: RecordVersion; readonly kind: RecordKind };

/** Line of a record, without its line break. Its secrets stay sealed. */
function recordLine(record: StoredRecord): string {
  return lineStart + JSON.stringify(shownRecord(record));
}

/** Content of a record's line. */
export function shownRecord(record: StoredRecord): ShownRecord {
  const { organisationId, workspaceId, parentId, secrets } = record;
  return {
    organisation_id: organisationId,
    kind: record.kind,
    id: record.id,
    ...(workspaceId !== undefined && { workspace_id: workspaceId }),
    slug: record.slug,
    name: record.name,
    status: record.status,
    ...(parentId !== '' && { parent_id: parentId }),
    data: record.data,
    ...(Object.keys(secrets).length > 0 && { sealed_secrets: secrets }),
    created_by: record.createdBy,
    updated_by: record.updatedBy,
    created_at: isoOf(record.createdAt),
    updated_at: isoOf(record.updatedAt),
    version: record.version,
  };
}

/** The line of a version. */
function versionLine({ organisationId, kind }: StoredRecord, version: RecordVersion): string {
  const { labelId } = version;
  const shown: ShownVersion = {
    organisation_id: organisationId,
    version_of: version.recordId,
    kind,
    id: version.id,
    number: version.number,
    name: version.name,
    data: version.data,
    description: version.description,
    ...(labelId !== '' && { label_id: labelId }),
    created_by: version.createdBy,
    created_at: isoOf(version.createdAt),
  };
  return lineStart + JSON.stringify(shown);
}

/** Compiled at the first line: most commands read none. */
const checkers = new Map<TSchema, Checker>();

function requireValid(value: unknown, schema: TSchema, pointer: string): void {
  const check = checkers.get(schema) ?? compileSchema(schema);
  checkers.set(schema, check);
  const [issue] = check(value, () => 'what stands there');
  if (issue !== undefined) throw new Error(`${pointer}${issue.path}: ${issue.message}`);
}

/** Parses a line. Throws an error that names the mistake and quotes none of the data. */
function readLine(text: string): ReadLine {
  const value = parseLine(text.slice(lineStart.length));
  requireValid(value, 'version_of' in value ? VersionLine : RecordLine, '');
  const line = value as ShownRecord | ShownVersion;
  requireValid(line.data, recordDataSchemas[line.kind], '/data');
  const { kind, organisation_id: organisationId } = line;
  return 'version_of' in line
    ? { organisationId, kind, version: versionOf(line) }
    : { organisationId, record: recordOf(line) };
}

function parseLine(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error('is no JSON; a record is one line, as weir export wrote it');
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new Error('is no JSON object; a record is one line, as weir export wrote it');
}

function recordOf(line: ShownRecord): StoredRecord {
  return {
    kind: line.kind,
    id: line.id,
    organisationId: line.organisation_id,
    workspaceId: line.workspace_id,
    slug: line.slug,
    name: line.name,
    status: line.status,
    parentId: line.parent_id ?? '',
    data: line.data,
    secrets: line.sealed_secrets ?? {},
    createdBy: line.created_by,
    updatedBy: line.updated_by,
    createdAt: Date.parse(line.created_at),
    updatedAt: Date.parse(line.updated_at),
    version: line.version,
  };
}

function versionOf(line: ShownVersion): RecordVersion {
  return {
    id: line.id,
    recordId: line.version_of,
    number: line.number,
    name: line.name,
    data: line.data,
    description: line.description,
    labelId: line.label_id ?? '',
    createdBy: line.created_by,
    createdAt: Date.parse(line.created_at),
  };
}
