import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import type { Blobs } from '../../ports/exports.ts';
import { strict } from '../../config/schema-object.ts';
import type { Clock } from '../../ports/clock.ts';
import type { LogExportData } from '../../ports/record-kinds.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';
import type { ExportFormat } from '../../ports/export-fields.ts';

/** Ends an export for good: trying again would not help. The message is shown to people. */
export class ExportFailure extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ExportFailure';
  }
}

/** One run of an export: what its jobs are told. */
export interface ExportRun {
  readonly organisationId: string;
  readonly exportId: string;
  readonly run: number;
}

/** Thrown where the work of a run ends because somebody ended it. */
export class ExportStopped extends Error {
  constructor() {
    super('The export was stopped.');
    this.name = 'ExportStopped';
  }
}

/** The record of an export, as it is now. */
export function findExport(
  resources: Pick<Resources, 'read'>,
  { organisationId, exportId }: Pick<ExportRun, 'organisationId' | 'exportId'>,
): Promise<StoredRecord<'log_export'> | undefined> {
  return resources.read(({ records }) => records.find('log_export', { organisationId }, exportId));
}

/** Whether the run is to go on. */
export function isUnderWay(record: StoredRecord<'log_export'> | undefined, { run }: ExportRun): boolean {
  return record?.data.state === 'in_progress' && record.data.run === run;
}

/** Writes what has become of a run. False when it is not under way any more: nothing is written then. */
export function writeProgress(
  { resources, clock }: { readonly resources: Pick<Resources, 'write'>; readonly clock: Pick<Clock, 'now'> },
  run: ExportRun,
  change: Partial<LogExportData>,
): Promise<boolean> {
  const { organisationId, exportId } = run;
  return resources.write(organisationId, async ({ records }) => {
    const record = await records.find('log_export', { organisationId }, exportId);
    if (record === undefined || !isUnderWay(record, run)) return false;
    const stamp = { updatedAt: clock.now(), version: record.version + 1 };
    return records.replace({ ...record, ...stamp, data: { ...record.data, ...change } });
  });
}

const Count = Type.Integer({ minimum: 0 });

const Part = Type.Object(
  {
    name: Type.String(),
    bytes: Count,
    /** Of the bytes, in hexadecimal. */
    sha256: Type.String(),
    /** Of the part's notes, of which there is a blob of this name; absent for none. */
    notes: Type.Optional(Type.String()),
  },
  strict,
);

const Manifest = Type.Object(
  {
    version: Type.Literal(1),
    /** Where the next page begins; absent before the first. */
    after: Type.Optional(Type.Object({ createdAt: Type.Number(), id: Type.String() }, strict)),
    /** Rows that were read, of them those that were left out at the beginning, and bytes that are written. */
    seen: Count,
    rows: Count,
    bytes: Count,
    /** Attempts that have ended in between. */
    slices: Count,
    /** No row is left. */
    isWhole: Type.Boolean(),
    parts: Type.Array(Part),
  },
  strict,
);

/** How far a run of an export has come: everything that it needs to go on elsewhere. */
export type Manifest = Static<typeof Manifest>;
/** A piece of the file that is stored. */
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

/** What stands in the folder; the empty one when nothing does, or when it is not one of ours. */
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

/** Replaces it; parts that it names are stored before. */
export async function writeManifest(blobs: Blobs, folder: string, manifest: Manifest): Promise<void> {
  await blobs.write(`${folder}/manifest.json`, Buffer.from(JSON.stringify(manifest)));
}

/** The whole of a small blob, as text; undefined when there is none. */
export async function blobText(blobs: Blobs, name: string): Promise<string | undefined> {
  const blob = await blobs.read(name);
  if (blob === undefined) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of blob.content) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

/** The export as its files are named after it. */
type NamedExport = Pick<StoredRecord<'log_export'>, 'organisationId' | 'id'>;

/** Everything that is stored of an export. */
export function exportFolder({ organisationId, id }: NamedExport): string {
  return `${organisationId}/${id}`;
}

/** Pieces of a run that is not finished, and the list of them. */
export function partsFolder(one: NamedExport, run: number): string {
  return `${exportFolder(one)}/parts-${run}`;
}

/** The finished file of a run. */
export function finishedFile(one: NamedExport, run: number, format: ExportFormat): string {
  return `${exportFolder(one)}/${run}/${savedAs(one, format)}`;
}

/** Under which people save it. */
export function savedAs({ id }: Pick<NamedExport, 'id'>, format: ExportFormat): string {
  return `logs-${id}.${format}`;
}
