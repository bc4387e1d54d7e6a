import { createHmac } from 'node:crypto';
import type { SignableRequest } from '../../core/ports/credentials.ts';
import { headerValue } from '../../core/ports/header-list.ts';
import { canonicalHeaders, canonicalRequest, hashOf, headerNames } from './canonical-request.ts';

/** Keys of AWS, of a user or for a while. */
export interface AwsKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface SigV4SignerOptions {
  readonly keys: AwsKeys;
  /** `us-east-1`. */
  readonly region: string;
  /** The name by which AWS knows the service in signatures: `bedrock`, `sts`, `s3`. */
  readonly service: string;
  /**
   * Which headers of the request are covered, by lower-case name. Default `content-type`, `content-md5` and `x-amz-…`:
   * the others may be changed on the way. `host` always is.
   */
  readonly covers?: (name: string) => boolean;
}

/**
 * Signs requests with AWS Signature Version 4. Segments of the path are encoded twice, as every service but S3 wants
 * it; for S3 the hash of the body goes along as `x-amz-content-sha256`.
 */
export class SigV4Signer {
  readonly #keys: AwsKeys;
  readonly #region: string;
  readonly #service: string;
  readonly #covers: (name: string) => boolean;
  /** Keys are derived per day; the one of the last day asked for. */
  #day = '';
  #dayKey = Buffer.alloc(0);

  constructor({ keys, region, service, covers = isCovered }: SigV4SignerOptions) {
    this.#keys = keys;
    this.#region = region;
    this.#service = service;
    this.#covers = covers;
  }

  /** The headers to set, flat: `authorization`, `x-amz-date` and what else the keys need. `nowMs`: wall clock. */
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
