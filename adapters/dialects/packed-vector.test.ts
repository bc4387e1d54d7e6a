import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodedVector } from './host-endpoints.ts';

test('base64 holds the numbers as little-endian floats of 32 bits', () => {
  const packed = encodedVector([1, -0.25, 3n, 'x'], 'base64');
  const bytes = Buffer.from(String(packed), 'base64');
  assert.deepEqual(
    [0, 4, 8, 12].map((at) => bytes.readFloatLE(at)),
    [1, -0.25, 0, 0],
  );
  assert.equal(bytes.length, 16);
});

test('any other form is the vector itself', () => {
  const vector = [1, 2];
  for (const format of ['float', undefined]) assert.equal(encodedVector(vector, format), vector);
});
