import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { InformationalFilter } from './connection.ts';

const final = 'HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nabcdef';

/** What comes out when `text` arrives cut at `cuts`. */
function filtered(text: string, cuts: readonly number[]): string {
  const filter = new InformationalFilter();
  filter.arm();
  const bounds = [0, ...[...cuts].sort((a, b) => a - b), text.length];
  let out = '';
  for (let i = 1; i < bounds.length; i += 1) {
    const piece = text.slice(bounds[i - 1], bounds[i]);
    if (piece !== '') out += filter.pass(Buffer.from(piece, 'latin1'))?.toString('latin1') ?? '';
  }
  return out;
}

describe('informational filter', () => {
  it('takes every informational head out and nothing else, wherever the bytes are cut', () => {
    const informational = fc.constantFrom(
      'HTTP/1.1 100 Continue\r\n\r\n',
      'HTTP/1.0 100 Continue\r\n\r\n',
      'HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\nx: y\r\n\r\n',
    );
    fc.assert(
      fc.property(
        fc.array(informational, { maxLength: 4 }),
        fc.array(fc.nat(400), { maxLength: 8 }),
        (heads, cuts) => {
          const text = heads.join('') + final;
          const within = cuts.map((cut) => cut % text.length);
          assert.equal(filtered(text, within), final);
        },
      ),
    );
  });

  it('passes every byte of what is no informational head', () => {
    for (const text of ['x', 'HTTP/2', 'garbage\r\n\r\n', 'HTTP/1.1 101 Switching\r\n\r\n', 'HTTP/1.1 abc']) {
      assert.equal(filtered(text, []), text);
    }
  });

  it('holds no more than 16 KiB', () => {
    const filter = new InformationalFilter();
    filter.arm();
    const piece = Buffer.from(`HTTP/1.1 103 Early Hints\r\nx: ${'y'.repeat(9_000)}`);
    assert.equal(filter.pass(piece), undefined);
    assert.equal(filter.pass(Buffer.alloc(9_000, 'y'))?.length, piece.length + 9_000);
  });

  it('leaves bytes alone until it is armed', () => {
    const bytes = Buffer.from('HTTP/1.1 100 Continue\r\n\r\n');
    assert.equal(new InformationalFilter().pass(bytes), bytes);
  });
});
