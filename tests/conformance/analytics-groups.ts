import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import { groupColumns, groupings, type Analytics, type GroupQuery } from '../../core/ports/analytics.ts';
import { naiveGroups } from './analytics-naive.ts';
import { day, hasCode, newToken } from './analytics-probe.ts';
import { ndjson, randomRows } from './analytics-rows.ts';

/** Groups and their columns are what a recomputation row by row gives, in a stable order. */
export function groupsRows(analytics: () => Analytics): void {
  const organisationId = randomUUID();
  const rows = randomRows(500, organisationId);
  const base = { window: day, visibility: { organisationId }, limit: 1000, offset: 0 } as const;
  before(async () => {
    for (let i = 0; i < rows.length; i += 250) {
      await analytics().insert('requests', ndjson(rows.slice(i, i + 250)), newToken());
    }
  });

  for (const by of groupings) {
    test(`groups by ${by}: every column as recomputed row by row`, async () => {
      const { total, rows: groups } = await analytics().groups({ ...base, by, columns: groupColumns });
      const expected = naiveGroups(rows, by);
      assert.equal(total, expected.length);
      assert.deepEqual(
        groups.map(({ value, requests }) => ({ value, requests })),
        expected.map(({ value, requests }) => ({ value, requests })),
      );
      for (const [i, group] of groups.entries()) {
        for (const column of groupColumns)
          expected[i]?.check[column](group.columns[column], `${by} ${group.value} ${column}`);
      }
    });
  }

  for (const column of groupColumns) {
    test(`the column ${column} can be asked for alone`, async () => {
      const { rows: groups } = await analytics().groups({ ...base, by: 'model', columns: [column] });
      const expected = naiveGroups(rows, 'model');
      assert.equal(groups.length, expected.length);
      for (const [i, group] of groups.entries()) {
        assert.deepEqual(Object.keys(group.columns), [column]);
        expected[i]?.check[column](group.columns[column], group.value);
      }
    });
  }

  test('without columns only the count is given', async () => {
    const { rows: groups } = await analytics().groups({ ...base, by: 'provider', columns: [] });
    for (const group of groups) assert.deepEqual(group.columns, {});
  });

  test('pages follow each other in one order, and the total stays', async () => {
    const expected = naiveGroups(rows, 'config').map((group) => group.value);
    const pages: string[] = [];
    for (let offset = 0; offset < expected.length + 6; offset += 3) {
      const query: GroupQuery = { ...base, by: 'config', columns: ['cost'], limit: 3, offset };
      const page = await analytics().groups(query);
      assert.equal(page.total, expected.length);
      pages.push(...page.rows.map((row) => row.value));
    }
    assert.deepEqual(pages, expected);
    const none = await analytics().groups({ ...base, by: 'config', columns: [], limit: 0 });
    assert.deepEqual(none, { total: expected.length, rows: [] });
  });

  test('an organisation without rows has no groups', async () => {
    for (const by of groupings) {
      const query = { ...base, by, columns: groupColumns, visibility: { organisationId: randomUUID() } };
      assert.deepEqual(await analytics().groups(query), { total: 0, rows: [] });
    }
  });

  test('pages out of bounds are the caller’s fault', async () => {
    for (const page of [{ limit: -1 }, { limit: 1.5 }, { limit: 1e9 }, { offset: -1 }, { offset: NaN }]) {
      const query = { ...base, by: 'model', columns: [], ...page } as const;
      await assert.rejects(analytics().groups(query), hasCode('invalid_request'));
    }
  });
}
