import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isSampled, type OtlpSettings, spanContextOf, forwardedTrace } from './trace-context.ts';

const id = '0198a1c2-7b3e-4c4d-8e5f-6a7b8c9d0e1f';
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const nothing = { traceId: '', spanId: '', parentSpanId: '', sampled: undefined };
const otlp = (ratio: number): OtlpSettings => ({
  url: 'http://c/v1/traces',
  headers: {},
  service_name: 'weir',
  resource: {},
  content: false,
  sample_ratio: ratio,
  timeout_ms: 1,
  queue: 1,
});

test('a request that names no trace is one of its own, with ids made of its own', () => {
  const own = { traceId: id.replaceAll('-', ''), spanId: '0198a1c27b3e4c4d', parentSpanId: '' };
  assert.deepEqual(spanContextOf(nothing, id), own);
  assert.deepEqual(spanContextOf({ ...nothing, traceId: id }, id), own);
});

test('ids of the standard stay, others become some: equal ones of equal texts', () => {
  const named = { traceId, spanId: 'ab'.repeat(8), parentSpanId: 'cd'.repeat(8), sampled: true };
  const { sampled, ...ids } = named;
  assert.equal(sampled, true);
  assert.deepEqual(spanContextOf(named, id), ids);
  for (const odd of ['checkout-42', '0'.repeat(32), '0'.repeat(16), traceId.toUpperCase(), 'é']) {
    const made = spanContextOf({ ...nothing, traceId: odd, spanId: odd, parentSpanId: odd }, id);
    assert.match(made.traceId, /^[0-9a-f]{32}$/);
    assert.match(made.spanId, /^[0-9a-f]{16}$/);
    assert.equal(made.parentSpanId, made.spanId, 'the span that another request called its own');
    assert.doesNotMatch(`${made.traceId} ${made.spanId}`, /\b0+\b/);
    assert.deepEqual(made, spanContextOf({ ...nothing, traceId: odd, spanId: odd, parentSpanId: odd }, 'x'));
  }
});

test('the caller decides whether its trace is recorded', () => {
  assert.equal(isSampled({ ...nothing, sampled: true }, traceId, otlp(0)), true);
  assert.equal(isSampled({ ...nothing, sampled: false }, traceId, otlp(1)), false);
  assert.equal(isSampled({ ...nothing, sampled: true }, traceId, undefined), true);
});

test('of traces that begin here a share is recorded, and none when nothing is sent', () => {
  const taken = (ratio: number): number => {
    let count = 0;
    for (let i = 0; i < 4096; i++) {
      const one = `${'0'.repeat(19)}${i.toString(16).padStart(3, '0')}${'8'.repeat(10)}`;
      if (isSampled(nothing, one, otlp(ratio))) count++;
    }
    return count;
  };
  assert.deepEqual([0, 0.25, 0.5, 1].map(taken), [0, 1024, 2048, 4096]);
  assert.equal(isSampled(nothing, traceId, undefined), false);
});

test('others are told the span of the gateway as the parent, and whether it is recorded', () => {
  const named = { ...nothing, traceId, parentSpanId: 'cd'.repeat(8) };
  const own = `00-${traceId}-0198a1c27b3e4c4d`;
  const told = (sampled: boolean | undefined, to: OtlpSettings | undefined) =>
    forwardedTrace({ ...named, sampled }, id, to);
  assert.deepEqual(told(true, undefined), { parent: `${own}-01`, keepsState: true });
  assert.deepEqual(told(false, otlp(1)), { parent: `${own}-00`, keepsState: true });
  assert.deepEqual(told(undefined, otlp(1)), { parent: `${own}-01`, keepsState: false });
  assert.deepEqual(told(undefined, undefined), { parent: `${own}-00`, keepsState: false });
});
