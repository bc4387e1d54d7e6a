import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Analytics } from '../../core/ports/analytics.ts';
import { countOf, day, newToken } from './analytics-probe.ts';
import { bodyRow, hostileTexts, ndjson, requestRow } from './analytics-rows.ts';

/** Rows that were stored come back exactly, whatever they hold. */
export function storesRows(analytics: () => Analytics): void {
  test('answers a ping', () => analytics().ping());

  test('the ids that a table has in a window are told from the others', async () => {
    const organisation_id = randomUUID();
    const rows = Array.from({ length: 1500 }, () => requestRow({ organisation_id }));
    await analytics().insert('requests', ndjson(rows), newToken());
    const ids = rows.map(({ id }) => id);
    const strangers = Array.from({ length: 10 }, () => randomUUID());
    const found = await analytics().storedIds('requests', [...strangers, ...ids], day);
    assert.deepEqual([...found].sort(), [...ids].sort());
    assert.equal((await analytics().storedIds('bodies', ids, day)).size, 0);
    assert.equal((await analytics().storedIds('requests', ids, { from: 0, to: day.from })).size, 0);
    assert.equal((await analytics().storedIds('requests', [], day)).size, 0);
  });

  test('a row and its body come back as they were', async () => {
    const request = requestRow({
      organisation_id: randomUUID(),
      stream: true,
      resent: true,
      cost: '0.000000000001',
    });
    const body = bodyRow(request, { request: '{"a":1}', response: 'data: [DONE]\n\n', log_format: 'sse' });
    await analytics().insert('requests', ndjson([request]), newToken());
    const seen = { organisationId: request.organisation_id };
    assert.deepEqual(await analytics().requestById(request.id, day, seen), { request, body: undefined });
    await analytics().insert('bodies', ndjson([body]), newToken());
    assert.deepEqual(await analytics().requestById(request.id, day, seen), { request, body });
  });

  test('every text survives in every column that holds text', async () => {
    const organisation_id = randomUUID();
    const rows = hostileTexts.map((text) => {
      const texts = {
        model: text,
        path: text,
        error_message: text,
        user_agent: text,
        prompt: text,
        option: text,
        tries: text,
        decision: text,
        metadata: { [text]: text },
      };
      return requestRow({ organisation_id, ...texts });
    });
    const bodies = rows.map((row, i) =>
      bodyRow(row, { request: hostileTexts[i] ?? '', response: hostileTexts[i] ?? '' }),
    );
    await analytics().insert('requests', ndjson(rows), newToken());
    await analytics().insert('bodies', ndjson(bodies), newToken());
    for (const [i, request] of rows.entries()) {
      const found = await analytics().requestById(request.id, day, { organisationId: organisation_id });
      assert.deepEqual(found, { request, body: bodies[i] });
    }
  });

  test('half a surrogate pair does not keep a batch from being stored', async () => {
    const row = requestRow({ organisation_id: randomUUID(), model: 'half \ud800 pair' });
    await analytics().insert('requests', ndjson([row]), newToken());
    assert.equal(await countOf(analytics(), row.organisation_id), 1);
  });

  test('columns that the store does not know are left out', async () => {
    const row = requestRow({ organisation_id: randomUUID() });
    const newer = { ...row, added_in_a_later_version: { a: [1] } };
    await analytics().insert('requests', ndjson([newer]), newToken());
    const found = await analytics().requestById(row.id, day, { organisationId: row.organisation_id });
    assert.deepEqual(found?.request, row);
  });

  test('a batch of 20 MB is stored whole', async () => {
    const organisation_id = randomUUID();
    const rows = Array.from({ length: 20 }, () => requestRow({ organisation_id }));
    const bodies = rows.map((row, i) =>
      bodyRow(row, { request: `${i} `.repeat(600_000).slice(0, 1_048_576) }),
    );
    const bytes = ndjson(bodies);
    assert.ok(bytes.length >= 20_000_000);
    await analytics().insert('requests', ndjson(rows), newToken());
    await analytics().insert('bodies', bytes, newToken());
    for (const i of [0, 19]) {
      const found = await analytics().requestById((rows[i] as { id: string }).id, day, {
        organisationId: organisation_id,
      });
      assert.equal(found?.body?.request === bodies[i]?.request, true);
    }
  });

  test('nothing is stored of an empty batch', () =>
    analytics().insert('requests', new Uint8Array(), newToken()));
}
