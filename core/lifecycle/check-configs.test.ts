import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { configOf, load, pipelines, type Env } from '../config/load-texts.test-support.ts';
import { formatProblem } from '../config/problem.ts';
import { checkConfigs } from './check-configs.ts';
import { checkPlugins } from './prepare.ts';

const providerNames = new Set(['openai', 'anthropic']);

/** What is wrong with `configs:` and the lines below it, from line 3 on, and `providers:` on line 2. */
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
