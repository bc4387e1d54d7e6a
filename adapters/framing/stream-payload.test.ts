import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteStore } from './stream-payload.ts';

test('holds what was appended, in order, and nothing after it was taken', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), (parts) => {
      const store = new ByteStore();
      for (const part of parts) store.append(Buffer.from(part), 0, part.length);
      const expected = Buffer.concat(parts);
      assert.equal(store.length, expected.length);
      assert.deepEqual(store.bytes, expected);
      assert.deepEqual(store.take(), expected);
      assert.deepEqual([store.length, store.take().length], [0, 0]);
    }),
  );
});

test('one part is a view, and what was taken is not written over', () => {
  const store = new ByteStore();
  const chunk = Buffer.from('abc');
  store.append(chunk, 1, 3);
  const first = store.take();
  assert.equal(first.buffer, chunk.buffer);
  store.append(Buffer.from('x'), 0, 1);
  store.append(Buffer.from('y'), 0, 1);
  const second = store.take();
  store.append(Buffer.from('12'), 0, 2);
  store.append(Buffer.from('34'), 0, 2);
  assert.deepEqual([first.toString(), second.toString(), chunk.toString()], ['bc', 'xy', 'abc']);
});
