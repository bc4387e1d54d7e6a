// A caller who follows the log hears of the rows that they may see, and of no others.
import assert from 'node:assert/strict';
import { randomInt, randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { ndjson, requestRow, storedTime } from '../conformance/analytics-rows.ts';
import { startAdministration } from '../kit/administration-kit.ts';
import { openAnalyticsOfFile } from '../kit/embedded-analytics.ts';
import { begin } from '../kit/http-kit.ts';
import { contributedRoutes } from '../kit/openapi-kit.ts';
import { keys, users, workspaces } from './planted-logs.ts';
import { asks, directoryOf, keyOf, sentWith, viewed, type Ask } from './visibility-asks.ts';
import { isAllowed } from './visibility-model.ts';

const viewers = Number(process.env['WEIR_PROPERTY_RUNS'] ?? 24);
const seed = Number(process.env['WEIR_PROPERTY_SEED'] ?? randomInt(1, 1_000_000));
const organisations = [randomUUID(), randomUUID()];
const analytics = await openAnalyticsOfFile();

/** One row for everything that tells rows apart: whoever may see anything may see one of them. */
function everyOrigin(): RequestRow[] {
  const created_at = storedTime(Date.now());
  return organisations.flatMap((organisation_id) =>
    workspaces.flatMap((workspace_id) =>
      users.flatMap((user_id) =>
        keys.map((api_key_id) =>
          requestRow({ created_at, organisation_id, workspace_id, user_id, api_key_id }),
        ),
      ),
    ),
  );
}

/** Follows the log as the one who asks; the status, and the ids of the entries that have come so far. */
async function follow(t: TestContext, ask: Ask) {
  const directory = directoryOf(() => ask, organisations);
  const { call, gateway } = await startAdministration(t, undefined, { analytics, directory });
  const key = keyOf(ask, organisations);
  // The key is known to the gateway from its first call on.
  await call(key, { path: '/nothing' });
  const path = `/v1/logs/stream?${String(new URLSearchParams(sentWith(ask)))}`;
  const { request, response } = await begin(gateway.url, {
    path,
    headers: { 'x-service-api-key': `wk_${key.id}` },
  });
  t.after(() => request.destroy());
  let text = '';
  const heard = new Promise<void>((resolve) => response.once('data', () => resolve()));
  response.on('data', (bytes: Buffer) => (text += bytes.toString()));
  response.once('end', () => undefined);
  await heard;
  return { status: response.statusCode, told: () => text };
}

test('a stream of the log', { skip: chdbMissing, timeout: 120_000 }, async (t) => {
  const route = (await contributedRoutes()).find(({ id }) => id === 'logs.stream');
  assert.ok(route);
  const some = fc.sample(asks(route, { organisations, ids: [''] }), { numRuns: viewers, seed });
  const streams = [];
  for (const ask of some) streams.push({ ask, ...(await follow(t, { ...ask, query: {} })) });
  const rows = everyOrigin();
  await analytics.insert('requests', ndjson(rows), randomUUID());
  for (const { ask, status, told } of streams) {
    const about = `seed ${seed}: ${JSON.stringify(ask)}: ${told().slice(0, 300)}`;
    const view = viewed(ask, organisations, route);
    assert.equal(status, typeof view === 'number' ? view : 200, about);
    if (typeof view === 'number') continue;
    const allowed = rows.filter((row) => isAllowed(view, row)).map(({ id }) => id);
    while (!allowed.every((id) => told().includes(id)))
      await new Promise((resolve) => setTimeout(resolve, 50));
    const heard = rows.map(({ id }) => id).filter((id) => told().includes(id));
    assert.deepEqual(heard, allowed, about);
  }
});
