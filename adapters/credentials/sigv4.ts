import { createHash, createHmac } from 'node:crypto';
import type { SignableRequest } from '../../core/ports/credentials.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import { decodePercent } from '../../core/base/percent.ts';

/** The request that a presigned address allows. */
interface PresignedRequest {
  readonly method: string;
  /** Scheme, host and port. */
  readonly origin: string;
  /** Path with its query, encoded as it is sent. */
  readonly path: string;
  /** Lifetime of the address: 1 to 604,800 seconds. */
  readonly seconds: number;
}

/** Longest lifetime that AWS accepts, in seconds. */
const maxLifetimeSeconds = 604_800;

/** An address that allows its holder this one S3 request until it expires (Signature Version 4 in the query). */
export function presign(
  { method, origin, path, seconds }: PresignedRequest,
  { keys, region }: { readonly keys: AwsKeys; readonly region: string },
  nowMs: number,
): string {
  const time = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`;
  const added = new URLSearchParams({
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${keys.accessKeyId}/${scope}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(Math.min(maxLifetimeSeconds, Math.max(1, Math.floor(seconds)))),
    'X-Amz-SignedHeaders': 'host',
    ...(keys.sessionToken !== undefined && { 'X-Amz-Security-Token': keys.sessionToken }),
  });
  const whole = `${path}${path.includes('?') ? '&' : '?'}${added.toString()}`;
  const signed = canonicalHeaders(['host', new URL(origin).host]);
  const canonical = canonicalRequest(
    { method, origin, path: whole, headers: [], body: null },
    ...([signed, 'UNSIGNED-PAYLOAD', false] as const),
  );
  const toSign = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hashOf(canonical)}`;
  const dayKey = [time.slice(0, 8), region, 's3', 'aws4_request'].reduce<string | Buffer>(
    (key, part) => createHmac('sha256', key).update(part).digest(),
    `AWS4${keys.secretAccessKey}`,
  );
  const signature = createHmac('sha256', dayKey).update(toSign).digest('hex');
  return `${origin}${whole}&X-Amz-Signature=${signature}`;
}

/** Permanent or temporary AWS keys. */
export interface AwsKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

interface SigV4SignerOptions {
  readonly keys: AwsKeys;
  /** `us-east-1`. */
  readonly region: string;
  /** Name of the service in signatures: `bedrock`, `sts`, `s3`. */
  readonly service: string;
  /**
   * Selects the signed headers by lower-case name. Default `content-type`, `content-md5` and `x-amz-…`; intermediaries
   * may change the others. `host` is always signed.
   */
  readonly covers?: (name: string) => boolean;
}

/**
 * Signs requests with AWS Signature Version 4. Path segments are encoded twice, as every service except S3 requires;
 * for S3 the hash of the body is sent as `x-amz-content-sha256`.
 */
export class SigV4Signer {
  readonly #keys: AwsKeys;
  readonly #region: string;
  readonly #service: string;
  readonly #covers: (name: string) => boolean;
  /** Signing keys are derived per day; the most recent day is cached. */
  #day = '';
  #dayKey = Buffer.alloc(0);

  constructor({ keys, region, service, covers = isCovered }: SigV4SignerOptions) {
    this.#keys = keys;
    this.#region = region;
    this.#service = service;
    this.#covers = covers;
  }

  /** Headers to set, flat: `authorization`, `x-amz-date` and others that the keys need. `nowMs`: wall clock. */
  sign(request: SignableRequest, nowMs: number): string[] {
    const time = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '');
    const payloadHash = hashOf(request.body ?? '');
    const added = ['x-amz-date', time];
    if (this.#keys.sessionToken !== undefined) added.push('x-amz-security-token', this.#keys.sessionToken);
    if (this.#service === 's3') added.push('x-amz-content-sha256', payloadHash);
    const signed = canonicalHeaders([...this.#covered(request), ...added]);
    const canonical = canonicalRequest(request, signed, payloadHash, this.#service !== 's3');
    const scope = `${time.slice(0, 8)}/${this.#region}/${this.#service}/aws4_request`;
    const toSign = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hashOf(canonical)}`;
    const signature = hmac(this.#keyOf(time.slice(0, 8)), toSign).toString('hex');
    const authorization =
      `AWS4-HMAC-SHA256 Credential=${this.#keys.accessKeyId}/${scope}, ` +
      `SignedHeaders=${headerNames(signed)}, Signature=${signature}`;
    return [...added, 'authorization', authorization];
  }

  #covered({ origin, headers }: SignableRequest): string[] {
    const covered = ['host', headerValue(headers, 'host') ?? new URL(origin).host];
    for (let i = 0; i < headers.length; i += 2) {
      const name = (headers[i] as string).toLowerCase();
      if (!replaced.has(name) && this.#covers(name)) covered.push(name, headers[i + 1] as string);
    }
    return covered;
  }

  #keyOf(day: string): Buffer {
    if (this.#day !== day) {
      const dated = hmac(`AWS4${this.#keys.secretAccessKey}`, day);
      this.#dayKey = hmac(hmac(hmac(dated, this.#region), this.#service), 'aws4_request');
      this.#day = day;
    }
    return this.#dayKey;
  }
}

/** Set by the signature itself, or added already. */
const replaced: ReadonlySet<string> = new Set([
  'host',
  'authorization',
  'x-amz-date',
  'x-amz-security-token',
  'x-amz-content-sha256',
]);

function isCovered(name: string): boolean {
  return name === 'content-type' || name === 'content-md5' || name.startsWith('x-amz-');
}

function hmac(key: string | Buffer, text: string): Buffer<ArrayBuffer> {
  return createHmac('sha256', key).update(text).digest();
}

/** The headers that a signature covers, sorted, lower-case, with their values as they are signed. */
type SignedHeaders = readonly (readonly [name: string, value: string])[];

/** The text that signer and AWS must build identically (Signature Version 4, canonical request). */
function canonicalRequest(
  request: SignableRequest,
  signed: SignedHeaders,
  payloadHash: string,
  pathIsEncodedTwice: boolean,
): string {
  const [path = '', query = ''] = splitOnce(request.path);
  const headers = signed.map(([name, value]) => `${name}:${value}\n`).join('');
  return [
    request.method.toUpperCase(),
    pathIsEncodedTwice ? canonicalPath(path) : plainPath(path),
    canonicalQuery(query),
    headers,
    headerNames(signed),
    payloadHash,
  ].join('\n');
}

/** `content-type;host;x-amz-date`. */
function headerNames(signed: SignedHeaders): string {
  return signed.map(([name]) => name).join(';');
}

/** SHA-256 in hexadecimal. */
function hashOf(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/** Values of one name joined with commas, white space folded, sorted by name. `headers` is flat. */
function canonicalHeaders(headers: readonly string[]): SignedHeaders {
  const values = new Map<string, string>();
  for (let i = 0; i < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    const value = (headers[i + 1] as string).trim().replaceAll(/\s+/g, ' ');
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before},${value}`);
  }
  return [...values].sort(([a], [b]) => compare(a, b));
}

/** The path as sent, without dot segments and double slashes, each segment encoded once more. */
function canonicalPath(path: string): string {
  const segments: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(encode(segment));
  }
  const tail = segments.length > 0 && path.endsWith('/') ? '/' : '';
  return `/${segments.join('/')}${tail}`;
}

/** The path as S3 requires it: nothing removed, encoded once. */
function plainPath(path: string): string {
  return path
    .split('/')
    .map((segment) => encode(decodePercent(segment)))
    .join('/');
}

function canonicalQuery(query: string): string {
  if (query === '') return '';
  return query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const at = pair.indexOf('=');
      const [name, value] = at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
      return [encode(decodePercent(name)), encode(decodePercent(value))] as const;
    })
    .sort(([nameA, valueA], [nameB, valueB]) => compare(nameA, nameB) || compare(valueA, valueB))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

function splitOnce(path: string): string[] {
  const at = path.indexOf('?');
  return at === -1 ? [path] : [path.slice(0, at), path.slice(at + 1)];
}

/** Everything but the unreserved characters of RFC 3986, as upper-case hexadecimal of its UTF-8. */
function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
