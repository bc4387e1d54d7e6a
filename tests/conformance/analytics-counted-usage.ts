import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Analytics, CountedUsageQuery, CountedValues } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { dayStart, hostileTexts, ndjson, requestRow, storedTime } from './analytics-rows.ts';

const hour = 3_600_000;

/** What requests have used, as budgets count it. */
export function countsUsage(analytics: () => Analytics): void {
  describe('usage as budgets count it', () => {
    const store = async (rows: readonly Partial<RequestRow>[]): Promise<string> => {
      const organisation_id = randomUUID();
      const whole = rows.map((row) =>
        requestRow({
          ...{ attempts: 1, latency_ms: 100, total_tokens: 10, source: '' },
          ...{ cost: '0.001000000000', lost_cost: '0.000000000000' },
          ...row,
          organisation_id,
        }),
      );
      await analytics().insert('requests', ndjson(whole), randomUUID());
      return organisation_id;
    };
    const ask = (organisationId: string, given: Partial<CountedUsageQuery>) =>
      analytics().countedUsage({
        ...{ organisationId, workspaceId: undefined, conditions: [] },
        groupBy: [{ text: '', by: 'api_key' }],
        ...{ groups: new Map([['k', dayStart]]), endedBy: dayStart + 24 * hour },
        ...given,
      });
    const at = (ms: number) => ({ created_at: storedTime(dayStart + ms) });

    test('is added up from when on each group counts, of requests that had ended', async () => {
      const organisation = await store([
        { api_key_id: 'a', ...at(hour) },
        { api_key_id: 'a', ...at(3 * hour), total_tokens: 7, lost_cost: '0.000000000600' },
        { api_key_id: 'b', ...at(hour), cost: '0.000000000400' },
        { api_key_id: 'b', ...at(2 * hour), cost: '0.000000000400' },
        { api_key_id: 'b', ...at(5 * hour), latency_ms: 2 * hour },
        { api_key_id: 'c', ...at(hour) },
      ]);
      const groups = new Map([
        ['a', dayStart + 2 * hour],
        ['b', dayStart],
        ['nobody', dayStart],
      ]);
      const found = await ask(organisation, { groups, endedBy: dayStart + 6 * hour });
      assert.deepEqual(
        [...found].sort((one, two) => (one.group < two.group ? -1 : 1)),
        [
          { group: 'a', cost: 1_000_001, tokens: 7, requests: 1, attempted: 1 },
          // Each request is rounded by itself.
          { group: 'b', cost: 0, tokens: 20, requests: 2, attempted: 2 },
        ],
      );
    });

    test('leaves out what was refused, reported or a span, and what an answer of the cache saved', async () => {
      const organisation = await store([
        { api_key_id: 'k', ...at(hour), attempts: 0, outcome: 'refused', status: 412 },
        { api_key_id: 'k', ...at(hour), source: 'api' },
        { api_key_id: 'k', ...at(hour), source: 'otel' },
        { api_key_id: 'k', ...at(hour), attempts: 0, cache_status: 'HIT' },
        { api_key_id: 'k', ...at(hour), attempts: 0, cache_status: 'SEMANTIC HIT' },
        { api_key_id: 'k', ...at(hour), cache_status: 'MISS' },
      ]);
      const [found] = await ask(organisation, {});
      assert.deepEqual(found, { group: 'k', cost: 1_000_000, tokens: 10, requests: 3, attempted: 1 });
      assert.deepEqual(await ask(randomUUID(), {}), []);
    });

    test('knows a request to an MCP server by its endpoint, whatever it asks for', async () => {
      const organisation = await store([
        { ...at(hour), endpoint: 'mcp.tools.call' },
        { ...at(hour), endpoint: 'mcp' },
        { ...at(hour), endpoint: 'chat.completions' },
      ]);
      const found = await ask(organisation, {
        groupBy: [{ text: 'endpoint:', by: 'endpoint_type' }],
        groups: new Map([
          ['endpoint:mcp', dayStart],
          ['endpoint:chat.completions', dayStart],
        ]),
      });
      assert.deepEqual(found.map(({ group, requests }) => [group, requests]).sort(), [
        ['endpoint:chat.completions', 1],
        ['endpoint:mcp', 2],
      ]);
    });

    test('is told by conditions and groups of policies, of values that nobody expects too', async () => {
      const rows = hostileTexts.flatMap((text, index): Partial<RequestRow>[] => [
        { ...at(hour + index), workspace_id: 'one', metadata: { team: 'red', 'a key': text } },
        { ...at(hour + index), workspace_id: 'two', metadata: { team: 'red-2', 'a key': text } },
        { ...at(hour + index), workspace_id: 'two', metadata: { team: 'red-3', 'a key': text } },
        { ...at(hour + index), workspace_id: 'two', metadata: { 'a key': text } },
      ]);
      const organisation = await store(rows);
      const team: CountedValues = {
        by: { metadata: 'team' },
        ...{ whole: ['red'], beginnings: ['red-'], notWhole: ['red-3'], notBeginnings: [] },
      };
      const groups = new Map(
        hostileTexts.flatMap((text) => [
          [`metadata.a key:${text},workspace_id:one`, dayStart] as const,
          [`metadata.a key:${text},workspace_id:two`, dayStart] as const,
        ]),
      );
      const groupBy = [
        { text: 'metadata.a key:', by: { metadata: 'a key' } },
        { text: 'workspace_id:', by: 'workspace_id' as const },
      ];
      const query = { conditions: [team], groupBy, groups };
      const found = await ask(organisation, query);
      assert.deepEqual(found.map(({ group }) => group).sort(), [...groups.keys()].sort());
      assert.ok(found.every(({ requests }) => requests === 1));
      const ofOne = await ask(organisation, { ...query, workspaceId: 'one' });
      assert.equal(ofOne.length, hostileTexts.length);
    });
  });
}
