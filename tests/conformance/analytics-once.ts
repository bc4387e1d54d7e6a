import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Analytics } from '../../core/ports/analytics.ts';
import { countOf, newToken } from './analytics-probe.ts';
import { ndjson, requestRow, storedTime } from './analytics-rows.ts';

/** A batch that is sent again with its token is stored once. */
export function storesExactlyOnce(analytics: () => Analytics): void {
  test('a batch sent again with its token is stored once', async () => {
    const organisation_id = randomUUID();
    const rows = ndjson([requestRow({ organisation_id }), requestRow({ organisation_id })]);
    const token = newToken();
    for (let i = 0; i < 4; i += 1) await analytics().insert('requests', rows, token);
    assert.equal(await countOf(analytics(), organisation_id), 2);
    await analytics().insert('requests', rows, newToken());
    assert.equal(await countOf(analytics(), organisation_id), 4, 'another token is another batch');
  });

  test('a batch sent several times at once with its token is stored once', async () => {
    const organisation_id = randomUUID();
    const rows = ndjson([requestRow({ organisation_id })]);
    const token = newToken();
    await Promise.all(Array.from({ length: 6 }, () => analytics().insert('requests', rows, token)));
    assert.equal(await countOf(analytics(), organisation_id), 1);
  });

  test('a batch that crosses a day, a month and a year is stored once', async () => {
    const organisation_id = randomUUID();
    const midnight = Date.UTC(2027, 0, 1);
    const rows = [midnight - 1, midnight, midnight + 86_400_000].map((time) =>
      requestRow({ organisation_id, created_at: storedTime(time) }),
    );
    const token = newToken();
    for (let i = 0; i < 3; i += 1) await analytics().insert('requests', ndjson(rows), token);
    assert.equal(await countOf(analytics(), organisation_id), 3);
  });

  test('many batches later a token is still remembered', async () => {
    const organisation_id = randomUUID();
    const rows = ndjson([requestRow({ organisation_id })]);
    const tokens = Array.from({ length: 110 }, newToken);
    for (const token of tokens) await analytics().insert('requests', rows, token);
    await analytics().insert('requests', rows, tokens[0] as string);
    assert.equal(await countOf(analytics(), organisation_id), 110);
  });
}
