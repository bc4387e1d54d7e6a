/** The administration API: every operation of the document that it serves, on an embedded store. */
import fc from 'fast-check';
import { openFuzzedRoutes } from '../property/fuzzed-routes.ts';
import { target, type FuzzTarget } from './target.ts';

/** Targets of this file. */
export const administrationTargets: readonly FuzzTarget[] = [
  target('administration-routes', async (closing) => {
    const operations = await openFuzzedRoutes(closing);
    const cases: fc.Arbitrary<{ operation: string; send: () => Promise<unknown> }>[] = [];
    for (const { name, requests, check } of operations) {
      const values = await requests();
      cases.push(values.map((request) => ({ operation: name, request, send: () => check(request) })));
    }
    return {
      values: fc.oneof(...cases),
      async check({ send }: { readonly send: () => Promise<unknown> }) {
        await send();
      },
    };
  }),
];
