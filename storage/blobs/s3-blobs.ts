import { setTimeout as wait } from 'node:timers/promises';
import { Agent } from 'undici';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { SignableRequest } from '../../core/ports/credentials.ts';
import type { Blobs, StoredBlob } from '../../core/ports/exports.ts';
import type { ExportSettings } from '../../core/ports/request-row.ts';
import { nameParts } from './file-blobs.ts';

/**
 * Upper bound of attempts per request, and the wait before the second; the wait doubles each time, minus a random part
 * of up to half.
 */
const maxAttempts = 5;
const firstWaitMs = 200;
const connectTimeoutMs = 10_000;
const answerTimeoutMs = 60_000;
/** Of answers other than files: lists have at most 1,000 names. */
const maxAnswerBytes = 4 * 1024 * 1024;

/** Options of `S3Client`. */
interface S3ClientOptions {
  readonly place: S3Place;
  readonly signer: S3Signer;
  /** Default 200 ms. */
  readonly firstWaitMs?: number;
}

/** One request. `name` is empty for requests to the bucket itself. */
interface S3Request {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  readonly name: string;
  /** Encoded, without `?`. */
  readonly query?: string;
  readonly body?: Uint8Array;
  readonly signal?: AbortSignal | undefined;
}

/** A whole answer with a status below 300, or 404. */
interface S3Answer {
  readonly status: number;
  readonly etag: string;
  readonly text: string;
}

type Response = Awaited<ReturnType<Agent['request']>>;

/** Signed requests to a bucket, retried when the store fails or is busy. Redirects are not followed. */
class S3Client {
  readonly #options: S3ClientOptions;
  readonly #agent = new Agent({
    connect: { timeout: connectTimeoutMs },
    headersTimeout: answerTimeoutMs,
    bodyTimeout: answerTimeoutMs,
    connections: 16,
  });

  constructor(options: S3ClientOptions) {
    this.#options = options;
  }

  /** Rejects with `store_unavailable` when a later retry may succeed, else with an error that names the remedy. */
  send(request: S3Request): Promise<S3Answer> {
    return this.#retried(request, async (response) => {
      const { statusCode: status, headers, body } = response;
      const text = await boundedText(body);
      if (status >= 300 && status !== 404) throw refusal(status, text);
      // A copy or completion that fails after its answer has started has status 200.
      if (status < 300 && /<Error>/.test(text)) throw refusal(500, text);
      return { status, etag: String(headers['etag'] ?? ''), text };
    });
  }

  /** Undefined when there is no such file. */
  download(name: string): Promise<StoredBlob | undefined> {
    return this.#retried({ method: 'GET', name }, async ({ statusCode: status, headers, body }) => {
      if (status === 200)
        return { bytes: Number(headers['content-length'] ?? 0), content: body as AsyncIterable<Buffer> };
      const text = await boundedText(body);
      if (status === 404) return undefined;
      throw refusal(status, text);
    });
  }

  /** A presigned address of a file. `query`: further query parameters, encoded. */
  address(name: string, query: string, seconds: number): string {
    const { place, signer } = this.#options;
    return signer.presign(place.origin, `${this.#path(name)}?${query}`, seconds);
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #retried<T>(request: S3Request, take: (response: Response) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await take(await this.#once(request));
      } catch (error) {
        request.signal?.throwIfAborted();
        const isLast = attempt === maxAttempts;
        if (error instanceof S3Refusal && !error.isTransient) throw error;
        if (isLast) throw unavailable(error);
        const { firstWaitMs: first = firstWaitMs } = this.#options;
        const ms = first * 2 ** (attempt - 1);
        await wait(ms - (ms / 2) * Math.random(), undefined, { signal: request.signal });
      }
    }
  }

  #once({ method, name, query = '', body, signal }: S3Request): Promise<Response> {
    const { place, signer } = this.#options;
    const path = `${this.#path(name)}${query === '' ? '' : `?${query}`}`;
    const plain = ['host', new URL(place.origin).host];
    const headers = signer.sign({ method, origin: place.origin, path, headers: plain, body: body ?? null });
    return this.#agent.request({
      origin: place.origin,
      path,
      method,
      headers: [...headers],
      body: body ?? null,
      ...(signal !== undefined && { signal }),
    });
  }

  #path(name: string): string {
    const { base, prefix } = this.#options.place;
    if (name === '') return base === '' ? '/' : base;
    return `${base}/${prefix}${name}`;
  }
}

/** Refusal of the store. Only its code is kept: the message may hold names and addresses. */
class S3Refusal extends Error {
  readonly isTransient: boolean;

  constructor(status: number, code: string) {
    super(
      `The store of exported files refused a request with ${status} ${code}. Check exports.url, its region and its credentials.`,
    );
    this.name = 'S3Refusal';
    const isClock = code === 'RequestTimeTooSkewed';
    this.isTransient =
      status >= 500 || status === 429 || status === 408 || code === 'RequestTimeout' || isClock;
  }
}

function refusal(status: number, text: string): S3Refusal {
  return new S3Refusal(status, /<Code>(\w{1,64})<\/Code>/.exec(text)?.[1] ?? '');
}

function unavailable(cause: unknown): GatewayError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined;
  const reason =
    cause instanceof S3Refusal ? cause.message : `the connection failed (${code ?? 'no answer'})`;
  return new GatewayError('store_unavailable', `The store of exported files is not available: ${reason}.`, {
    cause,
  });
}

async function boundedText(body: Response['body']): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxAnswerBytes) throw new Error('The store of exported files answers with too much.');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Location of `s3://BUCKET/PREFIX`, given the settings of its store. */
export function s3Place({ url, region, endpoint, path_style: pathStyle }: ExportSettings): S3Place {
  const [bucket = '', ...folders] = url.slice('s3://'.length).split('/');
  const prefix = folders.filter((folder) => folder !== '').join('/');
  const server = new URL(endpoint === '' ? `https://s3.${region}.amazonaws.com` : endpoint);
  const isInPath = pathStyle || bucket.includes('.');
  if (!isInPath) server.host = `${bucket}.${server.host}`;
  return {
    origin: server.origin,
    base: isInPath ? `/${bucket}` : '',
    prefix: prefix === '' ? '' : `${prefix}/`,
  };
}

/** Signs requests to an S3-compatible store. Holds secrets. */
interface S3Signer {
  /** The headers to set, flat. */
  sign(request: SignableRequest): readonly string[];
  /** An address that allows its holder to read until it expires. `path` with its query. */
  presign(origin: string, path: string, seconds: number): string;
}

/** Location of a bucket, and the prefix of its files. */
interface S3Place {
  /** Scheme, host and port. */
  readonly origin: string;
  /** Empty, or the path of the bucket without a trailing slash. */
  readonly base: string;
  /** Empty, or ends with a slash. */
  readonly prefix: string;
}

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
