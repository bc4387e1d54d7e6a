import { Type, type Static } from 'typebox';
import { Value } from 'typebox/value';
import type { Blobs } from '../../ports/exports.ts';
import { strict } from '../../config/schema-section.ts';
import { blobText } from './blob-text.ts';

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
  ...{ version: 1, seen: 0, rows: 0, bytes: 0, slices: 0, isWhole: false, parts: [] },
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
