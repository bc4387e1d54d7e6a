import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { FieldPath } from './field-path.ts';
import { hashFraction, hashOfFields, saltOf } from './strategies.ts';

describe('the fraction of a text', () => {
  it('is the same in every release: whoever changes these numbers moves every user', () => {
    assert.equal(hashFraction(''), 0.14637487536643812);
    assert.equal(hashFraction('user-1'), 0.19138424718856184);
    assert.equal(hashFraction('user-1', 7), 0.42246218486158194);
    assert.equal(hashFraction('żółć 🦊'), 0.3005977208633833);
    assert.equal(saltOf('config.targets[0]'), -524435776);
  });

  it('lies in [0, 1)', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.integer(), (text, salt) => {
        const fraction = hashFraction(text, salt);
        assert.ok(fraction >= 0 && fraction < 1);
      }),
    );
  });

  it('is spread evenly over texts that differ little', () => {
    const buckets = new Array<number>(20).fill(0);
    for (let user = 0; user < 40_000; user++) {
      const bucket = Math.floor(hashFraction(`6:user-${user}`) * 20);
      buckets[bucket] = (buckets[bucket] ?? 0) + 1;
    }
    for (const count of buckets) assert.ok(count > 1750 && count < 2250, buckets.join(' '));
  });

  it('under one salt says nothing of that under another', () => {
    const cells = new Map<string, number>();
    for (let user = 0; user < 16_000; user++) {
      const place = (salt: string) => Math.floor(hashFraction(`user-${user}`, saltOf(salt)) * 4);
      const cell = `${place('config.targets[0]')}${place('config.targets[1]')}`;
      cells.set(cell, (cells.get(cell) ?? 0) + 1);
    }
    assert.equal(cells.size, 16);
    for (const [cell, count] of cells) assert.ok(count > 850 && count < 1150, `${cell}: ${count}`);
  });

  it('differs between texts', () => {
    const seen = new Set<number>();
    for (let user = 0; user < 50_000; user++) seen.add(hashFraction(`user-${user}`));
    assert.equal(seen.size, 50_000);
  });
});

describe('the key of hash fields', () => {
  const keyOf = (...values: readonly unknown[]) =>
    hashOfFields(
      values.map((_, index): FieldPath => ['params', index]),
      (path) => values[Number(path[1])],
    );

  it('is none without any of the fields', () => {
    assert.equal(keyOf(undefined, undefined), undefined);
    assert.equal(keyOf(), undefined);
    assert.notEqual(keyOf(undefined, 'a'), undefined);
    assert.notEqual(keyOf(''), undefined);
  });

  it('takes a number for the text of its digits', () => {
    assert.equal(keyOf(3), keyOf('3'));
    assert.equal(keyOf(2n ** 60n), keyOf(String(2n ** 60n)));
    assert.equal(keyOf(true), keyOf('true'));
  });

  it('tells absent from empty, and one value from two', () => {
    const keys = [
      ['a', 'b'],
      ['ab', ''],
      ['', 'ab'],
      ['ab', undefined],
      [undefined, 'ab'],
      ['1:a', 'b'],
      ['a1:b', ''],
      ['-', 'a'],
      [['a', 'b'], undefined],
      [{ a: 'b' }, undefined],
      [{ a: 2n ** 60n }, undefined],
    ].map((values) => keyOf(...values));
    assert.equal(new Set(keys).size, keys.length);
  });

  it('is shared by no two lists of texts', () => {
    const list = fc.array(fc.option(fc.stringMatching(/^[-1:a]{0,4}$/), { nil: undefined }), {
      minLength: 3,
      maxLength: 3,
    });
    fc.assert(
      fc.property(list, list, (left, right) => {
        const same = left.every((value, index) => value === right[index]);
        const none = [...left, ...right].every((value) => value === undefined);
        assert.equal(keyOf(...left) === keyOf(...right), same || none);
      }),
      { numRuns: 2000 },
    );
  });

  it('is of bounded length', () => {
    const long = 'x'.repeat(100_000);
    assert.ok((keyOf(long)?.length ?? 0) <= 128);
    assert.notEqual(keyOf(long), keyOf(`${long}x`));
    assert.equal(keyOf(long), keyOf(long));
  });

  it('passes over what is nested deeper than anybody means', () => {
    const deep: unknown = JSON.parse('['.repeat(50_000) + ']'.repeat(50_000));
    assert.equal(keyOf(deep, 'a'), keyOf(undefined, 'a'));
  });
});
