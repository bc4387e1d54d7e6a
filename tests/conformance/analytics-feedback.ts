import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Analytics, FeedbackQuery } from '../../core/ports/analytics.ts';
import type { FeedbackRow } from '../../core/ports/request-row.ts';
import { day, newToken } from './analytics-probe.ts';
import { ndjson, requestRow, storedTime } from './analytics-rows.ts';

/** Feedback is found as its highest revision says, exactly once, by those who may see it. */
export function keepsFeedback(analytics: () => Analytics): void {
  const made = (overrides: Partial<FeedbackRow> = {}): FeedbackRow => {
    const id = randomUUID();
    return {
      id,
      feedback_id: id,
      created_at: timeWithin(day),
      revision: 1,
      organisation_id: randomUUID(),
      workspace_id: 'ws',
      api_key_id: 'key',
      user_id: 'ann',
      trace_id: "tr'ace",
      value: -10,
      weight: 0.1,
      metadata: '{"a":"\\u0000"}',
      ...overrides,
    };
  };
  const placeOf = ({ organisation_id: organisationId }: FeedbackRow) => ({ organisationId });

  test('feedback comes back as its highest revision says, whatever comes first', async () => {
    const first = made();
    const third = { ...first, id: randomUUID(), revision: 3, value: 10, weight: 1 };
    const second = { ...first, id: randomUUID(), revision: 2, value: 0 };
    for (const row of [third, first, second]) await analytics().insert('feedback', ndjson([row]), newToken());
    assert.deepEqual(await analytics().feedbackById(first.feedback_id, day, placeOf(first)), third);
    const ids = [first.id, second.id, third.id];
    assert.deepEqual([...(await analytics().storedIds('feedback', ids, day))].sort(), [...ids].sort());
  });

  test('a token stores feedback once', async () => {
    const row = made();
    const token = newToken();
    for (let count = 0; count < 3; count++) await analytics().insert('feedback', ndjson([row]), token);
    assert.deepEqual(await analytics().feedbackById(row.feedback_id, day, placeOf(row)), row);
  });

  test('feedback is listed as its highest revision says, the newest first, by value and by its requests', async () => {
    const organisation_id = randomUUID();
    const at = (ms: number) => storedTime(day.from + 3_600_000 + ms);
    const request = requestRow({ organisation_id, created_at: at(0), trace_id: 'rated', model: 'm-1' });
    const other = requestRow({ organisation_id, created_at: at(0), trace_id: 'also', model: 'm-2' });
    const bad = made({ organisation_id, created_at: at(1), trace_id: 'rated', value: -5 });
    const good = made({ organisation_id, created_at: at(2), trace_id: 'also', value: 5, user_id: 'bob' });
    const changed = {
      ...bad,
      id: randomUUID(),
      created_at: at(3),
      revision: 2,
      value: -7,
      metadata: '{"b":1}',
    };
    const before = made({ organisation_id, created_at: storedTime(day.from - 1) });
    await analytics().insert('requests', ndjson([request, other]), newToken());
    await analytics().insert('feedback', ndjson([changed, bad, good, before]), newToken());
    const base = { window: day, visibility: { organisationId: organisation_id }, limit: 10, offset: 0 };
    const givenAt = (row: FeedbackRow) => Date.parse(`${row.created_at.replace(' ', 'T')}Z`);
    const both = [
      { row: good, givenAt: givenAt(good) },
      { row: changed, givenAt: givenAt(bad) },
    ];
    assert.deepEqual(await analytics().feedback(base), { total: 2, rows: both });
    assert.deepEqual(await analytics().feedback({ ...base, limit: 1, offset: 1 }), {
      total: 2,
      rows: both.slice(1),
    });
    assert.deepEqual(await analytics().feedback({ ...base, offset: 5 }), { total: 2, rows: [] });
    const idsOf = async (query: Partial<FeedbackQuery>) =>
      (await analytics().feedback({ ...base, ...query })).rows.map(({ row }) => row.id);
    assert.deepEqual(await idsOf({ value: { max: -6 } }), [changed.id]);
    assert.deepEqual(await idsOf({ value: { min: -5 } }), [good.id]);
    assert.deepEqual(await idsOf({ filter: { models: ['m-1'] } }), [changed.id]);
    assert.deepEqual(await idsOf({ visibility: { ...base.visibility, userId: 'bob' } }), [good.id]);
    assert.deepEqual(await idsOf({ visibility: { organisationId: randomUUID() } }), []);
    assert.deepEqual(await idsOf({ window: { from: day.from, to: day.from + 1 } }), []);
  });

  test('feedback of others is not there', async () => {
    const row = made();
    await analytics().insert('feedback', ndjson([row]), newToken());
    const { organisation_id: organisationId, feedback_id: id } = row;
    for (const visibility of [
      { organisationId: randomUUID() },
      { organisationId, workspaceId: 'other' },
      { organisationId, userId: 'bob' },
    ])
      assert.equal(await analytics().feedbackById(id, day, visibility), undefined);
    assert.ok(await analytics().feedbackById(id, day, { organisationId, workspaceId: 'ws' }));
    assert.equal(await analytics().feedbackById(id, { from: 0, to: day.from }, placeOf(row)), undefined);
    assert.equal(await analytics().feedbackById("' OR 1", day, placeOf(row)), undefined);
  });
}

function timeWithin({ from }: { readonly from: number }): string {
  return new Date(from + 1234).toISOString().replace('T', ' ').slice(0, -1);
}
