import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { describe, test } from 'node:test';
import zlib from 'node:zlib';
import fc from 'fast-check';
import { keepBody } from './index.ts';

const text = 'Grüße, 你好 😀! '.repeat(20);
const plain = Buffer.from(text);
const keep = (body: Buffer | undefined, encoding = '', { truncated = false, maxBytes = 10_000 } = {}) =>
  keepBody(body, { encoding, truncated, maxBytes });

describe('a kept body: encodings', () => {
  const cases: [string, Buffer][] = [
    ['gzip', zlib.gzipSync(plain)],
    ['X-GZIP', zlib.gzipSync(plain)],
    ['br', zlib.brotliCompressSync(plain)],
    ['deflate', zlib.deflateSync(plain)],
    ['deflate', zlib.deflateRawSync(plain)],
  ];
  for (const [encoding, body] of cases) {
    test(`${encoding} is decoded`, async () => {
      assert.deepEqual(await keep(body, encoding), { bytes: plain, truncated: false });
    });

    test(`${encoding}, cut anywhere: what there is, whole characters, never a failure`, async () => {
      for (let length = 1; length < body.length; length += 1) {
        const kept = await keep(body.subarray(0, length), encoding, { truncated: true });
        assert.equal(kept.truncated, true);
        assert.ok(plain.subarray(0, kept.bytes.length).equals(kept.bytes) || kept.bytes.length <= length);
      }
      const almost = await keep(body.subarray(0, body.length - 1), encoding, { truncated: true });
      assert.ok(almost.bytes.length > 0);
    });
  }

  test('a small body that unfolds into a large one stops at the bound', async () => {
    const bomb = zlib.gzipSync(Buffer.alloc(50_000_000, 'a'));
    const kept = await keep(bomb, 'gzip', { maxBytes: 1000 });
    assert.deepEqual(kept, { bytes: Buffer.alloc(1000, 'a'), truncated: true });
  });

  test('an unknown or damaged encoding is kept as it is', async () => {
    assert.deepEqual(await keep(plain, 'zstd'), { bytes: plain, truncated: false });
    assert.deepEqual(await keep(plain, 'gzip, br'), { bytes: plain, truncated: false });
    assert.deepEqual(await keep(plain, 'gzip'), { bytes: plain, truncated: false });
  });

  test('without an encoding nothing waits, and nothing is copied', () => {
    const kept = keep(plain);
    assert.ok(!('then' in kept));
    assert.equal(kept.bytes, plain);
    assert.deepEqual(keep(undefined), { bytes: Buffer.alloc(0), truncated: false });
    assert.deepEqual(keep(Buffer.alloc(0), 'gzip'), { bytes: Buffer.alloc(0), truncated: false });
  });
});

describe('a kept body: the bound', () => {
  for (const [length, truncated] of [
    [9, false],
    [10, false],
    [11, true],
  ] as const) {
    test(`${length} of 10 bytes`, async () => {
      const kept = await keep(Buffer.alloc(length, 'a'), '', { maxBytes: 10 });
      assert.deepEqual(kept, { bytes: Buffer.alloc(Math.min(length, 10), 'a'), truncated });
    });
  }

  test('never cuts a character in two, and drops no more than that character', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), fc.nat(40), async (value, maxBytes) => {
        const body = Buffer.from(value);
        const { bytes } = await keep(body, '', { maxBytes });
        assert.ok(isUtf8(bytes));
        assert.ok(body.subarray(0, bytes.length).equals(bytes));
        assert.ok(bytes.length <= maxBytes && bytes.length > Math.min(maxBytes, body.length) - 4);
      }),
    );
  });

  test('repairs the end of what the pipeline had cut', async () => {
    const torn = Buffer.from('aé').subarray(0, 2);
    assert.deepEqual(await keep(torn, '', { truncated: true }), { bytes: Buffer.from('a'), truncated: true });
  });
});
