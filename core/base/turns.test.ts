import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mapInTurns, writeInTurns } from './turns.ts';

/** How many turns others had until it was done. */
async function turnsOf<T>(work: Promise<T>): Promise<{ result: T; turns: number }> {
  let turns = 0;
  let done = false;
  const other = (): void => {
    if (done) return;
    turns += 1;
    setImmediate(other);
  };
  setImmediate(other);
  const result = await work;
  done = true;
  return { result, turns };
}

test('many values are mapped in their order, with turns for others in between', async () => {
  const values = Array.from({ length: 1000 }, (_, index) => index);
  const { result, turns } = await turnsOf(mapInTurns(values, (value) => value * 2, 100));
  assert.deepEqual(
    result,
    values.map((value) => value * 2),
  );
  assert.ok(turns >= 8, `${turns} turns`);
});

test('few values wait for nothing', async () => {
  const { result, turns } = await turnsOf(mapInTurns([1, 2, 3], String));
  assert.deepEqual(result, ['1', '2', '3']);
  assert.equal(turns, 0);
});

test('what a mapping throws is what it rejects with', async () => {
  const values = Array.from({ length: 600 }, (_, index) => index);
  const fails = (value: number): number => {
    if (value === 599) throw new RangeError('no place');
    return value;
  };
  await assert.rejects(mapInTurns(values, fails), /no place/);
});

const points = Array.from({ length: 700 }, (_, at) => ({
  at,
  of: 'é"\u2028',
  nothing: undefined,
  none: null,
}));
for (const [what, value] of [
  ['nothing', {}],
  ['null', null],
  ['text', 'a "text"'],
  ['a short list', [1, 'two', undefined]],
  ['a long list alone', [...points, undefined]],
  ['values and short lists', { object: 'list', data: [1, undefined, null], 'a "name"': { deep: [] } }],
  ['members that JSON leaves out', { left: undefined, out: () => 1, kept: false }],
  ['a long list in an object', { object: 'graph', data_points: points, is_whole: true }],
  ['a long list with holes', { list: [...points, undefined, () => 1] }],
] satisfies [string, unknown][]) {
  test(`the JSON is that of JSON.stringify: ${what}`, async () => {
    assert.equal(await writeInTurns(value), JSON.stringify(value));
  });
}

test('a long list is written with turns for others in between', async () => {
  const { turns } = await turnsOf(writeInTurns({ points: [...points, ...points, ...points] }));
  assert.ok(turns >= 5, `${turns} turns`);
});
