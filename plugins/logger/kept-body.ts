import zlib from 'node:zlib';
import type { Transform } from 'node:stream';

/** As much of a body as is kept. */
export interface KeptBody {
  readonly bytes: Buffer;
  readonly truncated: boolean;
}

const empty = Buffer.alloc(0);

/**
 * At most `maxBytes` of a body, cut between characters and freed from gzip, br or deflate. A promise only when
 * something has to be decoded. An unknown or damaged encoding is kept as it is.
 */
export function keepBody(
  body: Buffer = empty,
  options: { readonly encoding: string; readonly truncated: boolean; readonly maxBytes: number },
): KeptBody | Promise<KeptBody> {
  const { encoding, truncated, maxBytes } = options;
  const decoder = body.length > 0 && encoding !== '' ? decoderFor(encoding, body) : undefined;
  return decoder === undefined
    ? cutBody(body, truncated, maxBytes)
    : decode(decoder, body, truncated, maxBytes);
}

/** At most `maxBytes` of a body, cut between characters. */
export function cutBody(body: Buffer, truncated: boolean, maxBytes: number): KeptBody {
  if (body.length > maxBytes) return { bytes: wholeCharacters(body.subarray(0, maxBytes)), truncated: true };
  return { bytes: truncated ? wholeCharacters(body) : body, truncated };
}

/** Drops a UTF-8 character that the end of the bytes cuts in two. */
function wholeCharacters(bytes: Buffer): Buffer {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}

function decoderFor(encoding: string, body: Buffer): Transform | undefined {
  const name = encoding.trim().toLowerCase();
  if (name === 'br')
    return zlib.createBrotliDecompress({ finishFlush: zlib.constants.BROTLI_OPERATION_FLUSH });
  // What was kept may end anywhere; flushing at the end gives what there is instead of an error.
  const options = { finishFlush: zlib.constants.Z_SYNC_FLUSH };
  if (name === 'gzip' || name === 'x-gzip') return zlib.createGunzip(options);
  if (name !== 'deflate') return undefined;
  // Some servers send bare deflate data under this name; the zlib wrapper begins with method 8.
  const isWrapped = ((body[0] as number) & 0x0f) === 8;
  return isWrapped ? zlib.createInflate(options) : zlib.createInflateRaw(options);
}

/** Stops at the bound, so that a small body cannot unfold into a large one, and keeps what came before any damage. */
function decode(decoder: Transform, body: Buffer, truncated: boolean, maxBytes: number): Promise<KeptBody> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const finish = (complete: boolean): void => {
      if (length === 0 && !complete) resolve(cutBody(body, truncated, maxBytes));
      else resolve(cutBody(Buffer.concat(chunks), truncated || !complete, maxBytes));
    };
    decoder.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length <= maxBytes) return;
      decoder.removeAllListeners('end').destroy();
      finish(true);
    });
    decoder.on('end', () => finish(true));
    decoder.on('error', () => finish(false));
    decoder.end(body);
  });
}
