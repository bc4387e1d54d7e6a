import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  recordingLog,
  RecordingMetrics,
  type Line,
} from '../../../core/lifecycle/recording-services.test-support.ts';
import { ManualClock, settle } from '../../../tests/conformance/manual-clock.ts';
import { type Delivery, SpanExporter } from './span-exporter.ts';

const taken: Delivery = { kind: 'taken', rejected: 0, reason: '' };
const again: Delivery = { kind: 'again', reason: 'status 503', afterMs: undefined };

/** An exporter whose collector answers what `answers` hold, the last one for ever. */
function start(answers: (Delivery | Promise<Delivery>)[], queue = 4096, random = 0) {
  const clock = new ManualClock();
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const posts: { readonly spans: readonly string[]; readonly at: number }[] = [];
  const begun = clock.now();
  const exporter = new SpanExporter({
    queue,
    clock,
    metrics,
    log: recordingLog(lines),
    random: () => random,
    post(spans) {
      posts.push({ spans, at: clock.now() - begun });
      return Promise.resolve(answers.length > 1 ? answers.shift()! : answers[0]!);
    },
  });
  const count = (result: string): number =>
    metrics.values.get(`weir_otlp_spans_total{result=${result}}`) ?? 0;
  return { exporter, clock, posts, count, lines, metrics, at: () => posts.map((one) => one.at) };
}

test('spans are gathered for a second and sent in batches of 512', async () => {
  const { exporter, clock, posts, count } = start([taken]);
  exporter.add(['a', 'b']);
  await clock.pass(900);
  exporter.add(['c']);
  assert.equal(posts.length, 0);
  await clock.pass(100);
  assert.deepEqual(posts[0]?.spans, ['a', 'b', 'c']);
  exporter.add(Array.from({ length: 600 }, (_, n) => String(n)));
  await settle();
  assert.deepEqual(
    posts.slice(1).map(({ spans }) => spans.length),
    [512, 88],
    'a full batch waits for nobody',
  );
  assert.equal(count('exported'), 603);
  assert.equal(clock.waiting, 0);
});

test('a batch is bounded in bytes too, and holds one span at least', async () => {
  const { exporter, clock, posts } = start([taken]);
  exporter.add(['x'.repeat(2_000_000), 'y'.repeat(600_000), 'z'.repeat(600_000)]);
  await clock.pass(1000);
  assert.deepEqual(
    posts.map(({ spans }) => spans.map((span) => span[0])),
    [['x'], ['y'], ['z']],
  );
});

test('a full queue drops what comes, and counts it', async () => {
  const { exporter, clock, count, metrics } = start([taken], 2);
  exporter.add(['a', 'b', 'c']);
  assert.equal(count('dropped'), 1);
  for (const collect of metrics.scrapes) collect();
  assert.equal(metrics.values.get('weir_otlp_queue_spans'), 2);
  await clock.pass(1000);
  exporter.add(['d']);
  await clock.pass(1000);
  assert.deepEqual([count('exported'), count('dropped')], [3, 1]);
});

test('32 MiB of spans are the most that wait', () => {
  const { exporter, count } = start([taken]);
  exporter.add(Array.from({ length: 5 }, () => 'x'.repeat(8 * 1_048_576)));
  assert.equal(count('dropped'), 1);
});

test('a batch that may pass later is sent again after waits that double, with jitter', async () => {
  for (const [random, at] of [
    [0, [1000, 1500, 2500, 4500]],
    [0.5, [1000, 1750, 3250, 6250]],
  ] as const) {
    const { exporter, clock, count, lines, ...rest } = start([again, again, again, taken], 10, random);
    exporter.add(['a']);
    await clock.pass(20_000);
    assert.deepEqual(rest.at(), at);
    assert.ok(rest.posts.every(({ spans }) => spans[0] === 'a'));
    assert.deepEqual([count('exported'), count('failed')], [1, 0]);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['warn', 'info'],
      'a lasting failure is told once, and so is its end',
    );
  }
});

test('a collector that says when to come back is asked then, and not before', async () => {
  const { exporter, clock, at } = start([{ ...again, afterMs: 30_000 }, taken]);
  exporter.add(['a']);
  await clock.pass(60_000);
  assert.deepEqual(at(), [1000, 31_000]);
});

test('a batch is given up after a minute; what waits is sent all the same', async () => {
  const { exporter, clock, posts, count } = start([again]);
  exporter.add(['a']);
  await clock.pass(62_000);
  assert.equal(count('failed'), 1);
  const before = posts.length;
  exporter.add(['b']);
  await clock.pass(1000);
  assert.deepEqual(posts.at(before)?.spans, ['b']);
});

test('a refusal is not repeated, and what the collector rejects of a batch is counted', async () => {
  const { exporter, clock, posts, count, lines } = start([
    { kind: 'refused', reason: 'status 401' },
    { kind: 'taken', rejected: 2, reason: 'too old' },
    taken,
  ]);
  for (const spans of [['a'], ['b', 'c', 'd'], ['e']]) {
    exporter.add(spans);
    await clock.pass(1000);
  }
  assert.equal(posts.length, 3);
  assert.deepEqual([count('failed'), count('rejected'), count('exported')], [1, 2, 2]);
  assert.match(lines[0]?.message ?? '', /status 401/);
  assert.match(lines[1]?.message ?? '', /too old/);
});

test('closing sends what waits at once, also what waits for another attempt', async () => {
  const { exporter, clock, posts, count } = start([again, taken]);
  exporter.add(['a']);
  await clock.pass(1000);
  exporter.add(['b']);
  await exporter.close(5000);
  assert.deepEqual(
    posts.map(({ spans }) => spans),
    [['a'], ['a'], ['b']],
  );
  assert.equal(count('exported'), 2);
  exporter.add(['late']);
  assert.equal(count('dropped'), 1);
  assert.equal(clock.waiting, 0);
});

test('closing tries each batch once, and waits no longer than its deadline', async () => {
  const failing = start([again]);
  failing.exporter.add(['a', 'b']);
  await failing.exporter.close(5000);
  assert.deepEqual([failing.posts.length, failing.count('failed')], [1, 2]);

  const hanging = start([new Promise<Delivery>(() => undefined)]);
  hanging.exporter.add(Array.from({ length: 600 }, () => 'a'));
  const closing = hanging.exporter.close(5000);
  await hanging.clock.pass(5000);
  await closing;
  assert.equal(hanging.count('failed'), 88, 'the batch under way is not known yet');
});
