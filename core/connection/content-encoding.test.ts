import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import zlib from 'node:zlib';
import { createDecoder, decodeWhole, codingOf } from './content-encoding.ts';

const text = 'some text '.repeat(500);
const encoded = {
  gzip: zlib.gzipSync(text),
  deflate: zlib.deflateSync(text),
  br: zlib.brotliCompressSync(text),
};

describe('content encodings', () => {
  const names: readonly [string | undefined, string][] = [
    [undefined, 'identity'],
    ['', 'identity'],
    ['Identity', 'identity'],
    ['gzip', 'gzip'],
    [' X-GZIP', 'gzip'],
    ['deflate', 'deflate'],
    ['BR', 'br'],
    ['zstd', 'unknown'],
    ['gzip, br', 'unknown'],
  ];
  for (const [header, coding] of names) {
    it(`${header} is ${coding}`, () => assert.equal(codingOf(header), coding));
  }

  for (const coding of ['gzip', 'deflate', 'br'] as const) {
    it(`${coding}: whole, within a bound`, async () => {
      assert.equal((await decodeWhole(encoded[coding], coding, text.length)).toString(), text);
      const tooLarge = { code: 'ERR_BUFFER_TOO_LARGE' };
      await assert.rejects(decodeWhole(encoded[coding], coding, text.length - 1), tooLarge);
      await assert.rejects(decodeWhole(encoded[coding].subarray(0, 20), coding, text.length));
    });

    it(`${coding}: what was flushed comes out at once`, async () => {
      const encoder =
        coding === 'gzip'
          ? zlib.createGzip()
          : coding === 'br'
            ? zlib.createBrotliCompress()
            : zlib.createDeflate();
      const decoder = createDecoder(coding);
      encoder.on('data', (chunk) => decoder.write(chunk));
      const first = new Promise<Buffer>((resolve) => decoder.once('data', resolve));
      encoder.write('data: first\n\n');
      encoder.flush();
      assert.equal((await first).toString(), 'data: first\n\n');
    });
  }
});
