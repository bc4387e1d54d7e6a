import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { VectorPartition } from '../../core/ports/cache.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { vectorIndexConformance } from '../../tests/conformance/vector-index.ts';
import { createMemoryVectorIndex } from './vector-index.ts';

const here: VectorPartition = { organisationId: 'org-1', digest: 'here' };
const vector = (...values: number[]): Float32Array => Float32Array.from(values);

function open() {
  const clock = new ManualClock();
  return { clock, index: createMemoryVectorIndex({ clock }) };
}

vectorIndexConformance('vectors in memory', () => ({ index: open().index, close: () => undefined }));

test('vectors of another length are not compared', () => {
  const { index } = open();
  index.add(here, 'a', vector(1, 0), { ttlMs: 1000, maxEntries: 10 });
  assert.equal(index.nearest(here, vector(1, 0, 0), 0), undefined);
});

test('a vector holds to the last millisecond and not longer, and is given back', () => {
  const { index, clock } = open();
  index.add(here, 'a', vector(1, 0), { ttlMs: 1000, maxEntries: 10 });
  clock.advance(999);
  assert.equal(index.nearest(here, vector(1, 0), 0.9)?.id, 'a');
  clock.advance(1);
  assert.equal(index.nearest(here, vector(1, 0), 0.9), undefined);
  assert.equal(index.size, 0);
});

test('the one used longest ago leaves first, whatever its partition; being found is being used', () => {
  const { index } = open();
  const bounds = { ttlMs: 1000, maxEntries: 3 };
  const there = { ...here, digest: 'there' };
  index.add(here, 'a', vector(1, 0), bounds);
  index.add(there, 'b', vector(1, 0), bounds);
  index.add(here, 'c', vector(0, 1), bounds);
  index.nearest(here, vector(1, 0), 0.9);
  index.add(there, 'd', vector(0, 1), bounds);
  assert.equal(index.size, 3);
  assert.equal(index.nearest(there, vector(1, 0), 0.9), undefined, 'b has left');
  assert.equal(index.nearest(here, vector(1, 0), 0.9)?.id, 'a');
});

test('one partition holds 5,000 at the most', () => {
  const { index } = open();
  const bounds = { ttlMs: 1000, maxEntries: 1_000_000 };
  for (let i = 0; i < 5000; i++)
    index.add(here, `v${i}`, vector(Math.cos(i / 1000), Math.sin(i / 1000)), bounds);
  assert.equal(index.nearest(here, vector(1, 0), 0.999999)?.id, 'v0');
  index.add(here, 'new', vector(-1, 0), bounds);
  assert.equal(index.size, 5000);
  assert.equal(index.nearest(here, vector(1, 0), 0.9999999)?.id, 'v0', 'it was just used');
  index.add({ ...here, digest: 'there' }, 'other', vector(1, 0), bounds);
  assert.equal(index.size, 5001);
});

test('finds what comparing with all of them finds', () => {
  const values = fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 9, maxLength: 9 });
  const cosine = (a: readonly number[], b: readonly number[]): number => {
    const dot = (x: readonly number[], y: readonly number[]) =>
      x.reduce((sum, value, at) => sum + value * (y[at] as number), 0);
    return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  };
  fc.assert(
    fc.property(
      fc.array(values, { maxLength: 30 }),
      values,
      fc.double({ min: 0, max: 1, noNaN: true }),
      (all, asked, threshold) => {
        const { index } = open();
        all.forEach((one, at) =>
          index.add(here, String(at), vector(...one), { ttlMs: 1000, maxEntries: 100 }),
        );
        const found = index.nearest(here, vector(...asked), threshold);
        const best = Math.max(
          -1,
          ...all.map((one) => cosine(one, asked)).filter((one) => !Number.isNaN(one)),
        );
        // 32-bit numbers decide differently only where the difference is theirs.
        if (Math.abs(best - threshold) < 1e-5) return;
        assert.equal(found !== undefined, best >= threshold);
        if (found !== undefined) assert.ok(Math.abs(found.similarity - best) < 1e-5);
      },
    ),
    { numRuns: 300 },
  );
});
