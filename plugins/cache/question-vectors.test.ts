import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  RecordingMetrics,
  recordingLog,
  type Line,
} from '../../core/lifecycle/recording-services.test-support.ts';
import { TestClock } from '../../tests/kit/plugin-kit.ts';
import { QuestionVectors } from './similar-questions.ts';

function begin() {
  const lines: Line[] = [];
  const metrics = new RecordingMetrics();
  const clock = new TestClock();
  const asked: string[] = [];
  const state = { failing: false, hold: undefined as Promise<void> | undefined };
  const vectors = new QuestionVectors({
    embeddings: {
      problem: () => undefined,
      async embed(text) {
        asked.push(text);
        await state.hold;
        if (state.failing) throw new Error('away');
        return Float32Array.from([text.length, 1]);
      },
    },
    settings: { provider: 'openai', model: 'small', timeoutMs: 1000 },
    clock,
    metrics,
    log: recordingLog(lines),
  });
  const counted = (result: string): number =>
    metrics.values.get(`weir_cache_embeddings_total{result=${result}}`) ?? 0;
  return { vectors, asked, state, clock, lines, counted };
}

test('a question is embedded once, for those who ask at the same time and for those who ask again', async () => {
  const { vectors, asked, counted } = begin();
  const [one, other] = await Promise.all([vectors.of('a'), vectors.of('a')]);
  assert.deepEqual([...(one ?? [])], [1, 1]);
  assert.equal(other, one);
  assert.equal(vectors.of('a'), one, 'at once, without a promise');
  assert.deepEqual([asked, counted('made')], [['a'], 1]);
});

test('only so many are remembered; the one used longest ago is forgotten first', async () => {
  const { vectors, asked } = begin();
  for (let i = 0; i < 500; i++) await vectors.of(`q${i}`);
  assert.ok(vectors.of('q0') instanceof Float32Array);
  await vectors.of('new');
  asked.length = 0;
  await vectors.of('q0');
  await vectors.of('q1');
  assert.deepEqual(asked, ['q1']);
});

test('a failure gives none, is counted, and said once in a minute', async () => {
  const { vectors, state, clock, lines, counted } = begin();
  state.failing = true;
  assert.equal(await vectors.of('a'), undefined);
  assert.equal(await vectors.of('b'), undefined);
  assert.deepEqual([lines.length, counted('failed')], [1, 2]);
  assert.deepEqual(lines[0]?.fields, { provider: 'openai', model: 'small', failed: 1, error: 'away' });
  clock.advance(60_000);
  await vectors.of('a');
  assert.deepEqual([lines.length, lines[1]?.fields['failed']], [2, 2]);
});

test('after three failures in a row nobody waits for five seconds', async () => {
  const { vectors, state, clock, asked, counted } = begin();
  state.failing = true;
  for (const text of ['a', 'b', 'c']) await vectors.of(text);
  assert.equal(vectors.of('d'), undefined);
  assert.deepEqual([asked.length, counted('skipped')], [3, 1]);
  clock.advance(5000);
  state.failing = false;
  assert.ok(await vectors.of('d'));
  state.failing = true;
  await vectors.of('e');
  assert.ok(vectors.of('f') instanceof Promise, 'one failure is no row of three');
});

test('no more than 256 are under way', async () => {
  const { vectors, state, counted } = begin();
  let go = (): void => undefined;
  state.hold = new Promise((resolve) => (go = resolve));
  const waiting = Array.from({ length: 256 }, (_, at) => vectors.of(`q${at}`));
  assert.equal(vectors.of('one more'), undefined);
  assert.equal(counted('skipped'), 1);
  go();
  for (const one of waiting) await one;
  assert.ok(await vectors.of('one more'));
});
