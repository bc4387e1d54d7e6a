import type { Blobs } from '../../core/ports/exports.ts';
import { nameParts } from './file-blobs.ts';
import { S3Client, type S3ClientOptions } from './s3-client.ts';

/** Smallest part of an upload; a store accepts 10,000 parts of at least 5 MiB, so parts grow with the sent bytes. */
const partBytes = 8 * 1024 * 1024;
const growEvery = 1000;
const maxParts = 10_000;

/**
 * Stores a stream of any length, with one part of it in memory at a time. A blob up to the length of a part is sent in
 * one request; a longer upload is aborted when it fails midway.
 */
async function upload(
  client: S3Client,
  name: string,
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<number> {
  const parts = partsOf(content);
  const first = await parts.next();
  const body = first.done === true ? new Uint8Array(0) : first.value;
  if (body.length < partBytes) {
    await client.send({ method: 'PUT', name, body, signal });
    return body.length;
  }
  const id = await begin(client, name, signal);
  try {
    const tags: string[] = [];
    let bytes = 0;
    for (let part = body; ;) {
      if (tags.length === maxParts) throw new Error('The file is too long for the store of exported files.');
      const query = `partNumber=${tags.length + 1}&uploadId=${encodeURIComponent(id)}`;
      const { status, etag } = await client.send({ method: 'PUT', name, query, body: part, signal });
      if (status === 404) throw new Error('The store of exported files gave up the upload in between.');
      tags.push(etag);
      bytes += part.length;
      const next = await parts.next();
      if (next.done === true) break;
      part = next.value;
    }
    await complete(client, name, { id, tags }, signal);
    return bytes;
  } catch (error) {
    await abortUpload(client, name, id);
    throw error;
  }
}

async function begin(client: S3Client, name: string, signal: AbortSignal | undefined): Promise<string> {
  const { text } = await client.send({ method: 'POST', name, query: 'uploads=', signal });
  const id = /<UploadId>([^<]+)<\/UploadId>/.exec(text)?.[1];
  if (id !== undefined) return id;
  throw new Error('The store of exported files began no upload. Check exports.url: the bucket must exist.');
}

interface Uploaded {
  readonly id: string;
  readonly tags: readonly string[];
}

async function complete(
  client: S3Client,
  name: string,
  { id, tags }: Uploaded,
  signal: AbortSignal | undefined,
): Promise<void> {
  const parts = tags.map(
    (tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${escaped(tag)}</ETag></Part>`,
  );
  const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
  const query = `uploadId=${encodeURIComponent(id)}`;
  const { status } = await client.send({ method: 'POST', name, query, body, signal });
  if (status === 404) throw new Error('The store of exported files gave up the upload in between.');
}

/** Otherwise the store would keep and charge for orphaned parts. */
async function abortUpload(client: S3Client, name: string, id: string): Promise<void> {
  const query = `uploadId=${encodeURIComponent(id)}`;
  await client.send({ method: 'DELETE', name, query }).catch(() => undefined);
}

/** The content in equal parts, the last one shorter; after a thousand parts each next one is longer. */
async function* partsOf(
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = [];
  let bytes = 0;
  let sent = 0;
  for await (const chunk of content) {
    for (let rest = chunk; rest.length > 0;) {
      const wanted = partBytes * (1 + Math.floor(sent / growEvery));
      const piece = rest.subarray(0, wanted - bytes);
      held.push(piece);
      bytes += piece.length;
      rest = rest.subarray(piece.length);
      if (bytes < wanted) continue;
      yield Buffer.concat(held);
      sent += 1;
      held = [];
      bytes = 0;
    }
  }
  if (bytes > 0) yield Buffer.concat(held);
}

function escaped(tag: string): string {
  return tag.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
}

/** Concurrent removals. */
const removalsPerBatch = 8;

/** Files in a bucket of an S3-compatible store. Only the name of the bucket is needed. */
export function createS3Blobs(options: S3ClientOptions): Blobs {
  const client = new S3Client(options);
  const { prefix } = options.place;
  const checked = (name: string): string => nameParts(name).join('/');
  return {
    async write(name, content, { signal } = {}) {
      return upload(client, checked(name), content instanceof Uint8Array ? [content] : content, signal);
    },
    async read(name) {
      return client.download(checked(name));
    },
    async removeFolder(folder) {
      const named = `${prefix}${checked(folder)}/`;
      for (let names = await page(client, named); names.length > 0; names = await page(client, named)) {
        for (let at = 0; at < names.length; at += removalsPerBatch) {
          const some = names.slice(at, at + removalsPerBatch).map((name) => name.slice(prefix.length));
          await Promise.all(some.map((name) => client.send({ method: 'DELETE', name })));
        }
      }
    },
    link(name, { seconds, fileName, contentType }) {
      const disposition = encodeURIComponent(`attachment; filename="${fileName}"`);
      const query = `response-content-disposition=${disposition}&response-content-type=${encodeURIComponent(contentType)}`;
      return client.address(checked(name), query, seconds);
    },
    async ping() {
      const { status } = await client.send({ method: 'GET', name: '', query: 'list-type=2&max-keys=1' });
      if (status === 404) throw new Error('There is no such bucket. Check exports.url.');
    },
    close: () => client.close(),
  };
}

/** The next 1,000 names with this prefix; they are removed before the next page is requested. */
async function page(client: S3Client, prefix: string): Promise<readonly string[]> {
  const query = `list-type=2&prefix=${encodeURIComponent(prefix)}`;
  const { text } = await client.send({ method: 'GET', name: '', query });
  // The names of this store need no escaping in XML.
  return [...text.matchAll(/<Key>([^<]+)<\/Key>/g)]
    .map(([, name = '']) => name)
    .filter((name) => name.startsWith(prefix));
}
