import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import type { Analytics, FeedbackPoint, FeedbackSeriesQuery } from '../../core/ports/analytics.ts';
import type { FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';
import { days, manyFeedback, manyRows } from './analytics-many-rows.ts';
import { naiveFilter } from './analytics-naive-filter.ts';
import { naiveGroups } from './analytics-naive.ts';
import { latestFeedback, weightedAverage } from './analytics-naive-feedback.ts';
import { naiveBuckets, timeOf } from './analytics-naive-series.ts';
import { newToken } from './analytics-probe.ts';
import { dayStart, ndjson, requestRow, storedTime } from './analytics-rows.ts';

/** Feedback counts once, as it is now, when it was first given, and for the requests of its trace. */
export function tellsFeedbackSeries(analytics: () => Analytics): void {
  const organisationId = randomUUID();
  const place = { organisationId, window: days(-1, 3), seed: 5 };
  const requests = manyRows(150, place).filter((row) => Number(row.trace_id.slice(6)) < 10);
  const feedback: readonly FeedbackRow[] = manyFeedback(60, place);
  const window = { from: dayStart - 40_000_000, to: dayStart + 140_000_000 };
  const base = {
    window,
    visibility: { organisationId },
    buckets: { unit: 'day', size: 1, timeZone: 'UTC' },
  } as const;
  before(async () => {
    await analytics().insert('requests', ndjson(requests), newToken());
    await analytics().insert('feedback', ndjson(feedback), newToken());
  });

  /** What a series has to be, feedback by feedback. */
  function naive(query: FeedbackSeriesQuery): { totals: unknown; points: unknown } {
    const { split, filter, visibility, buckets } = query;
    const sees = (row: RequestRow | FeedbackRow): boolean =>
      row.organisation_id === visibility.organisationId &&
      (visibility.workspaceId ?? row.workspace_id) === row.workspace_id &&
      (visibility.userId ?? row.user_id) === row.user_id &&
      (visibility.apiKeyId ?? row.api_key_id) === row.api_key_id;
    const meant = requests.filter(
      (row) => sees(row) && row.trace_id !== '' && timeOf(row) < window.to && naiveFilter(filter ?? {})(row),
    );
    const given = latestFeedback(feedback.filter(sees)).flatMap((latest) => {
      const first = feedback.find((row) => row.feedback_id === latest.feedback_id && row.revision === 1);
      const at = first === undefined ? -1 : timeOf(first);
      if (at < window.from || at >= window.to) return [];
      const answers = meant.filter((row) => row.trace_id === latest.trace_id);
      if (filter !== undefined && answers.length === 0) return [];
      const value = { none: undefined, score: String(latest.value), model: modelOf(answers) }[
        split ?? 'none'
      ];
      return [{ at, value, latest }];
    });
    const told = (some: typeof given) => {
      const values = [...new Set(some.map(({ value }) => value))];
      const all = (values.length === 0 && split === undefined ? [undefined] : values).map((value) => {
        const own = some.filter((one) => one.value === value).map(({ latest }) => latest);
        return { split: value, total: own.length, averageWeighted: weightedAverage(own) };
      });
      return all.sort(
        (a, b) => b.total - a.total || Buffer.compare(Buffer.from(a.split ?? ''), Buffer.from(b.split ?? '')),
      );
    };
    const starts = naiveBuckets(window, buckets);
    const startOf = (at: number): number => starts.findLast((start) => start <= at) as number;
    return {
      totals: told(given),
      points: starts.flatMap((start) =>
        told(given.filter(({ at }) => startOf(at) === start)).map((point) => ({ at: start, ...point })),
      ),
    };
  }

  /** The model of the latest of those that succeeded, else of the latest of all. */
  function modelOf(answers: readonly RequestRow[]): string {
    const order = (one: RequestRow): string =>
      `${Number(one.is_success)} ${String(timeOf(one)).padStart(16, '0')} ${one.id}`;
    return answers.toSorted((one, other) => (order(one) < order(other) ? -1 : 1)).at(-1)?.model ?? '';
  }

  async function compare(query: FeedbackSeriesQuery): Promise<number> {
    const actual = await analytics().feedbackSeries(query);
    const rounded = (points: unknown): unknown =>
      (points as FeedbackPoint[]).map(({ averageWeighted: average, ...rest }) => ({
        ...rest,
        average: average === null ? null : average.toFixed(9).replace(/^-(0\.0+)$/, '$1'),
      }));
    const expected = naive(query);
    assert.deepEqual(rounded(actual.totals), rounded(expected.totals), JSON.stringify(query));
    assert.deepEqual(rounded(actual.points), rounded(expected.points), JSON.stringify(query));
    return actual.totals.reduce((sum, { total }) => sum + total, 0);
  }

  for (const split of [undefined, 'score', 'model'] as const) {
    test(`feedback over time${split === undefined ? '' : ` by ${split}`}, also for a filter and for few`, async () => {
      const told = split === undefined ? base : { ...base, split };
      assert.ok((await compare(told)) > 10);
      assert.ok((await compare({ ...told, buckets: { ...base.buckets, timeZone: 'Asia/Kolkata' } })) > 10);
      assert.ok((await compare({ ...told, filter: { models: ['gpt', ''] } })) > 0);
      assert.equal(await compare(told), await compare(base), 'no feedback counts twice');
      assert.equal(await compare({ ...told, filter: { models: [] } }), 0);
      await compare({ ...told, filter: { isSuccess: true, metadata: { team: 'red' } } });
      await compare({ ...told, visibility: { organisationId, workspaceId: 'alpha' } });
      await compare({
        ...told,
        visibility: { organisationId, userId: 'ann', apiKeyId: 'k1' },
        filter: { providers: ['openai'] },
      });
      assert.equal(await compare({ ...told, visibility: { organisationId, userId: 'bob' } }), 0);
      assert.equal(await compare({ ...told, visibility: { organisationId: randomUUID() } }), 0);
    });
  }

  test('a window without feedback has empty points', async () => {
    const { totals, points } = await analytics().feedbackSeries({ ...base, window: days(200, 202) });
    assert.deepEqual(totals, [{ split: undefined, total: 0, averageWeighted: null }]);
    assert.deepEqual(
      points.map(({ total }) => total),
      [0, 0],
    );
    assert.deepEqual((await analytics().feedbackSeries({ ...base, window: days(1, 1) })).points, []);
  });

  test('groups tell what is thought of their traces, each feedback once', async () => {
    const seen = requests.filter((row) => timeOf(row) >= window.from && timeOf(row) < window.to);
    const columns = ['avg_weighted_feedback', 'requests_with_feedback', 'cost'] as const;
    for (const by of ['model', 'user', 'workspace', { metadata: 'team' }] as const) {
      const page = { by, columns, window, visibility: { organisationId }, limit: 3, offset: 1 };
      const { rows, total } = await analytics().groups(page);
      const expected = naiveGroups(seen, by, feedback);
      assert.equal(total, expected.length);
      assert.deepEqual(
        rows.map(({ value }) => value),
        expected.slice(1, 4).map(({ value }) => value),
      );
      for (const [index, row] of rows.entries())
        for (const column of columns)
          expected[index + 1]?.check[column](row.columns[column], `${row.value} ${column}`);
    }
  });

  test('feedback of another workspace is not told, nor that without weight averaged', async () => {
    const organisation_id = randomUUID();
    const request = requestRow({ organisation_id, workspace_id: 'one', trace_id: 'shared' });
    const row = (workspace_id: string, value: number, weight: number): FeedbackRow => ({
      id: randomUUID(),
      feedback_id: randomUUID(),
      revision: 1,
      created_at: storedTime(dayStart + 50_000_000),
      organisation_id,
      workspace_id,
      api_key_id: 'k',
      user_id: 'u',
      trace_id: 'shared',
      value,
      weight,
      metadata: '{}',
    });
    await analytics().insert('requests', ndjson([request]), newToken());
    await analytics().insert('feedback', ndjson([row('one', 5, 0), row('two', -5, 1)]), newToken());
    const visibility = { organisationId: organisation_id, workspaceId: 'one' };
    const query = { ...base, window: days(0, 1), visibility };
    const { totals } = await analytics().feedbackSeries(query);
    assert.deepEqual(totals, [{ split: undefined, total: 1, averageWeighted: null }]);
    const groups = async (filter: object): Promise<unknown> =>
      (
        await analytics().groups({
          by: 'model',
          columns: ['avg_weighted_feedback', 'requests_with_feedback'],
          filter,
          window: days(0, 1),
          visibility,
          limit: 5,
          offset: 0,
        })
      ).rows.map(({ columns }) => columns);
    assert.deepEqual(await groups({}), [{ avg_weighted_feedback: null, requests_with_feedback: 1 }]);
    assert.deepEqual(await groups({ weightedFeedback: { max: 0 } }), []);
  });
}
