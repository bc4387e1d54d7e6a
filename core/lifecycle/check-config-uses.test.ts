import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configOf } from '../config/load-texts.test-support.ts';
import { formatProblem } from '../config/problem.ts';
import { checkConfigUses } from './check-configs.ts';

/** The faults between the configs on line 2 and the plugins on line 3. */
async function problemsOf(configs: string, plugins: string, owned = ''): Promise<string[]> {
  const text = `version: 1\nconfigs: ${configs}\npipelines: [{ name: all, match: { path: /** }, plugins: ${plugins} }]\n${owned}`;
  const { config, source } = await configOf(text);
  return checkConfigUses({ config, source }).map((problem) => formatProblem(problem).replaceAll('/c/', ''));
}

const main = '{ main: { provider: openai } }';
const cached = '{ main: { strategy: { mode: single }, targets: [{ provider: openai, cache: simple }] } }';
const off = '{ main: { provider: openai, cache: off } }';

const rows: readonly [string, string, string, readonly RegExp[]][] = [
  ['a config that is there', main, '[auth, provider: { config: main }]', []],
  [
    'a misspelled config',
    main,
    '[auth, provider: { config: mian }]',
    [/^main\.yaml:3:\d+: "config": there is no config "mian"; did you mean "main"\?$/],
  ],
  ['no config at all', '{}', '[provider: { config: main }]', [/define it under "configs"/]],
  [
    'caching without the plugin',
    cached,
    '[provider]',
    [/^main\.yaml:2:\d+: warning: "cache": no pipeline has/],
  ],
  ['caching with the plugin', cached, '[cache, provider]', []],
  ['caching that is off', off, '[provider]', []],
];
for (const [name, configs, plugins, expected] of rows) {
  test(`configs and plugins: ${name}`, async () => {
    const found = await problemsOf(configs, plugins);
    assert.equal(found.length, expected.length, found.join('\n'));
    for (const [index, pattern] of expected.entries()) assert.match(found[index] as string, pattern);
  });
}

test("configs and plugins: caching in the organisation's config without the plugin", async () => {
  const owned =
    'organisation: { configs: [{ slug: c, name: C, config: { provider: openai, cache: { mode: simple } } }] }';
  const found = await problemsOf('{}', '[provider]', owned);
  assert.equal(found.length, 1);
  assert.match(found[0] ?? '', /^main\.yaml:4:\d+: warning: "cache": no pipeline has/);
  assert.deepEqual(await problemsOf('{}', '[cache, provider]', owned), []);
});
