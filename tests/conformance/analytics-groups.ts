import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import {
  groupColumns,
  groupings,
  groupOrders,
  type Analytics,
  type GroupQuery,
  type GroupRow,
} from '../../core/ports/analytics.ts';
import { naiveGroups } from './analytics-naive.ts';
import { day, hasCode, newToken } from './analytics-probe.ts';
import { ndjson, randomRows, requestRow } from './analytics-rows.ts';

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

  for (const orderBy of groupOrders)
    for (const ascending of [false, true])
      test(`groups ordered by ${orderBy}, ${ascending ? 'the lowest' : 'the highest'} first`, async () => {
        const columns = orderBy === 'requests' ? [] : [orderBy];
        const query = { ...base, by: 'model', columns, orderBy, ascending } as const;
        const { rows: all } = await analytics().groups(query);
        const of = ({ requests, columns: own }: GroupRow): number | undefined => {
          const value = orderBy === 'requests' ? requests : own[orderBy];
          if (value === null || value === undefined) return undefined;
          return typeof value === 'string' && value.includes('T') ? Date.parse(value) : Number(value);
        };
        const last = ascending ? Infinity : -Infinity;
        const sorted = [...all].sort(
          (one, other) =>
            (ascending ? 1 : -1) * ((of(one) ?? last) - (of(other) ?? last)) ||
            (one.value < other.value ? -1 : 1),
        );
        assert.deepEqual(all, sorted);
        assert.deepEqual(
          new Set(all.map(({ value }) => value)),
          new Set(naiveGroups(rows, 'model').map(({ value }) => value)),
        );
        // Pages follow the order, also when its figure is none of the columns.
        const pages: string[] = [];
        for (let offset = 0; offset < all.length; offset += 3) {
          const page = await analytics().groups({
            ...query,
            columns: ['avg_weighted_feedback'],
            limit: 3,
            offset,
          });
          pages.push(...page.rows.map(({ value }) => value));
          assert.deepEqual(Object.keys(page.rows[0]?.columns ?? {}), ['avg_weighted_feedback']);
        }
        assert.deepEqual(
          pages,
          all.map(({ value }) => value),
        );
      });

  test('of more groups than a page has, the dearest comes first, however few its requests are', async () => {
    const visibility = { organisationId: randomUUID() };
    const organisation_id = visibility.organisationId;
    const ofUser = (name: string, cost: string) =>
      requestRow({ organisation_id, metadata: { _user: name }, cost });
    const many = Array.from({ length: 230 }, (_, index) => `user ${index}`).flatMap((name) => [
      ofUser(name, '0.100000000000'),
      ofUser(name, '0.200000000000'),
    ]);
    await analytics().insert('requests', ndjson([...many, ofUser('lavish', '7.000000000000')]), newToken());
    const query = { ...base, visibility, by: 'user', columns: ['cost'], limit: 200 } as const;
    const byRequests = await analytics().groups(query);
    assert.equal(byRequests.total, 231);
    assert.ok(!byRequests.rows.some(({ value }) => value === 'lavish'));
    const { rows: dearest, total } = await analytics().groups({ ...query, orderBy: 'cost' });
    assert.deepEqual([total, dearest[0]?.value, Number(dearest[0]?.columns.cost)], [231, 'lavish', 7]);
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
