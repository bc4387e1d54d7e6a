import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { childPointer, parentPointer, pointerSegments } from './json.ts';

it('gives back the segments that a pointer was made of', () => {
  fc.assert(
    fc.property(fc.array(fc.string()), (segments) => {
      const pointer = segments.reduce(childPointer, '');
      assert.deepEqual(pointerSegments(pointer), segments);
      assert.equal(parentPointer(pointer), segments.slice(0, -1).reduce(childPointer, ''));
    }),
  );
});
