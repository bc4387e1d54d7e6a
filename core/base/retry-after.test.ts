import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { retryAfterMs } from './retry-after.ts';

const now = Date.UTC(2026, 10, 21, 12, 0, 0);

describe('retryAfterMs', () => {
  const cases: readonly [string, readonly string[], number | undefined][] = [
    ['milliseconds', ['retry-after-ms', '250'], 250],
    ['fractions of milliseconds', ['retry-after-ms', '12.5'], 12.5],
    ['Azure’s milliseconds', ['x-ms-retry-after-ms', '1500'], 1500],
    ['seconds', ['retry-after', '7'], 7000],
    ['fractions of seconds', ['Retry-After', '0.5'], 500],
    ['zero', ['retry-after', '0'], 0],
    ['spaces around', ['retry-after', ' 3 '], 3000],
    ['a date', ['retry-after', 'Sat, 21 Nov 2026 12:00:05 GMT'], 5000],
    ['an old date', ['retry-after', 'Saturday, 21-Nov-26 12:00:09 GMT'], 9000],
    ['a C date', ['retry-after', 'Sat Nov 21 12:01:00 2026'], 60_000],
    ['a C date with one digit', ['retry-after', 'Tue Dec  1 12:00:00 2026'], 10 * 86_400_000],
    ['a date that is over', ['retry-after', 'Sat, 21 Nov 2026 11:59:59 GMT'], undefined],
    ['a date that does not exist', ['retry-after', 'Sat, 99 Nov 2026 12:00:05 GMT'], undefined],
    ['another form of date', ['retry-after', '2026-11-21T12:00:05Z'], undefined],
    ['a negative number', ['retry-after', '-1'], undefined],
    ['words', ['retry-after', 'soon'], undefined],
    ['nothing', ['retry-after', ''], undefined],
    ['a number without end', ['retry-after', '9'.repeat(400)], undefined],
    ['other headers', ['x-retry-after', '7', 'content-type', 'text/plain'], undefined],
    ['the finest form first', ['retry-after', '9', 'x-ms-retry-after-ms', '800', 'retry-after-ms', '70'], 70],
    ['Azure’s before the seconds', ['retry-after', '9', 'x-ms-retry-after-ms', '800'], 800],
    [
      'the next form after a wrong one',
      ['retry-after-ms', 'x', 'x-ms-retry-after-ms', '-', 'retry-after', '2'],
      2000,
    ],
  ];
  for (const [name, headers, expected] of cases)
    test(name, () => assert.equal(retryAfterMs(headers, now), expected));

  test('is a finite number of milliseconds or nothing, whatever is sent', () => {
    const name = fc.constantFrom('retry-after', 'retry-after-ms', 'x-ms-retry-after-ms');
    fc.assert(
      fc.property(name, fc.oneof(fc.string(), fc.double().map(String)), (header, value) => {
        const result = retryAfterMs([header, value], now);
        assert.ok(result === undefined || (Number.isFinite(result) && result >= 0));
      }),
    );
  });
});
