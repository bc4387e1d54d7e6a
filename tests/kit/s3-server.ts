/** A server that speaks the part of S3 that files need, as strictly as AWS does: signatures, parts, tags, missing names. */
import { createHash, createHmac, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a request is answered with instead: an error of S3, no answer at all, or an error within an answer of 200. */
type S3Fault = { readonly status: number; readonly code: string } | 'reset' | 'error within 200';

interface S3Request {
  readonly method: string;
  /** Without the bucket. */
  readonly name: string;
  readonly query: URLSearchParams;
  readonly bytes: number;
}

const leastPart = 5 * 1024 * 1024;
const sha = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex');
const tagOf = (data: Uint8Array): string => `"${createHash('md5').update(data).digest('hex')}"`;

export class S3Server {
  readonly bucket = 'weir-exports';
  readonly keys = { accessKeyId: 'AKIATEST', secretAccessKey: 'a secret that only the two know' };
  readonly region = 'eu-test-1';
  /** By name. */
  readonly objects = new Map<string, Buffer>();
  readonly uploads = new Map<string, { readonly name: string; readonly parts: Map<number, Buffer> }>();
  readonly requests: S3Request[] = [];
  /** Asked for every request that is signed as it should be. */
  fault: (request: S3Request) => S3Fault | undefined = () => undefined;
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      void this.#serve(request, response);
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const [path = '', query = ''] = (request.url ?? '').split('?');
    const asked = {
      method: request.method ?? '',
      query: new URLSearchParams(query),
      bytes: body.length,
      name: decodeURIComponent(path).slice(`/${this.bucket}/`.length),
    };
    this.requests.push(asked);
    if (!path.startsWith(`/${this.bucket}`)) return refuse(response, 404, 'NoSuchBucket');
    const wrong = asked.query.has('X-Amz-Signature')
      ? this.#presignMistake(request, path, query)
      : this.#signatureMistake(request, path, query, body);
    if (wrong !== undefined) return refuse(response, 403, wrong);
    const fault = this.fault(asked);
    if (fault === 'reset') return void request.socket.destroy();
    if (fault === 'error within 200') return refuse(response, 200, 'InternalError');
    if (fault !== undefined) return refuse(response, fault.status, fault.code);
    this.#answer(asked, body, response);
  }

  #answer({ method, name, query }: S3Request, body: Buffer, response: ServerResponse): void {
    const uploadId = query.get('uploadId');
    const upload = uploadId === null ? undefined : this.uploads.get(uploadId);
    if (uploadId !== null && upload?.name !== name) return refuse(response, 404, 'NoSuchUpload');
    if (method === 'GET' && name === '') return this.#list(query, response);
    if (method === 'GET') return this.#get(name, query, response);
    if (method === 'POST' && query.has('uploads')) {
      const id = `upload/${randomUUID()}`;
      this.uploads.set(id, { name, parts: new Map() });
      return reply(response, 200, `<R><UploadId>${id}</UploadId></R>`);
    }
    if (method === 'PUT' && upload !== undefined) {
      upload.parts.set(Number(query.get('partNumber')), body);
      return reply(response, 200, '', { etag: tagOf(body) });
    }
    if (method === 'PUT') {
      this.objects.set(name, body);
      return reply(response, 200, '', { etag: tagOf(body) });
    }
    if (method === 'POST' && upload !== undefined && uploadId !== null)
      return this.#complete(uploadId, body.toString(), response);
    if (method === 'DELETE' && uploadId !== null) this.uploads.delete(uploadId);
    else if (method === 'DELETE') this.objects.delete(name);
    else return refuse(response, 400, 'InvalidRequest');
    return reply(response, 204, '');
  }

  #complete(id: string, xml: string, response: ServerResponse): void {
    const { name, parts } = this.uploads.get(id) ?? { name: '', parts: new Map<number, Buffer>() };
    const named = [...xml.matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>([^<]+)<\/ETag>/g)];
    const pieces: Buffer[] = [];
    let last = 0;
    for (const [, number = '', tag = ''] of named) {
      const part = parts.get(Number(number));
      if (part === undefined || tagOf(part) !== tag.replaceAll('&quot;', '"'))
        return refuse(response, 400, 'InvalidPart');
      if (Number(number) <= last) return refuse(response, 400, 'InvalidPartOrder');
      last = Number(number);
      pieces.push(part);
    }
    if (pieces.slice(0, -1).some((piece) => piece.length < leastPart))
      return refuse(response, 400, 'EntityTooSmall');
    this.objects.set(name, Buffer.concat(pieces));
    this.uploads.delete(id);
    return reply(response, 200, '<CompleteMultipartUploadResult/>');
  }

  #get(name: string, query: URLSearchParams, response: ServerResponse): void {
    const found = this.objects.get(name);
    if (found === undefined) return refuse(response, 404, 'NoSuchKey');
    const disposition = query.get('response-content-disposition');
    response.writeHead(200, {
      'content-length': found.length,
      ...(disposition !== null && { 'content-disposition': disposition }),
      'content-type': query.get('response-content-type') ?? 'application/octet-stream',
    });
    response.end(found);
  }

  #list(query: URLSearchParams, response: ServerResponse): void {
    const prefix = query.get('prefix') ?? '';
    const most = Number(query.get('max-keys') ?? 1000);
    const names = [...this.objects.keys()].filter((name) => name.startsWith(prefix)).sort();
    const keys = names.slice(0, most).map((name) => `<Contents><Key>${name}</Key></Contents>`);
    return reply(response, 200, `<ListBucketResult>${keys.join('')}</ListBucketResult>`);
  }

  #signatureMistake(request: IncomingMessage, path: string, query: string, body: Buffer): string | undefined {
    const [, credential = '', names = '', signature = ''] =
      /^AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
        request.headers.authorization ?? '',
      ) ?? [];
    if (request.headers['x-amz-content-sha256'] !== sha(body)) return 'XAmzContentSHA256Mismatch';
    if (!['host', 'x-amz-content-sha256', 'x-amz-date'].every((name) => names.split(';').includes(name)))
      return 'AccessDenied';
    const lines = names.split(';').map((name) => `${name}:${String(request.headers[name])}\n`);
    const canonical = [...[request.method, path, sortedQuery(query), lines.join(''), names, sha(body)]].join(
      '\n',
    );
    const time = String(request.headers['x-amz-date']);
    return this.#isSigned({ credential, time, canonical, signature }) ? undefined : 'SignatureDoesNotMatch';
  }

  #presignMistake(request: IncomingMessage, path: string, query: string): string | undefined {
    const said = new URLSearchParams(query);
    const time = said.get('X-Amz-Date') ?? '';
    const at = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
    if (this.now() > at + Number(said.get('X-Amz-Expires')) * 1000) return 'AccessDenied';
    const unsigned = query.replace(/&X-Amz-Signature=.*$/, '');
    const host = `host:${String(request.headers.host)}\n`;
    const canonical = [
      ...[request.method, path, sortedQuery(unsigned), host, 'host', 'UNSIGNED-PAYLOAD'],
    ].join('\n');
    const credential = said.get('X-Amz-Credential') ?? '';
    const signature = said.get('X-Amz-Signature') ?? '';
    return this.#isSigned({ credential, time, canonical, signature }) ? undefined : 'SignatureDoesNotMatch';
  }

  /** The server's clock. */
  now: () => number = () => Date.now();

  #isSigned(said: {
    readonly credential: string;
    readonly time: string;
    readonly canonical: string;
    readonly signature: string;
  }): boolean {
    const [id, ...scope] = said.credential.split('/');
    const day = said.time.slice(0, 8);
    if (id !== this.keys.accessKeyId || scope.join('/') !== `${day}/${this.region}/s3/aws4_request`)
      return false;
    let key: Buffer | string = `AWS4${this.keys.secretAccessKey}`;
    for (const part of scope) key = createHmac('sha256', key).update(part).digest();
    const text = `AWS4-HMAC-SHA256\n${said.time}\n${scope.join('/')}\n${sha(said.canonical)}`;
    return createHmac('sha256', key).update(text).digest('hex') === said.signature;
  }
}

/** As AWS sorts it: by name, each `name=value` as it was sent. */
function sortedQuery(query: string): string {
  const pairs = query.split('&').filter((pair) => pair !== '');
  return pairs
    .map((pair) => (pair.includes('=') ? pair : `${pair}=`))
    .sort((a, b) => (a < b ? -1 : 1))
    .join('&');
}

function reply(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/xml', ...headers });
  response.end(text);
}

function refuse(response: ServerResponse, status: number, code: string): void {
  reply(response, status, `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`);
}
