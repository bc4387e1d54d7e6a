// For every caller, route of logs and analytics, and filter: the answer is that of a store which
// holds the allowed rows and no others.
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { chdbMissing, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { dayStart } from '../conformance/analytics-rows.ts';
import { startAdministration, type Administration } from '../kit/administration-kit.ts';
import { openAnalyticsOfFile } from '../kit/embedded-analytics.ts';
import { contributedRoutes } from '../kit/openapi-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { plantLogs } from './planted-logs.ts';
import { sameAnswer } from './same-answer.ts';
import { asks, directoryOf, keyOf, sentWith, type Ask, viewed } from './visibility-asks.ts';

const runsPerRoute = Number(process.env['WEIR_PROPERTY_RUNS'] ?? 24);
const seed = Number(process.env['WEIR_PROPERTY_SEED'] ?? randomInt(1, 1_000_000));
const dayMs = 86_400_000;

/** What the tests of single routes look into: an answer that goes on, and files that are made later. */
const elsewhere = /^(logs\.stream|log_exports\.)/;

/** Routes that show rows, or what is counted of them. */
function showsRows({ id, method, scope }: RouteDefinition): boolean {
  const scopes = [scope].flat();
  return method === 'GET' && !elsewhere.test(id) && scopes.some((one) => /^(analytics|logs)\./.test(one));
}

/** Asks, and follows the answer to its second page if there is one; both as text. */
async function pages(call: Administration['call'], key: KeyRecord, path: string, query: object) {
  const get = (more: object) =>
    call(key, { path: `${path}?${String(new URLSearchParams({ ...query, ...more }))}` });
  const first = await get({});
  const cursor = first.status === 200 ? (first.json() as { next_cursor?: string }).next_cursor : undefined;
  if (!cursor || 'current_page' in query) return { status: first.status, texts: [first.text] };
  const second = await get({ cursor });
  assert.equal(second.status, 200, second.text);
  return { status: first.status, texts: [first.text, second.text] };
}

test('whatever is asked, hidden rows change nothing', { skip: chdbMissing }, async (t) => {
  const analytics = await openAnalyticsOfFile();
  const planted = await plantLogs(analytics, seed);
  let current: Ask | undefined;
  const { call, gateway } = await startAdministration(t, undefined, {
    analytics,
    clock: { ...testClock, now: () => dayStart + dayMs },
    directory: directoryOf(() => current as Ask, planted.organisations),
  });
  const routes = (await contributedRoutes()).filter(showsRows);
  assert.ok(routes.length > 30, `only ${routes.length} routes show rows`);
  for (const [number, route] of routes.entries()) {
    await t.test(`${route.method} ${route.path}`, async (own) => {
      const seen = { refused: 0, limited: 0, other: 0 };
      const property = fc.asyncProperty(asks(route, planted), async (ask) => {
        current = ask;
        const view = viewed(ask, planted.organisations, route);
        const { query, path } = ask;
        const answer = await pages(call, keyOf(ask, planted.organisations), path, sentWith(ask));
        const about = `seed ${seed}; ${JSON.stringify(ask)}; ${JSON.stringify(gateway.lines.slice(-2))}`;
        if (typeof view === 'number') {
          seen.refused++;
          assert.equal(answer.status, view, `${answer.texts.join()} ${about}`);
          return;
        }
        if (Object.keys(view).length === 3) seen.limited++;
        else seen.other++;
        const mirror = planted.mirrorOf(view);
        const omniscient = testKey({ kind: 'owner', organisationId: mirror.organisation, id: 'omniscient' });
        const expected = await pages(call, omniscient, mirror.mirrored(path), query);
        assert.equal(answer.status, expected.status, `${answer.texts.join()} ${about}`);
        assert.ok([200, 404].includes(answer.status), `${answer.texts.join()} ${about}`);
        assert.equal(answer.texts.length, expected.texts.length, about);
        for (const [index, text] of answer.texts.entries()) {
          const difference = sameAnswer(text, mirror.unmirrored(expected.texts[index] as string));
          assert.equal(difference, undefined, `${difference} ${about}`);
        }
      });
      const found = await fc.check(property, {
        numRuns: runsPerRoute,
        endOnFailure: true,
        seed: seed + number,
      });
      if (found.failed)
        assert.fail(`path ${found.counterexamplePath}: ${String(found.errorInstance).slice(0, 3000)}`);
      own.diagnostic(JSON.stringify(seen));
    });
  }
});
