import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { wireHeaders } from './http-call.ts';

describe('wire headers', () => {
  it('returns the very list when there is nothing to remove', () => {
    const headers = ['authorization', 'Bearer x', 'content-length', '3', 'x-expect', '1'];
    assert.equal(wireHeaders(headers, false), headers);
  });

  const owned = ['Connection', 'keep-alive', 'Upgrade', 'Transfer-Encoding', 'EXPECT'];
  for (const name of owned) {
    it(`removes ${name} wherever it stands, in any case`, () => {
      const headers = [name, '1', 'x-a', '1', name.toLowerCase(), '2', 'x-b', '2', name.toUpperCase(), '3'];
      assert.deepEqual(wireHeaders(headers, false), ['x-a', '1', 'x-b', '2']);
    });
  }

  it('removes the length only when the transport knows it better', () => {
    const headers = ['Content-Length', '3', 'x-a', '1'];
    assert.deepEqual(wireHeaders(headers, true), ['x-a', '1']);
    assert.equal(wireHeaders(headers, false), headers);
  });
});
