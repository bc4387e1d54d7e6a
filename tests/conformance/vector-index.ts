import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Similar, VectorIndex, VectorPartition } from '../../core/ports/cache.ts';

/** One index under test. */
interface VectorIndexUnderTest {
  readonly index: VectorIndex;
  close(): void | Promise<void>;
}

const here: VectorPartition = { organisationId: 'org-1', digest: 'here' };
const bounds = { ttlMs: 60_000, maxEntries: 100 };
const vector = (...values: number[]): Float32Array => Float32Array.from(values);

/** What every index of vectors promises. `open` makes one that is empty. */
export function vectorIndexConformance(
  name: string,
  open: (t: TestContext) => VectorIndexUnderTest | Promise<VectorIndexUnderTest>,
): void {
  describe(name, () => {
    const check = (what: string, run: (index: VectorIndex) => Promise<void>): void =>
      void test(what, async (t) => {
        const { index, close } = await open(t);
        t.after(() => close());
        await run(index);
      });
    const near = (found: Similar | undefined, id: string, similarity: number): void => {
      assert.equal(found?.id, id);
      assert.ok(Math.abs(found.similarity - similarity) < 1e-4, `${found.similarity} is not ${similarity}`);
    };

    check('finds the most similar one, whatever the lengths', async (index) => {
      await index.add(here, 'east', vector(10, 0), bounds);
      await index.add(here, 'north', vector(0, 0.1), bounds);
      await index.add(here, 'north-east', vector(1, 1), bounds);
      near(await index.nearest(here, vector(0.001, 0), 0.9), 'east', 1);
      near(await index.nearest(here, vector(3, 4), 0.9), 'north-east', 7 / Math.sqrt(50));
    });

    check('finds nothing that is less similar than wanted', async (index) => {
      await index.add(here, 'east', vector(1, 0), bounds);
      near(await index.nearest(here, vector(4, 3), 0.79), 'east', 0.8);
      assert.equal(await index.nearest(here, vector(4, 3), 0.81), undefined);
      assert.equal(await index.nearest(here, vector(-1, 0), 0), undefined);
    });

    check('keeps partitions apart', async (index) => {
      await index.add(here, 'a', vector(1, 0), bounds);
      for (const other of [
        { ...here, digest: 'there' },
        { ...here, organisationId: 'org-2' },
      ]) {
        assert.equal(await index.nearest(other, vector(1, 0), 0), undefined);
        await index.remove(other, 'a');
      }
      near(await index.nearest(here, vector(1, 0), 0.9), 'a', 1);
    });

    check('a vector replaces that of the same id', async (index) => {
      await index.add(here, 'a', vector(1, 0), bounds);
      await index.add(here, 'a', vector(0, 1), bounds);
      assert.equal(await index.nearest(here, vector(1, 0), 0.9), undefined);
      near(await index.nearest(here, vector(0, 1), 0.9), 'a', 1);
    });

    check('what is removed is not found', async (index) => {
      await index.add(here, 'a', vector(1, 0), bounds);
      await index.add(here, 'b', vector(1, 0.1), bounds);
      await index.remove(here, 'a');
      await index.remove(here, 'never there');
      assert.equal((await index.nearest(here, vector(1, 0), 0.9))?.id, 'b');
    });

    check('what points nowhere, or has no time, is not kept', async (index) => {
      await index.add(here, 'zero', vector(0, 0), bounds);
      await index.add(here, 'none', vector(), bounds);
      await index.add(here, 'nan', vector(NaN, 1), bounds);
      await index.add(here, 'late', vector(1, 0), { ...bounds, ttlMs: 0 });
      assert.equal(await index.nearest(here, vector(1, 0), 0), undefined);
      await index.add(here, 'a', vector(1, 0), bounds);
      assert.equal(await index.nearest(here, vector(0, 0), 0), undefined);
    });
  });
}
