import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import type { Analytics } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { hasCode, newToken } from './analytics-probe.ts';
import { dayStart, hostileTexts, ndjson, requestRow, storedTime } from './analytics-rows.ts';

/** What keys used is the sum of their own requests since a moment of their own. */
export function countsUsageOfKeys(analytics: () => Analytics): void {
  const organisation_id = randomUUID();
  const visibility = { organisationId: organisation_id };
  const to = dayStart + 10_000;
  const row = (api_key_id: string, at: number, given: Partial<RequestRow> = {}): RequestRow =>
    requestRow({ organisation_id, api_key_id, created_at: storedTime(dayStart + at), ...given });

  before(async () => {
    const rows = [
      row('a', 1000, { cost: '0.100000000001', total_tokens: 5 }),
      row('a', 2000, { cost: '0.200000000002', total_tokens: 7, workspace_id: 'other', user_id: 'ann' }),
      row('b', 1000, { cost: '900000.000000000001', total_tokens: 9_000_000_000 }),
      row('b', 9999, { cost: '0.000000000001', total_tokens: 1 }),
      row('b', 10_000, { cost: '5.000000000000', total_tokens: 1 }),
      row('', 1000, { cost: '7.000000000000', total_tokens: 7 }),
      ...hostileTexts.map((key) => row(key, 1000, { cost: '1.000000000000', total_tokens: 3 })),
      row('a', 2000, { organisation_id: randomUUID(), cost: '50.000000000000' }),
    ];
    await analytics().insert('requests', ndjson(rows), newToken());
  });

  const cases: [name: string, since: Record<string, number>, expected: Record<string, unknown>][] = [
    [
      'each key from its own moment, which counts, until the end, which does not',
      { a: 2000, b: 1000, unused: 0 },
      {
        a: { cost: '0.200000000002', tokens: 7 },
        b: { cost: '900000.000000000002', tokens: 9_000_000_001 },
      },
    ],
    ['nothing before it', { a: 1001, b: 10_000 }, { a: { cost: '0.200000000002', tokens: 7 } }],
    ['a moment before all time', { a: -dayStart - 1 }, { a: { cost: '0.300000000003', tokens: 12 } }],
    ['no keys', {}, {}],
  ];
  for (const [name, since, expected] of cases) {
    test(`usage of keys: ${name}`, async () => {
      const keys = Object.entries(since).map(([id, at]) => ({ id, since: dayStart + at }));
      const used = await analytics().usageOfKeys({ keys, to, visibility });
      assert.deepEqual(Object.fromEntries(used), expected);
    });
  }

  test('usage of keys: ids are never taken for anything else', async () => {
    const keys = hostileTexts.map((id) => ({ id, since: dayStart }));
    const used = await analytics().usageOfKeys({ keys, to, visibility });
    assert.deepEqual(new Set(used.keys()), new Set(hostileTexts));
    for (const usage of used.values()) assert.deepEqual(usage, { cost: '1.000000000000', tokens: 3 });
  });

  test('usage of keys: only of rows that may be seen', async () => {
    const keys = [{ id: 'a', since: dayStart }];
    const tokens = async (more: object): Promise<number | undefined> =>
      (await analytics().usageOfKeys({ keys, to, visibility: { ...visibility, ...more } })).get('a')?.tokens;
    assert.equal(await tokens({}), 12);
    assert.equal(await tokens({ workspaceId: 'other' }), 7);
    assert.equal(await tokens({ userId: 'user' }), 5);
    assert.equal(await tokens({ apiKeyId: 'b' }), undefined);
    assert.equal(await tokens({ organisationId: randomUUID() }), undefined);
  });

  test('usage of more than a hundred keys is the caller’s fault', async () => {
    const keys = Array.from({ length: 101 }, (_, index) => ({ id: `k${index}`, since: dayStart }));
    await assert.rejects(analytics().usageOfKeys({ keys, to, visibility }), hasCode('invalid_request'));
    assert.equal((await analytics().usageOfKeys({ keys: keys.slice(1), to, visibility })).size, 0);
  });
}
