import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Transform } from 'node:stream';

const gunzip = promisify(zlib.gunzip);
const inflate = promisify(zlib.inflate);
const brotli = promisify(zlib.brotliDecompress);

/** The encodings that can be decoded here. `identity` and nothing need no decoding. */
export type Coding = 'gzip' | 'deflate' | 'br';

/** Names a `content-encoding` header: its coding, `identity`, or `unknown` for one that cannot be decoded. */
export function codingOf(header: string | undefined): Coding | 'identity' | 'unknown' {
  const name = header?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity') return 'identity';
  if (name === 'gzip' || name === 'x-gzip') return 'gzip';
  return name === 'deflate' || name === 'br' ? name : 'unknown';
}

/** Decodes a whole body; rejects when it is damaged or when it would grow beyond `maxBytes`. */
export function decodeWhole(body: Buffer, coding: Coding, maxBytes: number): Promise<Buffer> {
  const options = { maxOutputLength: maxBytes };
  if (coding === 'gzip') return gunzip(body, options);
  return coding === 'br' ? brotli(body, options) : inflate(body, options);
}

/** A decoder for a stream. It emits what it can as early as it can. */
export function createDecoder(coding: Coding): Transform {
  if (coding === 'gzip') return zlib.createGunzip({ flush: zlib.constants.Z_SYNC_FLUSH });
  if (coding === 'br') return zlib.createBrotliDecompress({ flush: zlib.constants.BROTLI_OPERATION_FLUSH });
  return zlib.createInflate({ flush: zlib.constants.Z_SYNC_FLUSH });
}
