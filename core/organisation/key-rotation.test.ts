import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { rotationBehind, rotationIssues, rotationOf } from './key-rotation.ts';

const dayMs = 86_400_000;
/** A Thursday. */
const now = Date.parse('2026-11-26T10:20:30Z');
const at = (text: string): number => Date.parse(text);

describe('a rotation policy', () => {
  const cases: readonly [policy: Parameters<typeof rotationOf>[0], next: string, then: string | undefined][] =
    [
      [{ rotation_period: 'weekly', nextAt: undefined }, '2026-11-30T00:00:00Z', '2026-12-07T00:00:00Z'],
      [{ rotation_period: 'monthly', nextAt: undefined }, '2026-12-01T00:00:00Z', '2027-01-01T00:00:00Z'],
      [{ rotation_period_days: 3, nextAt: undefined }, '2026-11-29T10:20:30Z', '2026-12-02T10:20:30Z'],
      [
        { rotation_period: 'weekly', nextAt: at('2026-11-29T23:50:00Z') },
        '2026-11-29T23:50:00Z',
        '2026-12-07T00:00:00Z',
      ],
      [{ nextAt: at('2026-12-24T18:00:00Z') }, '2026-12-24T18:00:00Z', undefined],
    ];
  for (const [policy, next, then] of cases)
    test(`of ${JSON.stringify(policy)} rotates at ${next} and then at ${then ?? 'no time'}`, () => {
      const rotation = rotationOf(policy, now, undefined);
      assert.equal(rotation.nextAt, at(next));
      // The job comes a minute late.
      const done = rotation.nextAt + 60_000;
      const behind = rotationBehind(rotation, done, done + rotation.transitionMs);
      assert.equal(behind?.nextAt, then === undefined ? undefined : at(then));
    });

  test('said again does not put the next rotation off', () => {
    const before = rotationOf({ rotation_period_days: 3, nextAt: undefined }, now, undefined);
    const again = rotationOf({ rotation_period_days: 3, nextAt: undefined }, now + dayMs, before);
    assert.deepEqual(again, before);
    const other = rotationOf({ rotation_period_days: 4, nextAt: undefined }, now + dayMs, before);
    assert.equal(other.nextAt, now + 5 * dayMs);
  });

  test('goes on from now when a rotation was made by hand, and catches up once with what was missed', () => {
    const rotation = rotationOf({ rotation_period_days: 3, nextAt: undefined }, now, undefined);
    assert.equal(rotationBehind(rotation, now + dayMs, now + dayMs)?.nextAt, now + 4 * dayMs);
    assert.equal(rotationBehind(rotation, now + 10 * dayMs, now + 10 * dayMs)?.nextAt, now + 12 * dayMs);
  });

  const bad: readonly [policy: Parameters<typeof rotationIssues>[0], place: string, words: RegExp][] = [
    [{ nextAt: undefined }, '', /does not say when; give rotation_period/],
    [
      { rotation_period: 'weekly', rotation_period_days: 3, nextAt: undefined },
      '/rotation_period_days',
      /leave one of them out/,
    ],
    [{ rotation_period: null, nextAt: now }, '/next_rotation_at', /lies in the past/],
    [
      { rotation_period_days: 1, key_transition_period_ms: dayMs, nextAt: undefined },
      '/key_transition_period_ms',
      /shorter than the rotation period, which is 86400000 ms/,
    ],
  ];
  for (const [policy, place, words] of bad)
    test(`is refused: ${JSON.stringify(policy)}`, () => {
      const issues = rotationIssues(policy, now);
      assert.deepEqual(
        issues.map(({ path }) => path),
        [`/rotation_policy${place}`],
      );
      assert.match(issues[0]?.message ?? '', words);
    });

  test('of an answer is taken back while its rotation is due', () => {
    assert.deepEqual(rotationIssues({ rotation_period: 'weekly', nextAt: now - 1 }, now, now - 1), []);
  });
});
