import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSeedArguments } from './seed-arguments.ts';

test('without any, a million rows in thirty days', () => {
  assert.deepEqual(readSeedArguments({}), {
    rows: 1_000_000,
    days: 30,
    seed: 1,
    bodies: 0.01,
    end: undefined,
  });
});

test('everything can be said', () => {
  const values = { rows: '10000000', days: '365', seed: '0', bodies: '.5', end: '2026-11-22T10:00:00Z' };
  const end = Date.UTC(2026, 10, 22, 10);
  assert.deepEqual(readSeedArguments(values), { rows: 10_000_000, days: 365, seed: 0, bodies: 0.5, end });
});

for (const [name, value] of [
  ['rows', '0'],
  ['rows', '1e6'],
  ['rows', '-5'],
  ['days', '3651'],
  ['seed', 'x'],
  ['bodies', '1.1'],
  ['bodies', '-0.1'],
  ['bodies', ''],
  ['end', 'yesterday'],
  ['end', '2026-13-45'],
] as const) {
  test(`--${name} "${value}" is refused in one sentence that names it`, () => {
    assert.throws(() => readSeedArguments({ [name]: value }), {
      message: new RegExp(`^--${name} must be .*it is "${value.replace('.', '\\.')}"\\.$`),
    });
  });
}
