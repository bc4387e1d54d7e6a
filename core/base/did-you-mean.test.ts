import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { didYouMean, editDistance } from './did-you-mean.ts';

describe('didYouMean', () => {
  const keys = ['plugins', 'pipelines', 'base_path', 'port', 'host', 'header_prefix'];
  for (const [written, meant] of [
    ['pluginz', 'plugins'],
    ['pulgins', 'plugins'],
    ['prot', 'port'],
    ['pipeline', 'pipelines'],
    ['Base-Path', 'base_path'],
    ['headerprefx', 'header_prefix'],
    ['banana', undefined],
    ['x', undefined],
    ['', undefined],
    ['p'.repeat(10_000), undefined],
  ] as const)
    it(`takes "${written.slice(0, 20)}" for ${meant ?? 'nothing'}`, () =>
      assert.equal(didYouMean(written, keys), meant));

  it('prefers the nearest', () => assert.equal(didYouMean('portt', ['sport', 'portable', 'port']), 'port'));

  it('looks at a bounded number of candidates', () => {
    const many = [...Array.from({ length: 1000 }, (_, index) => `unlike-${index}-anything`), 'port'];
    assert.equal(didYouMean('prot', many), undefined);
  });
});

describe('editDistance', () => {
  it('counts a swap of neighbours as one', () => assert.equal(editDistance('ab', 'ba', 3), 1));

  it('is symmetric, zero only for equal words, and capped', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 8 });
    fc.assert(
      fc.property(word, word, fc.integer({ min: 0, max: 4 }), (one, other, limit) => {
        const distance = editDistance(one, other, 20);
        assert.equal(distance, editDistance(other, one, 20));
        assert.equal(distance === 0, one === other);
        assert.equal(editDistance(one, other, limit), Math.min(distance, limit + 1));
      }),
    );
  });
});
