import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { GrowingBytes } from './deliver-stream.ts';

test('any chunks: their bytes in order, up to the bound; what did not fit is told', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 6000 }), { maxLength: 12 }),
      fc.nat(20_000),
      (chunks, maxBytes) => {
        const kept = new GrowingBytes(maxBytes);
        const whole = chunks.map((chunk) => kept.append(Buffer.from(chunk)));
        const all = Buffer.concat(chunks);
        assert.deepEqual(kept.bytes ?? Buffer.alloc(0), all.subarray(0, maxBytes));
        assert.equal(whole.every(Boolean), all.length <= maxBytes);
      },
    ),
  );
});

test('the bytes are a copy', () => {
  const chunk = Buffer.from('abc');
  const kept = new GrowingBytes(10);
  kept.append(chunk);
  chunk.fill(0);
  assert.equal(kept.bytes?.toString(), 'abc');
});

test('little takes little room, and what goes on is not copied at every chunk', () => {
  const kept = new GrowingBytes(100_000);
  const rooms = new Set<number | undefined>();
  for (let length = 0; length < 8000; length += 200) {
    kept.append(Buffer.alloc(200));
    rooms.add(kept.bytes?.buffer.byteLength);
  }
  assert.deepEqual([...rooms], [512, 4096, 8192]);
});
