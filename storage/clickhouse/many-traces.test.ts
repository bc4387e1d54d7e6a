import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createClient, type ClickHouseClient } from '@clickhouse/client';
import type { RequestFilter, TimeWindow } from '../../core/ports/analytics.ts';
import { chanceOf } from '../../scripts/seed-demo/chance.ts';
import { dayStart, ndjson, requestRow, storedTime } from '../../tests/conformance/analytics-rows.ts';
import { newToken } from '../../tests/conformance/analytics-probe.ts';
import { chdbMissing, recordingLog, startTestChdb } from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { createAnalytics } from './create-analytics.ts';
import { selectOf } from './select.ts';
import { listings } from './list-logs.ts';

const hourMs = 3_600_000;
const days = 4;
const visibility = { organisationId: 'organisation' };
const whole: TimeWindow = { from: dayStart, to: dayStart + days * 24 * hourMs };

/** 3,000 requests in four days: of traces that last for minutes or for days, and of none. */
function rows(): object[] {
  const random = chanceOf(7);
  return Array.from({ length: 3000 }, (_, place) => {
    const lasting = Math.floor(random() * 30);
    const kind = random();
    return requestRow({
      organisation_id: visibility.organisationId,
      workspace_id: `workspace-${place % 3}`,
      trace_id: kind < 0.1 ? '' : kind < 0.4 ? `lasting-${lasting}` : `short-${Math.floor(place / 4)}`,
      created_at: storedTime(dayStart + Math.floor(((place + random()) / 3000) * days * 24 * hourMs)),
      status: random() < 0.03 ? 500 : 200,
      latency_ms: Math.floor(random() * 9000),
    });
  });
}

describe('traces that are looked for in parts of their window', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let closeEngine: () => Promise<void>;
  let client: ClickHouseClient;
  before(async () => {
    ({ engine, close: closeEngine } = await startTestChdb());
    const { url, username, password } = engine;
    const store = { url, username, password, database: 'traces' };
    const analytics = await createAnalytics({ ...store, log: recordingLog() });
    await analytics.insert('requests', ndjson(rows()), newToken());
    await analytics.close();
    client = createClient(store);
  });
  after(async () => {
    await client.close();
    await closeEngine();
  });

  const filters: readonly [string, RequestFilter | undefined][] = [
    ['all', undefined],
    ['those with an error', { statusCodes: [500] }],
    ['those of a workspace', { workspaces: ['workspace-1'] }],
    ['none', { statusCodes: [418] }],
  ];
  for (const [name, filter] of filters) {
    test(`are the same as those that are brought together at once: ${name}`, async () => {
      const ask = (window: TimeWindow, limit: number, offset: number, atOnce: number) =>
        listings.traces(selectOf(client), { window, visibility, filter, limit, offset }, atOnce);
      for (const window of [whole, { from: whole.from + 5 * hourMs, to: whole.to - 31 * hourMs }]) {
        const together = await ask(window, 500, 0, 1_000_000);
        assert.equal(together.rows.length, Math.min(together.total, 500));
        const inParts = await ask(window, 500, 0, -1);
        assert.deepEqual(inParts, together);
        for (const offset of [1, 7, 100, 480]) {
          const page = await ask(window, 9, offset, -1);
          assert.deepEqual(page, {
            total: together.total,
            rows: together.rows.slice(offset, offset + 9),
          });
        }
      }
    });
  }
});
