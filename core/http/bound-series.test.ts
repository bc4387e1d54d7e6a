import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecordingMetrics } from '../lifecycle/recording-services.test-support.ts';
import { BoundSeries, requestFamilies } from './request-metrics.ts';

type Combination = Parameters<BoundSeries['of']>[0];

const usual: Combination = {
  provider: 'up',
  endpoint: 'chat.completions',
  status: 200,
  outcome: 'completed',
  source: 'provider',
  method: 'POST',
  stream: false,
  cacheStatus: 'MISS',
  further: [],
};
const others: readonly Partial<Combination>[] = [
  { provider: 'down' },
  { endpoint: 'embeddings' },
  { status: 201 },
  { outcome: 'refused' },
  { source: 'cache' },
  { method: 'PUT' },
  { stream: true },
  { cacheStatus: 'HIT' },
  { further: ['a'] },
  { further: ['b'] },
  { further: ['a', 'b'] },
];

function begin() {
  const bound: Combination[] = [];
  const families = requestFamilies(new RecordingMetrics(), []);
  const series = new BoundSeries((one) => {
    bound.push(one);
    return families.bind(one, {});
  });
  return { bound, of: (change: Partial<Combination> = {}) => series.of({ ...usual, ...change }) };
}

test('each label tells series apart, in turns and again and again', () => {
  const { bound, of } = begin();
  const first = of();
  for (const other of others) {
    const one = of(other);
    assert.notEqual(one, first);
    assert.equal(of(), first);
    assert.equal(of(other), one);
  }
  assert.equal(bound.length, 1 + others.length);
});

test('a series is bound once, however many others come between', () => {
  const { bound, of } = begin();
  const first = of();
  const rest = others.map((other) => of(other));
  assert.equal(of(), first);
  assert.deepEqual(
    others.map((other) => of(other)),
    rest,
  );
  assert.equal(bound.length, 1 + others.length);
});
