// docs/telemetry.md lists every metric that the code defines, and nothing else.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { SpanExporter } from '../../adapters/telemetry/otlp/span-exporter.ts';
import { recordingLog, realClock } from '../lifecycle/recording-services.test-support.ts';
import { pluginErrors } from '../lifecycle/plugin-errors.ts';
import { createHookTimes } from '../pipeline/call-hook.ts';
import type { MetricDefinition, Metrics } from '../ports/metrics.ts';
import { readSources } from '../../scripts/read-sources.ts';
import { requestFamilies } from './request-metrics.ts';

/** What the table says: labels by name. */
function documented(): Map<string, string> {
  const text = readFileSync(new URL('../../docs/telemetry.md', import.meta.url), 'utf8');
  const rows = text.matchAll(/^\| `(weir_[a-z_]+)`\s*\|([^|]*)\|[^|]*\|$/gm);
  return new Map([...rows].map(([, name = '', labels = '']) => [name, labels.trim()]));
}

/** Metrics that remember what was defined. */
function definitions(define: (metrics: Metrics) => void): MetricDefinition<string>[] {
  const defined: MetricDefinition<string>[] = [];
  const family = (definition: MetricDefinition<string>) => {
    defined.push(definition);
    return () => ({ inc: () => undefined, set: () => undefined, observe: () => undefined });
  };
  define({
    counter: family,
    gauge: family,
    histogram: family,
    onScrape: () => () => undefined,
    render: () => Promise.resolve({ contentType: '', text: '' }),
  });
  return defined;
}

/** Names of tables and files that look like metrics. */
const others = new Set(['weir_changes', 'weir_migrations', 'weir_rolled_back']);
const isOther = (name: string): boolean => others.has(name) || /^weir_rows_(?:file|from|end)$/.test(name);

test('every metric that is named in the code stands in docs/telemetry.md: add a row there', () => {
  const named = readSources()
    .filter(
      ({ file }) =>
        /^(core|adapters|plugins|storage|main)\//.test(file) && !/\.test(-support)?\.ts$/.test(file),
    )
    .flatMap(({ text }) => [...text.matchAll(/'(weir_[a-z_]+)'/g)].map(([, name = '']) => name))
    .filter((name) => !isOther(name));
  assert.ok(named.length > 30);
  const known = documented();
  assert.deepEqual(
    [...new Set(named)].filter((name) => !known.has(name)),
    [],
  );
});

test('every metric in docs/telemetry.md is in the code: take its row away', () => {
  const code = readSources()
    .map(({ text }) => text)
    .join('\n');
  // Some names are put together of their beginning and a list.
  const made = /^weir_(?:rows_(?:accepted|stored|shed)_total|jobs_(?:waiting|running|failed))$/;
  const missing = [...documented().keys()].filter((name) => !made.test(name) && !code.includes(`'${name}'`));
  assert.deepEqual(missing, []);
});

test('the labels of the metrics of requests and of telemetry are those of the table', () => {
  const known = documented();
  const defined = definitions((metrics) => {
    requestFamilies(metrics, []);
    createHookTimes(metrics);
    pluginErrors(metrics);
    new SpanExporter({
      metrics,
      clock: realClock,
      log: recordingLog([]),
      queue: 1,
      random: () => 0,
      post: () => Promise.resolve({ kind: 'refused', reason: '' }),
    });
  });
  assert.ok(defined.length > 12);
  for (const { name, labels } of defined) assert.equal(known.get(name), labels.join(', '), name);
});
