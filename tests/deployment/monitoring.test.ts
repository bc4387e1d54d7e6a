// Dashboard, alerts and the rules of the adapter ask for metrics that a gateway really has, with labels that they have:
// a name that is changed in the gateway would otherwise leave an empty panel, and an alert that never fires.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { dashboardQueries } from '../../scripts/deployment/dashboard.ts';
import { send } from '../kit/http-kit.ts';
import { eventually, ownerKey, startWeir, stopEverything } from '../kit/process-kit.ts';

interface Rule {
  readonly alert: string;
  readonly expr: string;
}
interface AlertTest {
  readonly alert_rule_test: readonly {
    readonly alertname: string;
    readonly exp_alerts: readonly unknown[];
  }[];
}

const read = (file: string): string => readFileSync(new URL(`../../deploy/${file}`, import.meta.url), 'utf8');
const alerts = (
  parse(read('prometheus/alerts.yaml')) as { groups: readonly { rules: readonly Rule[] }[] }
).groups.flatMap(({ rules }) => rules);
const adapter = parse(read('prometheus/adapter-rules.yaml')) as {
  rules: { custom: readonly { seriesQuery: string }[] };
};
const queries = [
  ...dashboardQueries(read('grafana/weir.json')),
  ...alerts.map(({ alert, expr }) => ({ place: alert, expr })),
  ...adapter.rules.custom.map(({ seriesQuery }) => ({ place: 'adapter-rules.yaml', expr: seriesQuery })),
];

/** Labels that Prometheus adds to every series of a gateway, and that of histograms. */
const added = ['job', 'instance', 'namespace', 'pod', 'le'];

interface Family {
  readonly type: string;
  readonly labels: ReadonlySet<string>;
}
let families: ReadonlyMap<string, Family>;

before(async () => {
  // Nothing listens at these addresses: the families of a store are there without it. Workers, because some metrics of
  // a single process cannot be added up over several and are left out there.
  const nowhere = '127.0.0.1:9';
  const weir = await startWeir({
    yaml: {
      version: 1,
      server: { workers: 2 },
      storage: {
        resources: { url: `postgres://weir@${nowhere}/weir` },
        analytics: { url: `http://${nowhere}/weir` },
        counters: { url: `redis://${nowhere}` },
      },
      telemetry: { otlp: { url: `http://${nowhere}` } },
      pipelines: [
        {
          name: 'gateway',
          match: { path: '/**' },
          plugins: ['auth', 'policies', { cache: { mode: 'simple' } }, 'provider', 'logger'],
        },
      ],
    },
  });
  const answer = await send(weir.url, {
    path: '/v1/chat/completions',
    headers: { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' },
    body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] },
  });
  assert.equal(answer.status, 200, answer.text);
  families = await eventually(async () => {
    const { text } = await send(weir.url, { path: '/metrics' });
    return /^weir_requests_total\{/m.test(text) ? readFamilies(text) : undefined;
  });
  await weir.stop('SIGKILL');
});
after(stopEverything);

/** The families of an exposition, with the labels of their series and those that docs/telemetry.md promises. */
function readFamilies(text: string): Map<string, Family> {
  const documented = readFileSync(new URL('../../docs/telemetry.md', import.meta.url), 'utf8');
  const found = new Map<string, Family>();
  for (const [, name = '', type = ''] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    const row = new RegExp(`^\\| \`${name}\` +\\| ([\\w, ]*)\\|`, 'm').exec(documented)?.[1] ?? '';
    const series = [...text.matchAll(new RegExp(`^${name}(?:_bucket|_sum|_count)?\\{(.*)\\} `, 'gm'))];
    const own = series.flatMap(([, labels = '']) =>
      [...labels.matchAll(/(\w+)="/g)].map(([, label = '']) => label),
    );
    found.set(name, {
      type,
      labels: new Set([...row.split(',').map((label) => label.trim()), ...own, ...added].filter(Boolean)),
    });
  }
  return found;
}

/** A family by the name of one of its series. */
function familyOf(series: string): Family | undefined {
  const family = families.get(series) ?? families.get(series.replace(/_(bucket|sum|count)$/, ''));
  const isPart = !families.has(series);
  return isPart && family?.type !== 'histogram' ? undefined : family;
}

const seriesIn = (expr: string): string[] =>
  [...expr.replace(/"[^"]*"/g, '""').matchAll(/\b(?:weir|nodejs|process)_\w+/g)].map(([name]) => name);

describe('dashboard, alerts and the rules of the adapter', () => {
  test('ask for series that a gateway has', () => {
    assert.ok(queries.length > 60, `only ${queries.length} queries were found`);
    for (const { place, expr } of queries) {
      const names = seriesIn(expr);
      // Prometheus itself writes `up`.
      assert.ok(names.length > 0 || /^(sum\()?up\{/.test(expr), `${place} asks for nothing of the gateway`);
      for (const name of names) assert.ok(familyOf(name), `${place}: /metrics has no ${name}`);
    }
  });

  test('select and group by labels that these have', () => {
    for (const { place, expr } of queries) {
      for (const [, name = '', selector = ''] of expr.matchAll(/\b((?:weir|nodejs|process)_\w+)\{([^}]*)\}/g))
        for (const [, label = ''] of selector.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g))
          assert.ok(familyOf(name)?.labels.has(label), `${place}: ${name} has no label ${label}`);
      const all = new Set(seriesIn(expr).flatMap((name) => [...(familyOf(name)?.labels ?? [])]));
      for (const [, list = ''] of expr.matchAll(/\bby \(([^)]*)\)/g))
        for (const label of list.split(',').map((one) => one.trim()))
          assert.ok(all.has(label), `${place}: nothing has the label ${label}`);
    }
  });

  test('take rates of what only grows, and no others', () => {
    for (const { place, expr } of queries)
      for (const [, name = ''] of expr.matchAll(/\b(?:rate|increase|resets)\((\w+)/g))
        assert.match(familyOf(name)?.type ?? '', /^(counter|histogram)$/, `${place}: ${name}`);
  });
});

test('each alert is tested: that it fires, and that it is silent while all is well', () => {
  const { tests } = parse(read('prometheus/alerts.test.yaml')) as { tests: readonly AlertTest[] };
  const cases = tests.flatMap((one) => one.alert_rule_test);
  for (const { alert } of alerts)
    for (const fires of [true, false])
      assert.ok(
        cases.some((one) => one.alertname === alert && one.exp_alerts.length > 0 === fires),
        `${alert}: no case in which it ${fires ? 'fires' : 'is silent'}`,
      );
});
