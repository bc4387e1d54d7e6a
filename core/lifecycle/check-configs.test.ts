import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { configOf, load, pipelines, type Env } from '../config/load-texts.test-support.ts';
import { formatProblem } from '../config/problem.ts';
import { checkConfigs, checkToolServers } from './check-configs.ts';
import { checkPlugins } from './prepare.ts';

const providerNames = new Set(['openai', 'anthropic']);

/** The faults of `configs:` and the lines below it, from line 3 on, and `providers:` on line 2. */
async function problemsOf(lines: readonly string[], env: Env = {}): Promise<string[]> {
  const text = ['version: 1', 'providers: { prod: { api_key: k } }', 'configs:', ...lines, pipelines].join(
    '\n',
  );
  const { config, source } = await configOf(text, env);
  return checkConfigs({ config, source, providerNames }).map((problem) =>
    formatProblem(problem).replaceAll('/c/', ''),
  );
}

describe('checkConfigs', () => {
  it('finds nothing wrong with configs that compile', async () => {
    const lines = [
      '  main: { virtual_key: prod, cache: simple }',
      '  pc-backup-1: { strategy: { mode: fallback }, targets: [{ config: main }, { provider: openai }] }',
    ];
    assert.deepEqual(await problemsOf(lines), []);
  });

  it('says everything that is wrong, each at its place', async () => {
    const lines = [
      '  main:',
      '    strategy:',
      '      mode: conditional',
      '      conditions:',
      '        - { query: { metadata.plan: { $like: x } }, then: other }',
      '    targets:',
      '      - name: paid',
      '        provider: opnai',
      '      - { name: free, virtualKey: prd, inputGuardrails: [pii] }',
      '  empty: {}',
    ];
    const found = await problemsOf(lines);
    const places = found.map((problem) => problem.split(': ')[0]);
    assert.deepEqual(
      places.sort(),
      [
        'main.yaml:11:19',
        'main.yaml:12:35',
        'main.yaml:12:58',
        'main.yaml:13:10',
        'main.yaml:8:20',
        'main.yaml:8:59',
      ],
      found.join('\n'),
    );
    assert.ok(found.some((problem) => /there is no virtual key "prd"; did you mean "prod"\?/.test(problem)));
  });

  it('tells a circle where it begins, once for each config in it', async () => {
    const lines = ['  a: { targets: [{ config: b }] }', '  b:', '    config: a', '  c: { config: a }'];
    assert.deepEqual(await problemsOf(lines), [
      'main.yaml:4:28: the configs refer to each other in a circle: a → b → a',
      'main.yaml:6:13: the configs refer to each other in a circle: b → a → b',
    ]);
  });

  it('does not repeat what is wrong within a config that others refer to', async () => {
    const found = await problemsOf(['  a: { config: b }', '  b: { provider: nope }']);
    assert.deepEqual(found.length, 1);
    assert.match(found[0] ?? '', /^main\.yaml:5:18: there is no provider "nope"/);
  });

  it('warns of what has no effect', async () => {
    const lines = [
      '  a: { strategy: { mode: single, sticky: { enabled: false } }, targets: [{ provider: openai }] }',
    ];
    const found = await problemsOf(lines);
    assert.equal(found.length, 1);
    assert.match(found[0] ?? '', /warning.*"sticky" has no effect in the mode "single"/);
  });

  it('shows nothing that a variable holds', async () => {
    const found = await problemsOf(['  a: { provider: "${WHICH}" }'], { WHICH: 'sk-secret' });
    assert.deepEqual(found, ['main.yaml:4:18: what ${WHICH} stands for cannot be used as config.provider']);
  });

  it('is part of checking a file that has mistakes elsewhere', async () => {
    const text = [
      'version: 1',
      'server: { port: x }',
      'configs:',
      '  a: { provider: opnai }',
      pipelines,
    ].join('\n');
    const sound = await load({ 'main.yaml': text });
    assert.ok(!sound.ok && sound.draft !== undefined);
    const bundler = { bundle: unused, load: unused, origins: { attribute: unused } } as never;
    const problems = await checkPlugins(
      { ...sound.draft, builtIns: new Map(), bundler, providerNames, clock: new ManualClock() },
      sound.problems,
    );
    const messages = problems.map(({ message }) => message);
    assert.ok(
      messages.some((message) => message.includes('there is no provider "opnai"')),
      messages.join('\n'),
    );
  });
});

function unused(): never {
  throw new Error('not used');
}

describe('checkToolServers', () => {
  /** The faults of a pipeline of these plugins; the first one is on line 9. */
  async function found(plugins: readonly string[], storage: 'none:' | 'pglite:' = 'none:') {
    const text = [
      'version: 1',
      `storage: { resources: { url: '${storage}' } }`,
      'organisation:',
      '  guardrails: [{ slug: no-names, name: N, checks: [{ id: default.contains, parameters: { words: [a] } }], actions: {} }]',
      'pipelines:',
      '  - name: gateway',
      '    match: { path: /** }',
      '    plugins:',
      ...plugins.map((line) => `      - ${line}`),
    ].join('\n');
    const { config, source } = await configOf(text);
    const known = 'default.contains';
    const guards = {
      ids: [known],
      issues: (id: string) => (id === known ? [] : undefined),
      definition: () => undefined,
    };
    return checkToolServers({ config, source, providerNames, guards }).map((problem) =>
      formatProblem(problem).replaceAll('/c/', ''),
    );
  }
  const mcp = (members: string) => `{ mcp: { servers: { tickets: { url: 'http://x', ${members} } } } }`;

  it('finds nothing wrong with guardrails that exist, behind the plugin that runs them', async () => {
    const inline = '{ "default.contains": { words: [b], operator: none }, deny: true }';
    const servers = mcp(`input_guardrails: [no-names, ${inline}], output_guardrails: [no-names]`);
    assert.deepEqual(await found(['auth', 'policies', 'guardrails', servers, 'provider']), []);
    assert.deepEqual(await found(['auth', mcp('input_guardrails: []'), 'provider']), []);
    assert.deepEqual(await found(['auth', 'provider', 'guardrails']), []);
  });

  it('says which plugins would see no calls', async () => {
    const problems = await found(['auth', mcp(''), 'policies', 'guardrails', 'provider']);
    assert.deepEqual(
      problems.map((one) =>
        /^main\.yaml:(\d+):\d+: plugin "([a-z]+)" stands behind "mcp"/.exec(one)?.slice(1),
      ),
      [
        ['11', 'policies'],
        ['12', 'guardrails'],
      ],
      problems.join('\n'),
    );
  });

  it('says that nothing would run the guardrails of a server', async () => {
    const [problem = ''] = await found(['auth', mcp('output_guardrails: [no-names]'), 'provider']);
    assert.match(problem, /:10:\d+: "output_guardrails": no plugin "guardrails" stands before "mcp"/);
  });

  it('says what is wrong with a guardrail, at its place; one that may be in the store is a note', async () => {
    const wrong = mcp('input_guardrails: [no-names, no-nams, { "default.contans": { words: [a] } }]');
    const problems = await found(['guardrails', wrong, 'provider']);
    assert.equal(problems.length, 2, problems.join('\n'));
    assert.match(problems[0] ?? '', /:10:\d+: there is no guardrail "no-nams"; did you mean "no-names"\?/);
    assert.match(
      problems[1] ?? '',
      /:10:\d+: .*this gateway has no such check; did you mean "default.contains"/,
    );
    const [note = '', ...others] = await found(
      ['guardrails', mcp('input_guardrails: [stored]'), 'provider'],
      'pglite:',
    );
    assert.match(note, /note.*there is no guardrail "stored".*one of the store/);
    assert.deepEqual(others, []);
  });
});
