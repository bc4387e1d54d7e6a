import type { Blobs } from '../../ports/exports.ts';

/** The whole of a small blob, as text; undefined when there is none. */
export async function blobText(blobs: Blobs, name: string): Promise<string | undefined> {
  const blob = await blobs.read(name);
  if (blob === undefined) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of blob.content) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}
