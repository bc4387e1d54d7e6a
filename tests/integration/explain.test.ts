// Why a request was served as it was: asked for with a header and read back from the log, and worked out offline.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { send, type Received } from '../kit/http-kit.ts';
import {
  eventually,
  ownerKey,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const reader = 'wk_reader_0123456789abcdef';
const proxyOnly = 'wk_proxy_0123456789abcdef';
const secret = 'sk-very-secret-0123456789';
const prompt = 'A prompt that nobody else may read';

const smart = {
  strategy: {
    mode: 'conditional',
    conditions: [{ query: { 'metadata.plan': 'paid' }, then: 'large' }],
    default: 'small',
  },
  targets: [
    { name: 'small', provider: 'mock' },
    {
      name: 'large',
      strategy: { mode: 'fallback' },
      targets: [
        { provider: '@held', override_params: { model: 'mock:status=500' }, retry: { attempts: 1 } },
        {
          strategy: { mode: 'loadbalance' },
          targets: [
            { provider: 'mock', weight: 3, override_params: { model: 'mock-gpt' } },
            { provider: 'mock', weight: 0 },
          ],
        },
      ],
    },
  ],
};
const auth = {
  auth: {
    keys: [
      { name: 'reader', key: reader, scopes: ['completions.write', 'logs.view'] },
      { name: 'proxy-only', key: proxyOnly },
    ],
  },
};

after(stopEverything);

describe('x-service-explain', { skip: chdbMissing }, () => {
  let weir: WeirProcess;
  before(async () => {
    weir = await startWeir({
      yaml: {
        version: 1,
        storage: { journal: { ship_ms: 50 } },
        providers: { held: { base_url: 'mock:', api_key: secret, service: 'openai' } },
        configs: { smart },
        pipelines: [
          { name: 'admin', match: { routes: 'contributed' }, plugins: [auth, 'management'] },
          {
            name: 'gateway',
            match: { path: '/**' },
            plugins: [auth, { 'rate-limit': { requests_per_minute: 100 } }, 'cache', 'provider', 'logger'],
          },
        ],
      },
    });
  });

  const ask = (headers: Record<string, string>, key = ownerKey): Promise<Received> =>
    send(weir.url, {
      path: '/v1/chat/completions',
      headers: { 'x-service-api-key': key, ...headers },
      body: { model: 'mock-gpt', messages: [{ role: 'user', content: prompt }] },
    });

  async function explained(received: Received, header = 'x-service-explain') {
    const link = received.headers[header];
    assert.ok(typeof link === 'string', received.text);
    assert.equal(link, `/v1/logs/${String(received.headers['x-service-request-id'])}`);
    return eventually(
      async () => {
        const entry = await send(weir.url, { path: link, headers: { 'x-service-api-key': ownerKey } });
        return entry.status === 200 ? entry.json() : undefined;
      },
      () => `the entry ${link}; the gateway says:\n${weir.stderr()}`,
    );
  }

  test('the plan, its attempts, the cache, plugins and timings of a request with a config', async () => {
    const received = await ask({
      'x-service-explain': 'true',
      'x-service-config': 'smart',
      'x-service-metadata': '{"plan":"paid"}',
    });
    assert.equal(received.status, 200, received.text);
    const { decision, tries, metrics } = await explained(received);
    const place = 'config.targets[1]';
    assert.deepEqual(decision.plan, [
      {
        path: 'config',
        mode: 'conditional',
        reason: 'condition 1 matched',
        candidates: [
          { path: 'config.targets[0]', name: 'small' },
          { path: place, name: 'large', order: 1 },
        ],
      },
      {
        path: place,
        mode: 'fallback',
        candidates: [
          { path: `${place}.targets[0]`, order: 1 },
          { path: `${place}.targets[1]`, order: 2 },
        ],
      },
      {
        path: `${place}.targets[1]`,
        mode: 'loadbalance',
        candidates: [
          { path: `${place}.targets[1].targets[0]`, score: 3, order: 1 },
          { path: `${place}.targets[1].targets[1]`, score: 0, skipped: 'weight 0' },
        ],
      },
    ]);
    assert.deepEqual([decision.config, decision.truncated], ['smart', undefined]);
    assert.deepEqual(
      tries.map(({ option, status, lost }: Record<string, unknown>) => [option, status, lost]),
      [
        [`${place}.targets[0]`, 500, true],
        [`${place}.targets[0]`, 500, true],
        [`${place}.targets[1].targets[0]`, 200, false],
      ],
    );
    assert.deepEqual(decision.attempts, tries);
    for (const one of tries) assert.ok(one.start_ms > 0 && one.end_ms >= one.start_ms, JSON.stringify(one));
    assert.equal(metrics.option, `${place}.targets[1].targets[0]`);
    assert.deepEqual([metrics.retries, metrics.attempts, metrics.lost_cost], [0, 3, 0]);
    assert.equal(decision.cache, 'MISS');
    assert.equal(decision.limits.limit, '100');
    const ran = decision.plugins.map(({ plugin, hook, attempt }: Record<string, unknown>) =>
      [plugin, hook, attempt].join(' ').trim(),
    );
    assert.deepEqual(ran.slice(0, 3), ['auth request', 'rate-limit request', 'provider request']);
    for (const number of [1, 2, 3]) assert.ok(ran.includes(`cache attempt ${number}`), ran.join(', '));
    for (const { ms, plugin } of decision.plugins) assert.ok(ms >= 0, plugin);
    const { timings } = decision;
    assert.ok(Number.isFinite(Date.parse(timings.accepted)));
    assert.ok(timings.body_read_ms > 0 && timings.upstream_started_ms >= timings.body_read_ms);
    assert.ok(
      timings.first_byte_ms >= timings.upstream_started_ms && timings.end_ms >= timings.first_byte_ms,
    );
    const text = JSON.stringify(decision);
    for (const hidden of [secret, ownerKey, prompt, 'paid']) assert.ok(!text.includes(hidden), hidden);
  });

  test('a request without a config, under the alias, with a key that may read logs', async () => {
    const headers = { 'x-portkey-explain': 'true', 'x-service-provider': 'mock' };
    const received = await ask(headers, reader);
    const { decision, tries } = await explained(received, 'x-portkey-explain');
    assert.deepEqual([decision.config, decision.plan, tries.length], [null, [], 1]);
    assert.deepEqual([tries[0].provider, tries[0].status], ['mock', 200]);
    const [one] = decision.attempts;
    assert.deepEqual([one.provider, one.status, decision.attempts.length], ['mock', 200, 1]);
  });

  test('attempts that run at once', async () => {
    const config = {
      strategy: { mode: 'loadbalance' },
      hedge: { after_ms: 50 },
      targets: [
        { provider: 'mock', weight: 1000, override_params: { model: 'mock:latency_ms=20000' } },
        { provider: 'mock', weight: 0.001, override_params: { model: 'mock-gpt' } },
      ],
    };
    const headers = { 'x-service-explain': 'true', 'x-service-config': JSON.stringify(config) };
    const { decision, tries, metrics } = await explained(await ask(headers));
    assert.deepEqual(
      tries.map(({ option, status, error, lost }: Record<string, unknown>) => [option, status, error, lost]),
      [
        ['config.targets[1]', 200, '', false],
        ['config.targets[0]', 0, 'lost_race', true],
      ],
    );
    assert.match(decision.config, /^inline:/);
    assert.deepEqual([metrics.config, metrics.option], ['inline', 'config.targets[1]']);
  });

  test('an answer from the cache', async () => {
    const headers = {
      'x-service-explain': 'true',
      'x-service-config': '{"provider":"mock","cache":"simple"}',
    };
    await ask(headers);
    const { decision } = await explained(await ask(headers));
    assert.equal(decision.cache, 'HIT');
    assert.equal(decision.timings.upstream_started_ms, undefined);
  });

  test('a key that may not is refused before anybody is asked', async () => {
    const received = await ask({ 'x-service-explain': 'true', 'x-service-provider': 'mock' }, proxyOnly);
    assert.equal(received.status, 403);
    assert.match(received.text, /\\"x-service-explain: true\\" needs .*logs\.view.*\\"proxy-only\\" has not/);
    assert.equal(received.headers['x-service-explain'], undefined);
    const link = `/v1/logs/${String(received.headers['x-service-request-id'])}`;
    const entry = await eventually(async () => {
      const found = await send(weir.url, { path: link, headers: { 'x-service-api-key': ownerKey } });
      return found.status === 200 ? found.json() : undefined;
    });
    assert.deepEqual(
      [entry.metrics.error_code, entry.metrics.attempts, entry.decision],
      ['scope_missing', 0, null],
    );
  });

  for (const value of ['false', 'False', '']) {
    test(`"${value}" asks for nothing`, async () => {
      const headers = { 'x-service-explain': value, 'x-service-provider': 'mock' };
      const received = await ask(headers, proxyOnly);
      assert.equal(received.status, 200);
      assert.equal(received.headers['x-service-explain'], undefined);
    });
  }
});

describe('weir explain', { concurrency: 2 }, () => {
  const gateway = {
    version: 1,
    providers: { held: { base_url: 'https://models.example.com/v1', api_key: secret, service: 'openai' } },
    configs: { smart },
    pipelines: [{ name: 'gateway', match: { path: '/**' }, plugins: ['provider'] }],
  };

  async function explain(config: string, request: unknown, ...flags: string[]) {
    const cwd = await temporaryFolder();
    await writeFile(path.join(cwd, 'gateway.config.yaml'), JSON.stringify(gateway, null, 1));
    await writeFile(path.join(cwd, 'request.json'), JSON.stringify(request));
    await writeFile(
      path.join(cwd, 'wrong.yaml'),
      'strategy: { mode: fallback }\ntargets:\n  - provider: opnai\n',
    );
    const given = config === '' ? [] : ['--config', config];
    return runWeir(['explain', ...given, '--request', 'request.json', ...flags], { cwd });
  }

  const paid = {
    headers: { 'x-service-metadata': { plan: 'paid' } },
    body: { model: 'm', messages: [{ role: 'user', content: prompt }] },
  };

  test('prints the branches, the order of attempts with their settings, and where a failure leads', async () => {
    const { code, stdout, stderr } = await explain('smart', paid);
    assert.equal(code, 0, stderr);
    for (const part of [
      'config: conditional (condition 1 matched)',
      'config.targets[1].targets[1]: loadbalance, by chance: this is one example',
      'weight 3, first in 100 % of all requests',
      'left out: weight 0',
      '1. config.targets[1].targets[0]\n   provider  held at https://models.example.com/v1\n   model     mock:status=500',
      'set model = "mock:status=500"',
      'retry     once on 429, 500, 502, 503, 504 or 529',
      'if it fails with anything but 2xx → config.targets[1].targets[1].targets[0] (config.targets[1])',
      '2. config.targets[1].targets[1].targets[0]',
      'the end: its failure is the answer',
      'Nothing was sent.',
    ])
      assert.ok(stdout.includes(part), `${part} is not in\n${stdout}`);
    assert.ok(!stdout.includes(secret) && !stderr.includes(secret));
  });

  test('a wrong config is told as weir check does', async () => {
    const { code, stdout, stderr } = await explain('wrong.yaml', paid);
    assert.equal(code, 1, stdout);
    assert.match(stderr, /^wrong\.yaml:3:15: .*opnai.*"openai"/);
    assert.equal(stdout, '');
  });

  test('help, and a command that lacks something', async () => {
    const help = await runWeir(['explain', '--help']);
    assert.equal(help.code, 0);
    assert.match(help.stdout, /without sending anything/);
    const mistake = await explain('', paid);
    assert.equal(mistake.code, 2);
    assert.match(mistake.stderr, /needs --config/);
  });
});
