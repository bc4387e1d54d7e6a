import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import type { Blobs } from '../../ports/exports.ts';
import type { ExportFormat } from '../../ports/request-row.ts';
import { strict } from '../../config/describe-schema.ts';
import type { StoredRecord } from '../../ports/records.ts';

/** Ends an export for good: a retry would not help. The message is shown to people. */
export class ExportFailure extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ExportFailure';
  }
}

/** One run of an export: the data of its jobs. */
export interface ExportRun {
  readonly organisationId: string;
  readonly exportId: string;
  readonly run: number;
}

/** Thrown where the work on a run stops because the run was ended. */
export class ExportStopped extends Error {
  constructor() {
    super('The export was stopped.');
    this.name = 'ExportStopped';
  }
}

const Count = Type.Integer({ minimum: 0 });

const Part = Type.Object(
  {
    name: Type.String(),
    bytes: Count,
    /** Of the bytes, in hexadecimal. */
    sha256: Type.String(),
    /** Of the part's notes, stored in a blob of this name; absent for none. */
    notes: Type.Optional(Type.String()),
  },
  strict,
);

const Manifest = Type.Object(
  {
    version: Type.Literal(1),
    /** Cursor of the next page; absent before the first. */
    after: Type.Optional(Type.Object({ createdAt: Type.Number(), id: Type.String() }, strict)),
    /** Rows read (including those skipped at the beginning), rows exported, and bytes written. */
    seen: Count,
    rows: Count,
    bytes: Count,
    /** Number of attempts that ended before the end. */
    slices: Count,
    /** No row is left. */
    isWhole: Type.Boolean(),
    parts: Type.Array(Part),
  },
  strict,
);

/** Checkpoint of a run: everything needed to continue it elsewhere. */
export type Manifest = Static<typeof Manifest>;
/** A stored piece of the file. */
export type ManifestPart = Manifest['parts'][number];

/** Before the first row. */
const emptyManifest: Manifest = {
  version: 1,
  seen: 0,
  rows: 0,
  bytes: 0,
  slices: 0,
  isWhole: false,
  parts: [],
};

/** Manifest of the folder; the empty one when it is absent or foreign. */
export async function readManifest(blobs: Blobs, folder: string): Promise<Manifest> {
  const text = await blobText(blobs, `${folder}/manifest.json`);
  if (text === undefined) return emptyManifest;
  try {
    const value: unknown = JSON.parse(text);
    return Value.Check(Manifest, value) ? value : emptyManifest;
  } catch {
    return emptyManifest;
  }
}

/** Replaces the manifest; store the parts that it names first. */
export async function writeManifest(blobs: Blobs, folder: string, manifest: Manifest): Promise<void> {
  await blobs.write(`${folder}/manifest.json`, Buffer.from(JSON.stringify(manifest)));
}

/** The whole of a small blob, as text; undefined when absent. */
export async function blobText(blobs: Blobs, name: string): Promise<string | undefined> {
  const blob = await blobs.read(name);
  if (blob === undefined) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of blob.content) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

/** Fields of an export that name its files. */
type NamedExport = Pick<StoredRecord<'log_export'>, 'organisationId' | 'id'>;

/** Folder of everything stored for an export. */
export function exportFolder({ organisationId, id }: NamedExport): string {
  return `${organisationId}/${id}`;
}

/** Folder of an unfinished run's parts and manifest. */
export function partsFolder(one: NamedExport, run: number): string {
  return `${exportFolder(one)}/parts-${run}`;
}

/** Finished file of a run. */
export function finishedFile(one: NamedExport, run: number, format: ExportFormat): string {
  return `${exportFolder(one)}/${run}/${downloadName(one, format)}`;
}

/** File name of the download. */
export function downloadName({ id }: Pick<NamedExport, 'id'>, format: ExportFormat): string {
  return `logs-${id}.${format}`;
}
