import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { loadConfig, resolveTelemetry } from './load-config.ts';

const pipelines = 'pipelines: [{ name: a, match: { path: / }, plugins: [auth] }]';

async function load(telemetry: string, env: Record<string, string> = {}) {
  const text = `version: 1\n${pipelines}\n${telemetry === '' ? '' : `telemetry: ${telemetry}\n`}`;
  return loadConfig('g.yaml', { env, readFile: () => Promise.resolve(Buffer.from(text)) });
}

async function settings(telemetry: string, env: Record<string, string> = {}) {
  const loaded = await load(telemetry, env);
  assert.ok(loaded.ok, JSON.stringify(loaded));
  return loaded.config.telemetry;
}

describe('telemetry settings', () => {
  test('without any, nothing is sent and nothing is propagated', async () => {
    const nothing = { propagate: false, otlp: undefined, metrics: { labels: [], max_label_values: 50 } };
    assert.deepEqual(await settings(''), nothing);
    assert.deepEqual(await settings('{ otlp: { sample_ratio: 0.5 } }'), nothing, 'nobody says where');
    assert.deepEqual(resolveTelemetry({}, {}), { settings: nothing, warnings: [] });
  });

  test('of the file, secrets from variables', async () => {
    const written =
      '{ propagate: true, otlp: { url: "https://c:4318", headers: { x-token: "${TOKEN}" }, sample_ratio: 0.1, content: true, timeout_ms: 500, queue: 9, service_name: gate } }';
    assert.deepEqual((await settings(written, { TOKEN: 's' })).otlp, {
      url: 'https://c:4318/v1/traces',
      headers: { 'x-token': 's' },
      service_name: 'gate',
      resource: {},
      sample_ratio: 0.1,
      content: true,
      timeout_ms: 500,
      queue: 9,
    });
  });

  const urls: readonly [string, string][] = [
    ['http://c:4318', 'http://c:4318/v1/traces'],
    ['http://c:4318/', 'http://c:4318/v1/traces'],
    ['https://c/api/public/otel', 'https://c/api/public/otel/v1/traces'],
    ['https://c/v1/traces', 'https://c/v1/traces'],
    ['https://c/x/v1/traces/', 'https://c/x/v1/traces'],
  ];
  for (const [written, used] of urls) {
    test(`${written} → ${used}`, async () =>
      assert.equal((await settings(`{ otlp: { url: "${written}" } }`)).otlp?.url, used));
  }

  const refused: readonly [string, RegExp][] = [
    ['{ otlp: { url: "grpc://c:4317" } }', /an address without user or query/],
    ['{ otlp: { url: "${URL}" } }', /an address without user or query/],
    ['{ otlp: { url: "https://c", sample_ratio: 2 } }', /sample_ratio/],
    ['{ otlp: { url: "https://c", headers: { "a b": c } } }', /headers/],
    ['{ otlp: { urll: "https://c" } }', /did you mean "url"/],
    ['{ metrics: { labels: [user] } }', /metadata\.<key>/],
    ['{ metrics: { labels: [model, model] } }', /labels/],
  ];
  for (const [written, message] of refused) {
    test(`${written} is refused`, async () => {
      const loaded = await load(written, { URL: 'https://user:secret@c' });
      assert.ok(!loaded.ok);
      const problems = loaded.problems.map((one) => `${one.path}: ${one.message}`).join('\n');
      assert.match(problems, message);
      assert.doesNotMatch(problems, /user:secret/);
    });
  }
});

describe('variables of OpenTelemetry', () => {
  const OTEL_EXPORTER_OTLP_ENDPOINT = 'http://env:4318/base';

  test('fill in what the file leaves out', async () => {
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20s, x-a = 1 ,',
      OTEL_SERVICE_NAME: 'from-env',
      OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment=prod%2Feu',
    };
    const { otlp } = await settings('', env);
    assert.deepEqual(
      [otlp?.url, otlp?.service_name, otlp?.headers, otlp?.resource],
      [
        'http://env:4318/base/v1/traces',
        'from-env',
        { authorization: 'Bearer s', 'x-a': '1' },
        { 'deployment.environment': 'prod/eu' },
      ],
    );
    const own = (await settings('{ otlp: { url: "http://file", headers: {}, service_name: f } }', env)).otlp;
    assert.deepEqual([own?.url, own?.service_name, own?.headers], ['http://file/v1/traces', 'f', {}]);
    const unnamed = await settings('', { ...env, OTEL_SERVICE_NAME: '' });
    assert.equal(unnamed.otlp?.service_name, 'other');
  });

  test('for traces come before those for everything, and their endpoint is used as it is', async () => {
    const { otlp } = await settings('', {
      OTEL_EXPORTER_OTLP_ENDPOINT,
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://traces/own',
      OTEL_EXPORTER_OTLP_HEADERS: 'a=1',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'b=2',
    });
    assert.deepEqual(
      [otlp?.url, otlp?.headers, otlp?.service_name],
      ['http://traces/own', { b: '2' }, 'weir'],
    );
  });

  const off: readonly Record<string, string>[] = [
    { OTEL_SDK_DISABLED: 'true' },
    { OTEL_TRACES_EXPORTER: 'none' },
    { OTEL_EXPORTER_OTLP_ENDPOINT: '' },
  ];
  for (const env of off) {
    test(`${JSON.stringify(env)} sends nothing`, async () =>
      assert.equal((await settings('', { OTEL_EXPORTER_OTLP_ENDPOINT, ...env })).otlp, undefined));
  }

  const odd: readonly [Record<string, string>, RegExp][] = [
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /speaks OTLP over HTTP; set telemetry\.otlp\.url/],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, /no http or https address/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: 'a=1,canary-secret' }, /a part of OTEL_EXPORTER_OTLP_HEADERS is left out/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: 'a=%canary' }, /is left out/],
  ];
  for (const [env, message] of odd) {
    test(`${JSON.stringify(env)} is told, without what it says`, async () => {
      const loaded = await load('', { OTEL_EXPORTER_OTLP_ENDPOINT, ...env });
      assert.ok(loaded.ok);
      const [warning] = loaded.warnings;
      assert.equal(warning?.severity, 'warning');
      assert.match(warning.message, message);
      assert.doesNotMatch(warning.message, /canary/);
    });
  }
});
