import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Transform } from 'node:stream';

const gunzip = promisify(zlib.gunzip);
const inflate = promisify(zlib.inflate);
const brotli = promisify(zlib.brotliDecompress);

/** Not every runtime does: some take the beginning of a brotli body for the whole of it. */
const noticesTornBrotli = refusesBeginning();

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
  if (coding === 'deflate') return inflate(body, options);
  return noticesTornBrotli ? brotli(body, options) : untornBrotli(body, maxBytes);
}

/** A decoder for a stream. It emits what it can as early as it can. */
export function createDecoder(coding: Coding): Transform {
  if (coding === 'gzip') return zlib.createGunzip({ flush: zlib.constants.Z_SYNC_FLUSH });
  if (coding === 'br') return zlib.createBrotliDecompress({ flush: zlib.constants.BROTLI_OPERATION_FLUSH });
  return zlib.createInflate({ flush: zlib.constants.Z_SYNC_FLUSH });
}

function refusesBeginning(): boolean {
  try {
    zlib.brotliDecompressSync(zlib.brotliCompressSync('whole').subarray(0, 4));
    return false;
  } catch {
    return true;
  }
}

/** One byte follows the body: a decoder at its end leaves it alone, one that still waits for more takes it. */
async function untornBrotli(body: Buffer, maxBytes: number): Promise<Buffer> {
  const decoder = zlib.createBrotliDecompress();
  decoder.end(Buffer.concat([body, Buffer.alloc(1)]));
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of decoder as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) {
      throw Object.assign(new RangeError(`More than ${maxBytes} bytes.`), { code: 'ERR_BUFFER_TOO_LARGE' });
    }
    chunks.push(chunk);
  }
  if (decoder.bytesWritten > body.length) throw new Error('The brotli data end too early.');
  return Buffer.concat(chunks, size);
}
