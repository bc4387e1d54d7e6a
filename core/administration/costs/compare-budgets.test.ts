import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CountedUsageQuery } from '../../ports/analytics.ts';
import type { UsageRow } from '../../ports/budgets.ts';
import type { UsageLimitPolicyData } from '../../ports/record-kinds.ts';
import type { Resources } from '../../ports/resources.ts';
import { compareBudgets } from './compare-budgets.ts';

const limit: UsageLimitPolicyData = {
  ...{ type: 'requests', creditLimit: 9, alertThreshold: undefined, periodicReset: undefined },
  ...{ periodicResetDays: undefined, nextResetAt: undefined },
  conditions: [{ key: 'metadata.team', value: '*' }],
  groupBy: [{ key: 'api_key' }],
};

const policies: Readonly<Record<string, UsageLimitPolicyData>> = {
  models: limit,
  tools: { ...limit, target: 'mcp_tools' },
};

/** Policies alone; the comparison reads nothing else here. */
const resources = {
  read: (look: (reader: object) => unknown) =>
    Promise.resolve(
      look({
        records: {
          find: (_kind: string, _place: object, id: string) =>
            Promise.resolve({ id, organisationId: 'org-1', updatedAt: 0, data: policies[id] }),
        },
      }),
    ),
} as Pick<Resources, 'read'>;

const row = (key: string): UsageRow => ({
  ...{ key, organisationId: 'org-1', epoch: 1, used: 1, since: 1, corrections: 0 },
  claimed: { threshold: '', exhausted: '' },
});

/** The comparison of these budgets, with the queries that it asks. */
async function compared(...keys: string[]) {
  const queries: CountedUsageQuery[] = [];
  const result = await compareBudgets({
    rows: keys.map(row),
    endedBy: 10,
    resources,
    leavesOutKeys: undefined,
    corrects: false,
    ledger: { correct: () => Promise.resolve(new Set()) },
    analytics: {
      countedUsage(query) {
        queries.push(query);
        return Promise.resolve([]);
      },
    },
  });
  return { ...result, queries };
}

describe('what budgets have counted, beside the rows of requests', () => {
  test('rows of requests to MCP servers raise no count: they do not tell how many calls they held', async () => {
    const keys = ['key:org-1:k:requests', 'workspace:org-1:w:requests', 'policy:org-1:models:api_key:k'];
    const { queries, compared: count } = await compared(...keys);
    assert.deepEqual([count, queries.length], [3, 3]);
    for (const { conditions } of queries) {
      const [first] = conditions;
      assert.deepEqual([first?.by, first?.notWhole], ['endpoint_type', ['mcp']]);
    }
    assert.deepEqual(
      queries.map(({ conditions }) => conditions.length),
      [1, 1, 2],
    );
  });

  test('policies for calls of tools are left out, with the reason', async () => {
    const { compared: count, leftOut } = await compared('policy:org-1:tools:api_key:k');
    assert.equal(count, 0);
    assert.deepEqual([...leftOut], [['of a policy for calls of tools, which rows do not count', 1]]);
  });
});
