import { createHash } from 'node:crypto';
import type { Blobs, FileFormat } from '../../ports/exports.ts';
import type { ExportField } from '../../ports/export-fields.ts';
import { blobText } from './blob-text.ts';
import { ExportFailure } from './export-failure.ts';
import type { Manifest, ManifestPart } from './manifest.ts';

/** What a file is put together from. */
interface Assembly {
  readonly blobs: Blobs;
  readonly format: FileFormat;
  readonly fields: readonly ExportField[];
  readonly manifest: Manifest;
  /** Of the file. */
  readonly name: string;
  readonly signal: AbortSignal;
}

/**
 * Puts the parts together to the file, reading each part and checking that it is what was stored. Resolves to the
 * length of the file. Throws `ExportFailure` when a part is gone or damaged.
 */
export async function assembleFile(assembly: Assembly): Promise<number> {
  const { blobs, name, signal } = assembly;
  return blobs.write(name, contentOf(assembly), { signal });
}

async function* contentOf({ blobs, format, fields, manifest }: Assembly): AsyncGenerator<Uint8Array> {
  for (const part of manifest.parts) yield* checkedPart(blobs, part);
  const tail = await format.tail(fields, notesOf(blobs, manifest.parts), manifest.bytes);
  if (tail.length > 0) yield tail;
}

async function* checkedPart(blobs: Blobs, { name, bytes, sha256 }: ManifestPart): AsyncGenerator<Buffer> {
  const blob = await blobs.read(name);
  if (blob?.bytes !== bytes) throw damaged();
  const hash = createHash('sha256');
  for await (const chunk of blob.content) {
    hash.update(chunk);
    yield chunk;
  }
  if (hash.digest('hex') !== sha256) throw damaged();
}

async function* notesOf(blobs: Blobs, parts: readonly ManifestPart[]): AsyncGenerator<string> {
  for (const { notes } of parts) {
    if (notes === undefined) continue;
    const text = await blobText(blobs, notes);
    if (text === undefined) throw damaged();
    yield* JSON.parse(text) as readonly string[];
  }
}

function damaged(): ExportFailure {
  return new ExportFailure(
    'A part of the export is not as it was stored, or gone. Start the export again; if that does not help, look at the store that exports.url names.',
  );
}
