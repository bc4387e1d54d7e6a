import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { liteLLMDurations } from './fields.ts';

describe('durations of LiteLLM', () => {
  test('a budget begins anew by the calendar where it does so there, and after whole days otherwise', () => {
    for (const month of ['1mo', '30d', 'monthly'])
      assert.deepEqual(liteLLMDurations.reset(month), { periodic_reset: 'monthly' }, month);
    for (const week of ['7d', '1w', 'weekly'])
      assert.deepEqual(liteLLMDurations.reset(week), { periodic_reset: 'weekly' }, week);
    for (const [written, days] of [
      ['24h', 1],
      ['daily', 1],
      ['48h', 2],
      ['2w', 14],
      ['365d', 365],
    ] as const)
      assert.deepEqual(liteLLMDurations.reset(written), { periodic_reset_days: days }, written);
    for (const none of ['30m', '36h', '2mo', '366d', '0d', 'hourly', 'soon', ''])
      assert.equal(liteLLMDurations.reset(none), undefined, none);
  });

  test('a period is shown as a duration of the same meaning', () => {
    for (const duration of ['30d', '7d', '1d', '14d'])
      assert.equal(liteLLMDurations.period({ ...liteLLMDurations.reset(duration) }), duration);
    assert.equal(liteLLMDurations.period({ ...liteLLMDurations.reset('1mo') }), '30d');
    assert.equal(liteLLMDurations.period({ credit_limit: 5 }), null);
  });

  test('a month ends on the same day of the next one, or on its last day', () => {
    const end = (duration: string, start: string): string =>
      new Date(liteLLMDurations.end(duration, Date.parse(start)) ?? NaN).toISOString();
    assert.equal(end('1mo', '2026-01-15T10:30:00.000Z'), '2026-02-15T10:30:00.000Z');
    assert.equal(end('1mo', '2028-01-31T10:30:00.000Z'), '2028-02-29T10:30:00.000Z');
    assert.equal(end('14mo', '2026-12-31T00:00:00.000Z'), '2028-02-29T00:00:00.000Z');
    assert.equal(end('30d', '2026-01-31T00:00:00.000Z'), '2026-03-02T00:00:00.000Z');
    assert.equal(end('90s', '2026-01-31T00:00:00.000Z'), '2026-01-31T00:01:30.000Z');
    assert.equal(liteLLMDurations.end('999999mo', 0), undefined);
    assert.equal(liteLLMDurations.end('1 day', 0), undefined);
  });

  test('the pattern of bodies takes what is read, and nothing else', () => {
    const pattern = new RegExp(liteLLMDurations.schema);
    for (const read of ['1s', '30d', '1mo', 'daily']) assert.match(read, pattern);
    for (const wrong of ['mo', '1y', '30 d', '1234567d', 'yearly']) assert.doesNotMatch(wrong, pattern);
  });
});
