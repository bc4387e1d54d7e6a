import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { explainTools } from '../../../main/explain-tools.ts';
import { stopEverything, temporaryFolder } from '../../../tests/kit/process-kit.ts';
import { loadConfig } from '../../config/load-config.ts';
import { systemClock } from '../../ports/clock.ts';
import { runExplainCommand } from './explain-command.ts';

const secret = 'sk-very-secret-0123456789';
const fallback = {
  strategy: { mode: 'fallback', on_status_codes: [429] },
  targets: [
    {
      provider: '@held',
      request_timeout: 2000,
      retry: { attempts: 2, use_retry_after_headers: true },
      default_params: { n: 2, seed: 9007199254740991 },
      override_params: { model: 'gpt-4o' },
      drop_params: ['user', 'messages[*].name'],
      cb_config: { failure_threshold: 3, cooldown_interval: 30_000 },
    },
    { strategy: { mode: 'least-latency' }, targets: [{ provider: 'openai' }, { provider: 'anthropic' }] },
  ],
};
const yaml = {
  version: 1,
  providers: { held: { base_url: 'https://models.example.com/v1', api_key: secret, service: 'openai' } },
  configs: {
    smart: fallback,
    picky: {
      strategy: { mode: 'conditional', conditions: [{ query: { 'metadata.a': 'b' }, then: 'x' }] },
      targets: [{ name: 'x', provider: '@held' }],
    },
  },
  pipelines: [{ name: 'gateway', match: { path: '/**' }, plugins: ['provider'] }],
};
const asked = { body: { model: 'm', n: 3, user: 'u', messages: [{ role: 'user', content: 'Hello' }] } };

let folder: string;
before(async () => {
  folder = await temporaryFolder();
  await writeFile(path.join(folder, 'gateway.yaml'), JSON.stringify(yaml));
  await writeFile(path.join(folder, 'broken.yaml'), 'version: 1\npipelinez: []\n');
  await writeFile(
    path.join(folder, 'config.yaml'),
    'strategy: { mode: fallback }\ntargets:\n  - provider: opnai\n',
  );
  await writeFile(
    path.join(folder, 'good.yaml'),
    'provider: "@held"\ncache: { mode: simple, max_age: 60 }\n',
  );
  await writeFile(path.join(folder, 'empty.yaml'), '\n');
});
after(stopEverything);

async function explain(config: string, request: unknown, { json = false, file = 'gateway.yaml' } = {}) {
  const requestFile = path.join(folder, 'request.json');
  await writeFile(requestFile, typeof request === 'string' ? request : JSON.stringify(request));
  const lines: string[] = [];
  const errors: string[] = [];
  const tools = explainTools({
    configFile: (named) => named ?? '',
    load: (name) => loadConfig(name, { env: {} }),
    // Chance measures a slower target again in one of many requests; here it never does.
    clock: systemClock,
    environment: {},
    random: () => 0.5,
    print: (text) => lines.push(text),
    complain: (text) => errors.push(text),
  });
  const named = config.endsWith('.yaml') ? path.join(folder, config) : config;
  const code = await runExplainCommand(
    { name: 'explain', config: named, request: requestFile, file: path.join(folder, file), json },
    tools,
  );
  return { code, out: lines.join('\n'), errors: errors.join('\n') };
}

describe('weir explain: the plan', () => {
  test('of a config with guardrails; a wrong check is told', async () => {
    const guarded = (words: string) =>
      `{"provider":"openai","input_guardrails":[{"default.contains":{"${words}":["a"]},"deny":true}]}`;
    const { code, errors } = await explain(guarded('words'), asked);
    assert.equal(code, 0, errors);
    const wrong = await explain(guarded('word'), asked);
    assert.equal(wrong.code, 1);
    assert.match(wrong.errors, /word/);
  });

  test('as text: settings, changes of this very body, and where failures lead', async () => {
    const { code, out, errors } = await explain('smart', asked);
    assert.equal(code, 0, errors);
    for (const part of [
      'Config    smart\nRequest   POST /v1/chat/completions\n',
      '1. config.targets[0]\n   provider  held at https://models.example.com/v1\n   model     gpt-4o',
      'set seed = 9007199254740991, model = "gpt-4o"; remove user, messages[*].name',
      'timeouts  request 2000 ms, as the provider plugin says',
      'up to 2 times on 429, 500, 502, 503, 504 or 529, waiting as long as the answer asks',
      'breaker   opens after 3 failures',
      'if it fails with 429 → config.targets[1].targets[',
      'config.targets[1]: least-latency (not measured yet), by chance',
      'first in 50 % of all requests',
      'Breakers are unknown offline',
      'Latencies are unknown offline',
    ])
      assert.ok(out.includes(part), `${part} is not in\n${out}`);
    assert.ok(!out.includes('n = 2'), 'a default that the request overrides is not applied');
    assert.ok(!out.includes(secret));
  });

  test('as JSON', async () => {
    const { code, out } = await explain('smart', asked, { json: true });
    const plan = JSON.parse(out);
    assert.equal(code, 0);
    assert.deepEqual(
      [plan.config, plan.request, plan.refused],
      ['smart', { method: 'POST', path: '/v1/chat/completions' }, null],
    );
    const [first, second] = plan.tries;
    assert.deepEqual(first.params, {
      set: { seed: 9007199254740991, model: 'gpt-4o' },
      removed: ['user', 'messages[*].name'],
    });
    assert.deepEqual(first.retry, {
      attempts: 2,
      on_status_codes: [429, 500, 502, 503, 504, 529],
      use_retry_after_headers: true,
    });
    assert.deepEqual(
      [first.request_timeout_ms, first.idle_timeout_ms, first.breaker.failure_threshold],
      [2000, null, 3],
    );
    assert.deepEqual(first.on_failure, [{ statuses: [429], by: 'config', then: second.option }]);
    assert.deepEqual([second.on_failure, plan.tries.length], [[], 2]);
    assert.deepEqual(
      plan.branches.map(({ mode, random }: Record<string, unknown>) => [mode, random]),
      [
        ['fallback', false],
        ['least-latency', true],
      ],
    );
    assert.ok(!out.includes(secret));
  });

  test('of a config in a file, and of one as text', async () => {
    const file = await explain('good.yaml', asked, { json: true });
    assert.deepEqual(JSON.parse(file.out).tries[0].cache, {
      mode: 'simple',
      max_age_ms: 60_000,
      threshold: null,
    });
    const text = await explain('{"provider":"openai"}', asked, { json: true });
    assert.equal(JSON.parse(text.out).tries[0].host, 'https://api.openai.com/v1');
  });

  test('a target that the request names, and one that nobody names', async () => {
    const config = '{"passthrough":true}';
    const headers = { 'x-portkey-provider': '@held' };
    const named = await explain(config, { ...asked, headers }, { json: true });
    assert.equal(JSON.parse(named.out).tries[0].provider, 'held', named.errors);
    const address = await explain(config, { body: { ...asked.body, model: '@held/m' } }, { json: true });
    const [found] = JSON.parse(address.out).tries;
    assert.deepEqual([found.provider, found.model], ['held', 'm']);
    const nobody = await explain(config, asked, { json: true });
    assert.match(JSON.parse(nobody.out).tries[0].problem, /names no provider/);
  });

  test('a request that no condition takes is explained, too', async () => {
    const { code, out } = await explain('picky', asked);
    assert.equal(code, 0);
    assert.match(out, /config: conditional \(no condition matched\)/);
    assert.match(out, /The request is refused: 400 invalid_request\. config: no condition matched/);
    const other = await explain('picky', { headers: { 'x-service-metadata': { a: 'b' } } });
    assert.match(other.out, /condition 1 matched/);
  });

  test('a header of the request wins over the config, as it does in the gateway', async () => {
    const { out } = await explain('smart', { ...asked, headers: { 'x-service-request-timeout': '77' } });
    assert.match(out, /timeouts {2}request 77 ms/);
  });
});

describe('weir explain: what cannot be used', () => {
  const cases: readonly [what: string, config: string, request: unknown, sentence: RegExp][] = [
    ['a wrong config in a file', 'config.yaml', asked, /config\.yaml:3:15: .*opnai.*"openai"/],
    ['an empty file', 'empty.yaml', asked, /empty\.yaml: is empty/],
    ['a wrong config as text', '{"targets":1}', asked, /^--config:1:12: "targets": expected a list/],
    ['text that is no config', '{"targets":', asked, /^--config:1:\d+: /],
    ['a name that nobody has', 'smrt', asked, /there is no config "smrt"; did you mean "smart"/],
    ['a file that is not there', 'none.json', asked, /^none\.json: does not exist/],
    ['a request that is no JSON', 'smart', 'hello', /request\.json: is no JSON object/],
    ['a request with a stray member', 'smart', { model: 'm' }, /holds "model".*under "body"/],
    ['a request with a misspelt member', 'smart', { heders: {} }, /holds "heders".*mean "headers"/],
    ['a path without a slash', 'smart', { path: 'chat' }, /"path" is a text that begins with/],
    ['a header that is no text', 'smart', { headers: { a: [] } }, /the header "a" is a text/],
    [
      'a header that cannot be used',
      'smart',
      { headers: { 'x-service-metadata': '[' } },
      /400 invalid_header/,
    ],
  ];
  for (const [what, config, request, sentence] of cases) {
    test(what, async () => {
      const { code, out, errors } = await explain(config, request);
      assert.deepEqual([code, out], [1, '']);
      assert.match(errors, sentence);
    });
  }

  test('a configuration with mistakes', async () => {
    const { code, errors } = await explain('smart', asked, { file: 'broken.yaml' });
    assert.equal(code, 1);
    assert.match(errors, /broken\.yaml:2:1: .*pipelinez/);
  });
});
