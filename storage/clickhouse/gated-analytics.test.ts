import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import type { Analytics } from '../../core/ports/analytics.ts';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import { gateQueries } from './query-gate.ts';

const free = [
  'insert',
  'storedIds',
  'costsByDay',
  'countedUsage',
  'repricing',
  'ping',
  'close',
] as const satisfies readonly (keyof Analytics)[];
const gated = [
  ...['groups', 'series', 'feedbackSeries', 'logs', 'countLogs', 'newLogs', 'trace', 'traces'],
  ...['requestById', 'feedback', 'feedbackById'],
] as const;

/** A store that notes what is called, and whose every answer comes when it is released. */
function slowStore() {
  const called: { verb: string; given: unknown[] }[] = [];
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  const verbs = [...free, ...gated].map((verb) => [
    verb,
    async (...given: unknown[]) => {
      called.push({ verb, given });
      await released;
      return `answer of ${verb}`;
    },
  ]);
  const store = Object.fromEntries(verbs) as Record<string, (...given: unknown[]) => Promise<unknown>>;
  return { store, called, release: () => release() };
}

function setUp(running: number) {
  const metrics = createMetrics();
  const { store, called, release } = slowStore();
  const opened: object = gateQueries(store as never, {
    running,
    waiting: 100,
    clock: new ManualClock(),
    metrics,
  });
  const behind = opened as Record<string, (...given: unknown[]) => Promise<unknown>>;
  return { behind, called, release, text: async () => (await metrics.render()).text };
}

const query = { visibility: { organisationId: 'o' } };
/** As a verb is called: with a query, or with what is wanted, a window and whose it is. */
const given = (verb: string): unknown[] =>
  ['trace', 'requestById', 'feedbackById'].includes(verb) ? ['id', {}, query.visibility] : [query];

function call(behind: Awaited<ReturnType<typeof setUp>>['behind'], verb: string): Promise<unknown> {
  const run = behind[verb];
  assert.ok(run, verb);
  return run(...given(verb));
}

test('every verb gets to the store with what it was given, and its answer back', async () => {
  const { behind, called, release } = setUp(100);
  const verbs = [...free, ...gated];
  assert.deepEqual(Object.keys(behind).sort(), [...verbs].sort());
  const answers = verbs.map((verb) => call(behind, verb));
  await settle();
  release();
  assert.deepEqual(
    await Promise.all(answers),
    verbs.map((verb) => `answer of ${verb}`),
  );
  for (const verb of gated) assert.deepEqual(called.find((one) => one.verb === verb)?.given, given(verb));
});

test('what stores rows, looks for them or asks whether the store answers never waits; queries do', async () => {
  const { behind, called, release, text } = setUp(1);
  const answers = [...gated, ...free].map((verb) => call(behind, verb));
  await settle();
  assert.deepEqual(called.map(({ verb }) => verb).sort(), ['groups', ...free].sort());
  const busy = await text();
  assert.match(busy, /^weir_analytics_queries_running 1$/m);
  assert.match(busy, new RegExp(`^weir_analytics_queries_waiting ${gated.length - 1}$`, 'm'));
  release();
  await Promise.all(answers);
  const done = await text();
  assert.match(done, /^weir_analytics_queries_running 0$/m);
  assert.match(done, /^weir_analytics_query_seconds_count\{verb="series"\} 1$/m);
  assert.match(done, new RegExp(`^weir_analytics_query_wait_seconds_count ${gated.length}$`, 'm'));
  assert.match(done, /^weir_analytics_queries_refused_total\{reason="late"\} 0$/m);
});
