import type { Blobs } from '../../core/ports/exports.ts';
import { nameParts } from './blob-name.ts';
import { S3Client, type S3ClientOptions } from './s3-client.ts';
import { upload } from './s3-upload.ts';

/** Removed at the same time. */
const removedAtOnce = 8;

/** Files in a bucket of a store that speaks S3. Beside the files it needs no more of a bucket than its name. */
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
        for (let at = 0; at < names.length; at += removedAtOnce) {
          const some = names.slice(at, at + removedAtOnce).map((name) => name.slice(prefix.length));
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

/** The next 1,000 names that begin like this; they are removed before the next ones are asked for. */
async function page(client: S3Client, prefix: string): Promise<readonly string[]> {
  const query = `list-type=2&prefix=${encodeURIComponent(prefix)}`;
  const { text } = await client.send({ method: 'GET', name: '', query });
  // Names of ours need no escaping in XML.
  return [...text.matchAll(/<Key>([^<]+)<\/Key>/g)]
    .map(([, name = '']) => name)
    .filter((name) => name.startsWith(prefix));
}
