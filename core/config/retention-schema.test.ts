import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configOf, minimal, problemsOf } from './load-texts.test-support.ts';

const withRetention = (text: string): string => `${minimal}retention: ${text}\n`;

test('days are whole numbers, and 0 means for ever', async () => {
  const { config } = await configOf(withRetention('{ logs_days: 0, bodies_days: 7 }'));
  assert.deepEqual(config.retention, { logs_days: 0, bodies_days: 7, metrics_days: 365 });
});

for (const [text, named] of [
  ['{ logs_days: -1 }', /logs_days/],
  ['{ bodies_days: 1.5 }', /bodies_days/],
  ['{ metrics_days: 100000 }', /metrics_days/],
  ['{ log_days: 1 }', /log_days.*logs_days/],
] as const) {
  test(`${text} is refused in one sentence that names the place`, async () => {
    const problems = await problemsOf(withRetention(text));
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? '', named);
  });
}
