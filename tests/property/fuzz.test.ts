import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { openFuzzedRoutes } from './fuzzed-routes.ts';

/** Requests per operation. */
const runs = Number(process.env['WEIR_FUZZ_RUNS'] ?? 8);

test('requests made of the served document', async (t) => {
  for (const operation of await openFuzzedRoutes(t)) {
    await t.test(operation.name, async (own) => {
      const statuses = new Map<number, number>();
      const property = fc.asyncProperty(await operation.requests(), async (request) => {
        const status = await operation.check(request);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      });
      const found = await fc.check(property, { numRuns: runs, interruptAfterTimeLimit: 60_000 });
      const { seed, counterexamplePath, errorInstance } = found;
      if (found.failed) assert.fail(`seed ${seed}, path ${counterexamplePath}: ${String(errorInstance)}`);
      own.diagnostic(
        [...statuses]
          .sort()
          .map(([status, count]) => `${status}: ${count}`)
          .join(', '),
      );
    });
  }
});
