import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createMetrics } from './prometheus.ts';

const definition = { name: 'weir_test_total', help: 'For this test.', labels: ['a', 'b'] } as const;

describe('prometheus metrics', () => {
  it('exposes counters, gauges and histograms with their labels', async () => {
    const metrics = createMetrics();
    metrics.counter(definition)({ a: 'x', b: 'y"\n' }).inc();
    metrics.counter(definition)({ a: 'x', b: 'y"\n' }).inc(2.5);
    metrics.gauge({ name: 'weir_test_bytes', help: 'h', labels: [] })({}).set(7);
    const seconds = metrics.histogram({
      name: 'weir_test_seconds',
      help: 'h',
      labels: ['a'],
      buckets: [1, 2],
    });
    for (const value of [0.5, 1.5, 9]) seconds({ a: 'x' }).observe(value);
    const { contentType, text } = await metrics.render();
    assert.match(contentType, /^text\/plain; version=0\.0\.4/);
    for (const line of [
      '# HELP weir_test_total For this test.',
      '# TYPE weir_test_total counter',
      'weir_test_total{a="x",b="y\\"\\n"} 3.5',
      'weir_test_bytes 7',
      'weir_test_seconds_bucket{le="1",a="x"} 1',
      'weir_test_seconds_bucket{le="2",a="x"} 2',
      'weir_test_seconds_bucket{le="+Inf",a="x"} 3',
      'weir_test_seconds_sum{a="x"} 11',
      'weir_test_seconds_count{a="x"} 3',
    ]) {
      assert.ok(text.split('\n').includes(line), line);
    }
  });

  it('knows the process: event loop, memory and CPU', async () => {
    const { text } = await createMetrics().render();
    for (const name of [
      'nodejs_eventloop_lag_seconds',
      'process_resident_memory_bytes',
      'process_cpu_seconds_total',
    ]) {
      assert.ok(text.includes(`\n${name} `), name);
    }
  });

  it('tells the start of the oldest of several processes', async () => {
    const family = { name: 'process_start_time_seconds', help: '-', type: 'gauge', aggregator: 'min' };
    const other = (value: number) => [{ ...family, values: [{ labels: {}, value }] }];
    const { text } = await createMetrics().render([other(2e9), other(1e9)]);
    assert.match(text, /^process_start_time_seconds 1000000000$/m);
    const own = await createMetrics().render([other(9e9)]);
    const told = Number(/^process_start_time_seconds (\d+)$/m.exec(own.text)?.[1]);
    assert.ok(Math.abs(told - (Date.now() / 1000 - process.uptime())) < 5, `${told}`);
  });

  it('returns the same family and the same child when they are asked for again', async () => {
    const metrics = createMetrics();
    const first = metrics.counter(definition)({ a: 'x', b: 'y' });
    assert.equal(metrics.counter({ ...definition, labels: ['a', 'b'] })({ b: 'y', a: 'x' }), first);
    assert.notEqual(
      metrics.counter(definition)({ a: 'xy', b: '' }),
      metrics.counter(definition)({ a: 'x', b: 'y' }),
    );
    first.inc();
    assert.ok((await metrics.render()).text.includes('weir_test_total{a="x",b="y"} 1'));
  });

  it('refuses a name that is taken by another kind or other labels', () => {
    const metrics = createMetrics();
    metrics.counter(definition);
    assert.throws(
      () => metrics.gauge(definition),
      /metric weir_test_total is defined as a counter with labels \[a,b\]/,
    );
    assert.throws(
      () => metrics.counter({ ...definition, labels: ['a'] }),
      /give the counter with \[a\] another name/,
    );
  });

  it('counts together what goes beyond 10,000 series of a family', async () => {
    const metrics = createMetrics();
    const family = metrics.counter(definition);
    for (let i = 0; i < 10_003; i += 1) family({ a: String(i), b: '' }).inc();
    family({ a: '5', b: '' }).inc();
    const { text } = await metrics.render();
    assert.equal(text.match(/^weir_test_total\{/gm)?.length, 10_001);
    assert.ok(text.includes('weir_test_total{a="other",b="other"} 3'));
    assert.ok(text.includes('weir_test_total{a="5",b=""} 2'), 'known series go on');
  });

  it('counts together what goes beyond 2,000 series of a family of histograms', async () => {
    const metrics = createMetrics();
    const family = metrics.histogram({ name: 'weir_test_seconds', help: 'h', labels: ['a'], buckets: [1] });
    for (let i = 0; i < 2_003; i += 1) family({ a: String(i) }).observe(1);
    const { text } = await metrics.render();
    assert.equal(text.match(/^weir_test_seconds_count\{/gm)?.length, 2_001);
    assert.ok(text.includes('weir_test_seconds_count{a="other"} 3'));
  });

  it('leaves out values that mean nothing instead of throwing', async () => {
    const metrics = createMetrics();
    const counter = metrics.counter({ name: 'weir_a_total', help: 'h', labels: [] })({});
    const gauge = metrics.gauge({ name: 'weir_b', help: 'h', labels: [] })({});
    const histogram = metrics.histogram({ name: 'weir_c', help: 'h', labels: [] })({});
    counter.inc(-1);
    for (const value of [Number.NaN, Infinity]) {
      counter.inc(value);
      gauge.set(value);
      histogram.observe(value);
    }
    const { text } = await metrics.render();
    assert.ok(
      text.includes('\nweir_a_total 0\n') &&
        text.includes('\nweir_b 0\n') &&
        text.includes('\nweir_c_count 0\n'),
    );
  });

  it('runs collectors before each scrape until they are removed, and outlives one that fails', async () => {
    const metrics = createMetrics();
    const gauge = metrics.gauge({ name: 'weir_now', help: 'h', labels: [] })({});
    let now = 1;
    const remove = metrics.onScrape(() => gauge.set(now));
    const removeBroken = metrics.onScrape(() => {
      throw new Error('broken');
    });
    assert.ok((await metrics.render()).text.includes('\nweir_now 1\n'));
    removeBroken();
    now = 2;
    const { text } = await metrics.render();
    assert.ok(text.includes('\nweir_now 2\n') && text.includes('\nweir_scrape_failures_total 1\n'));
    remove();
    now = 3;
    assert.ok((await metrics.render()).text.includes('\nweir_now 2\n'));
  });
});
