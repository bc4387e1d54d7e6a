import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Transform } from 'node:stream';

const gunzip = promisify(zlib.gunzip);
const inflate = promisify(zlib.inflate);
const brotli = promisify(zlib.brotliDecompress);

/** Some runtimes accept a truncated brotli body as complete. */
const noticesTornBrotli = refusesBeginning();

/** Supported encodings. `identity` and an absent header need no decoding. */
export type Coding = 'gzip' | 'deflate' | 'br';

/** Parses a `content-encoding` header: its coding, `identity`, or `unknown` for an unsupported one. */
export function codingOf(header: string | undefined): Coding | 'identity' | 'unknown' {
  const name = header?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity') return 'identity';
  if (name === 'gzip' || name === 'x-gzip') return 'gzip';
  return name === 'deflate' || name === 'br' ? name : 'unknown';
}

/** Most decoded bodies are shorter, and are decoded in one pass. */
const shortBytes = 262_144;

/**
 * Decodes a whole body; rejects when it is damaged or would exceed `maxBytes`. `hold` receives the number of bytes
 * before they are kept, and may throw: a few kilobytes can become megabytes.
 */
export async function decodeWhole(
  body: Buffer,
  coding: Coding,
  maxBytes: number,
  hold: (bytes: number) => void = () => undefined,
): Promise<Buffer> {
  if (coding !== 'br' || noticesTornBrotli) {
    try {
      const decoded = await decodeAtOnce(body, coding, Math.min(shortBytes, maxBytes));
      hold(decoded.length);
      return decoded;
    } catch (error) {
      const isLong = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
      if (!isLong || maxBytes <= shortBytes) throw error;
    }
  }
  return decodeInPieces(body, coding, maxBytes, hold);
}

function decodeAtOnce(body: Buffer, coding: Coding, maxOutputLength: number): Promise<Buffer> {
  if (coding === 'gzip') return gunzip(body, { maxOutputLength });
  return coding === 'deflate' ? inflate(body, { maxOutputLength }) : brotli(body, { maxOutputLength });
}

/** Decoder for a stream; emits as early as possible. */
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

async function decodeInPieces(
  body: Buffer,
  coding: Coding,
  maxBytes: number,
  hold: (bytes: number) => void,
): Promise<Buffer> {
  const isTornUnnoticed = coding === 'br' && !noticesTornBrotli;
  const decoder = decoderOf(coding);
  // One extra byte follows such a body: a decoder at its end ignores it, one that waits for more consumes it.
  decoder.end(isTornUnnoticed ? Buffer.concat([body, Buffer.alloc(1)]) : body);
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of decoder as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) {
      throw Object.assign(new RangeError(`More than ${maxBytes} bytes.`), { code: 'ERR_BUFFER_TOO_LARGE' });
    }
    hold(chunk.length);
    chunks.push(chunk);
  }
  if (isTornUnnoticed && decoder.bytesWritten > body.length)
    throw new Error('The brotli data end too early.');
  return Buffer.concat(chunks, size);
}

function decoderOf(coding: Coding): zlib.Gunzip | zlib.Inflate | zlib.BrotliDecompress {
  const chunkSize = 65_536;
  if (coding === 'gzip') return zlib.createGunzip({ chunkSize });
  return coding === 'deflate'
    ? zlib.createInflate({ chunkSize })
    : zlib.createBrotliDecompress({ chunkSize });
}
