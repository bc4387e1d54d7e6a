import type { SignableRequest } from '../../core/ports/credentials.ts';

/** Signs requests to a store that speaks S3. Holds secrets. */
export interface S3Signer {
  /** The headers to set, flat. */
  sign(request: SignableRequest): readonly string[];
  /** An address with which anybody may read for a while. `path` with its query. */
  presign(origin: string, path: string, seconds: number): string;
}

/** Where a bucket is, and in what part of it files are kept. */
export interface S3Place {
  /** Scheme, host and port. */
  readonly origin: string;
  /** Empty, or the path of the bucket without a slash behind it. */
  readonly base: string;
  /** Empty, or ends with a slash. */
  readonly prefix: string;
}
