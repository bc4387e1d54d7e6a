import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Analytics } from '../../core/ports/analytics.ts';
import { always, newToken } from './analytics-probe.ts';
import { bodyRow, dayStart, hostileTexts, ndjson, requestRow, storedTime } from './analytics-rows.ts';

/** Queries see the rows of their organisation, workspace and window, and no others. */
export function showsOnlyOnesOwn(analytics: () => Analytics): void {
  test('rows of other organisations and workspaces are never seen', async () => {
    const owners = [randomUUID(), `${randomUUID()}' OR 1=1 --`, `${randomUUID()}\\`];
    const workspaces = ['one', "' OR ''='"];
    const rows = owners.flatMap((organisation_id) =>
      workspaces.map((workspace_id) =>
        requestRow({ organisation_id, workspace_id, created_at: storedTime(dayStart + 7) }),
      ),
    );
    await analytics().insert('requests', ndjson(rows), newToken());
    await analytics().insert('bodies', ndjson(rows.map((row) => bodyRow(row))), newToken());
    const window = { from: dayStart + 7, to: dayStart + 8 };
    for (const organisationId of owners) {
      for (const workspaceId of [undefined, ...workspaces]) {
        const visibility = workspaceId === undefined ? { organisationId } : { organisationId, workspaceId };
        const expected = rows.filter(
          (row) =>
            row.organisation_id === organisationId && (workspaceId ?? row.workspace_id) === row.workspace_id,
        );
        const query = { by: 'workspace', columns: [], window, visibility, limit: 100, offset: 0 } as const;
        const values = (await analytics().groups(query)).rows.map((row) => row.value);
        assert.deepEqual(new Set(values), new Set(expected.map((row) => row.workspace_id)));
        for (const row of rows) {
          const found = await analytics().requestById(row.id, window, visibility);
          assert.deepEqual(found?.request, expected.includes(row) ? row : undefined);
          assert.equal(found?.body?.id, expected.includes(row) ? row.id : undefined);
        }
      }
    }
  });

  test('rows of other users and keys are never seen, nor their bodies', async () => {
    const organisation_id = randomUUID();
    const users = ['ann', "ann' OR 1=1 --"];
    const keys = ['one', '\\'];
    const created_at = storedTime(dayStart + 9);
    const rows = users.flatMap((user_id) =>
      keys.map((api_key_id) => requestRow({ organisation_id, user_id, api_key_id, created_at })),
    );
    await analytics().insert('requests', ndjson(rows), newToken());
    await analytics().insert('bodies', ndjson(rows.map((row) => bodyRow(row))), newToken());
    const window = { from: dayStart + 9, to: dayStart + 10 };
    for (const userId of [undefined, ...users]) {
      for (const apiKeyId of [undefined, ...keys]) {
        const visibility = {
          organisationId: organisation_id,
          workspaceId: 'workspace',
          ...(userId !== undefined && { userId }),
          ...(apiKeyId !== undefined && { apiKeyId }),
        };
        const expected = rows.filter(
          (row) => (userId ?? row.user_id) === row.user_id && (apiKeyId ?? row.api_key_id) === row.api_key_id,
        );
        const query = { by: 'api_key', columns: [], window, visibility, limit: 100, offset: 0 } as const;
        const groups = (await analytics().groups(query)).rows;
        assert.deepEqual(
          new Set(groups.map((group) => group.value)),
          new Set(expected.map((row) => row.api_key_id)),
        );
        assert.equal(
          groups.reduce((sum, group) => sum + group.requests, 0),
          expected.length,
        );
        for (const row of rows) {
          const found = await analytics().requestById(row.id, window, visibility);
          assert.equal(found?.request.id, expected.includes(row) ? row.id : undefined);
          assert.equal(found?.body?.id, expected.includes(row) ? row.id : undefined);
        }
      }
    }
  });

  test('feedback of other users and keys counts in nothing, also on a trace that is shared', async () => {
    const organisation_id = randomUUID();
    const of = { organisation_id, created_at: storedTime(dayStart + 10), trace_id: randomUUID() };
    const said = { ...of, workspace_id: 'workspace', revision: 1, weight: 1, metadata: '{}' };
    const people = [
      { user_id: 'ann', api_key_id: 'one', value: 5 },
      { user_id: 'bob', api_key_id: 'two', value: -5 },
    ];
    const rows = people.map(({ user_id, api_key_id }) => requestRow({ ...of, user_id, api_key_id }));
    const feedback = people.map((one) => ({ ...said, ...one, id: randomUUID(), feedback_id: randomUUID() }));
    await analytics().insert('requests', ndjson(rows), newToken());
    await analytics().insert('feedback', ndjson(feedback), newToken());
    const window = { from: dayStart, to: dayStart + 20 };
    for (const { user_id, api_key_id, value } of people) {
      for (const who of [{ userId: user_id }, { apiKeyId: api_key_id }]) {
        const visibility = { organisationId: organisation_id, workspaceId: 'workspace', ...who };
        const query = { by: 'model', window, visibility, limit: 9, offset: 0 } as const;
        const groups = (weightedFeedback: { min?: number; max?: number }) =>
          analytics().groups({ ...query, columns: ['avg_weighted_feedback'], filter: { weightedFeedback } });
        const [group] = (await groups({ min: value, max: value })).rows;
        assert.deepEqual([group?.requests, group?.columns.avg_weighted_feedback], [1, value]);
        assert.equal((await groups(value > 0 ? { max: 4 } : { min: -4 })).total, 0);
        const buckets = { unit: 'hour', size: 1, timeZone: 'UTC' } as const;
        const { totals } = await analytics().feedbackSeries({ window, visibility, buckets });
        assert.deepEqual(totals, [{ split: undefined, total: 1, averageWeighted: value }]);
      }
    }
  });

  test('a window holds its first millisecond and not its last', async () => {
    const row = requestRow({ organisation_id: randomUUID(), created_at: storedTime(dayStart + 500) });
    await analytics().insert('requests', ndjson([row]), newToken());
    const visibility = { organisationId: row.organisation_id };
    const cases: [from: number, to: number, seen: boolean][] = [
      [500, 501, true],
      [499, 500, false],
      [501, 502, false],
      [500, 500, false],
      [501, 499, false],
      [499.5, 500.5, true],
      [-dayStart, 8e15, true],
    ];
    for (const [from, to, seen] of cases) {
      const window = { from: dayStart + from, to: dayStart + to };
      const found = await analytics().requestById(row.id, window, visibility);
      assert.equal(found !== undefined, seen, `${from} to ${to}`);
      const query = { by: 'model', columns: [], visibility, limit: 10, offset: 0 } as const;
      assert.equal((await analytics().groups({ ...query, window })).total, seen ? 1 : 0, `${from} to ${to}`);
    }
  });

  test('an id that is none, or hostile, finds nothing', async () => {
    const visibility = { organisationId: randomUUID() };
    for (const id of [randomUUID(), ...hostileTexts]) {
      assert.equal(await analytics().requestById(id, always, visibility), undefined);
    }
  });
}
