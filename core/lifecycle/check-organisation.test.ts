import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { configOf, problemsOf } from '../config/load-texts.test-support.ts';
import { formatProblem } from '../config/problem.ts';
import { sha256 } from '../base/bytes.ts';
import { checkOrganisation } from './check-organisation.ts';

const head =
  'version: 1\nconfigs: { main: { provider: openai } }\npipelines: [{ name: all, match: { path: /** }, plugins: [auth] }]\n';

/** The faults of `organisation`, which begins on line 4. */
async function found(lines: readonly string[], env: Record<string, string> = {}): Promise<string[]> {
  const { config, source } = await configOf([`${head}organisation:`, ...lines].join('\n'), env);
  return checkOrganisation({ config, source }).map((one) => formatProblem(one).replaceAll('/c/', ''));
}

const secret = 'wk_0123456789abcdef';
const key = (members: string, given = `key: ${secret}`): string[] => [
  '  keys:',
  `    - { name: a, type: workspace-service, ${given}, scopes: [completions.write], ${members} }`,
];
const workspace = (members: string): string[] => [
  '  workspaces:',
  `    - { slug: ws-lab, name: Laboratory, ${members} }`,
];

describe('organisation: what is fine', () => {
  const rows: readonly (readonly [string, readonly string[]])[] = [
    ['nothing but a name', ['  name: Acme']],
    ['defaults', ['  defaults: { metadata: { team: a }, config_id: main }']],
    [
      'a workspace with everything',
      workspace(
        'description: x, icon: y, defaults: { config_id: main }, rate_limits: [{ type: requests, unit: rpm, value: 5 }]',
      ),
    ],
    ['a key of the default workspace', key('workspace: ws-default')],
    ['a key of a workspace', [...workspace(''), ...key('workspace: ws-lab')]],
    ['a key by its hash', key('', `key_sha256: "${sha256(secret, 'base64')}"`)],
    [
      'a scope with a colon',
      key('description: x').map((line) => line.replace('completions.', 'completions:')),
    ],
    [
      'keys of the same name in other workspaces',
      [
        ...workspace(''),
        '  keys:',
        `    - { name: a, type: workspace-service, key: ${secret}, scopes: [logs.view] }`,
        `    - { name: a, type: workspace-service, key: ${secret}2, scopes: [logs.view], workspace: ws-lab }`,
        `    - { name: a, type: workspace-user, key: ${secret}3, scopes: [logs.view], user_id: u-1 }`,
        `    - { name: a, type: organisation-service, key: ${secret}4, scopes: [workspaces.list] }`,
      ],
    ],
  ];
  for (const [name, lines] of rows) test(name, async () => assert.deepEqual(await found(lines), []));
});

describe('organisation: usage limits are taken', () => {
  const limit = '{ credit_limit: 5, alert_threshold: 4 }';
  const rows: readonly (readonly [string, readonly string[]])[] = [
    ['of a workspace', workspace(`usage_limits: [${limit}]`)],
    ['of a key', key(`usage_limits: ${limit}`)],
  ];
  for (const [name, lines] of rows) test(name, async () => assert.deepEqual(await found(lines), []));
});

describe('organisation: what is wrong, at its place and with the remedy', () => {
  const rows: readonly (readonly [string, readonly string[], RegExp])[] = [
    [
      'a slug twice',
      [...workspace(''), '    - { slug: ws-lab, name: Other }'],
      /^main\.yaml:7:15: "slug": a second workspace has the slug "ws-lab"; the first stands at main\.yaml:6:15$/,
    ],
    [
      'a name twice',
      [...workspace(''), '    - { slug: ws-b, name: Laboratory }'],
      /^main\.yaml:7:27: "name": a second workspace is named "Laboratory"; the first stands at main\.yaml:6:29$/,
    ],
    [
      'the slug of the default workspace',
      ['  workspaces: [{ slug: ws-default, name: x }]'],
      /:5:24: .*itself/,
    ],
    [
      'the name of a key twice',
      [...key('expires_at: null').slice(0, 1), ...twoKeys('a', 'a', 'key: wk_another_secret_x')],
      /^main\.yaml:7:15: "name": a second key of type workspace-service in "ws-default" is named "a"; the first stands at main\.yaml:6:15$/,
    ],
    [
      'a secret twice, once as its hash',
      [...key('').slice(0, 1), ...twoKeys('a', 'b', `key_sha256: "${sha256(secret, 'base64')}"`)],
      /^main\.yaml:7:\d+: a second key has the same secret; the first stands at main\.yaml:6:\d+$/,
    ],
    [
      'a misspelled workspace',
      [...workspace(''), ...key('workspace: ws-lub')],
      /^main\.yaml:8:\d+: "workspace": there is no workspace "ws-lub" in this file; did you mean "ws-lab"\?$/,
    ],
    [
      'an unknown workspace',
      key('workspace: ws-something-else'),
      /define it under "organisation\.workspaces"$/,
    ],
    [
      'a workspace for a key of the organisation',
      key('workspace: ws-default').map((line) =>
        line.replace('workspace-service', 'organisation-service').replace('completions.write', 'logs.view'),
      ),
      /:6:\d+: "workspace": a key of type organisation-service belongs to no workspace; remove/,
    ],
    [
      'a user for a service',
      key('user_id: u-1'),
      /"user_id": a key of type workspace-service belongs to nobody/,
    ],
    [
      'a misspelled scope',
      key('').map((line) => line.replace('completions.write', 'logs.view, completion.write')),
      /^main\.yaml:6:\d+: "scopes", item 2: there is no scope "completion\.write"; did you mean "completions\.write"\?$/,
    ],
    [
      'a scope that its type cannot hold',
      key('').map((line) => line.replace('completions.write', 'workspaces.create')),
      /"scopes", item 1: a key of the type workspace-service cannot hold "workspaces\.create"$/,
    ],
    [
      'every scope at once',
      key('').map((line) => line.replace('completions.write', '"*"')),
      /only an owner's key/,
    ],
    [
      'a misspelled config',
      key('defaults: { config_id: mian }'),
      /^main\.yaml:6:\d+: note: "config_id": there is no config "mian"; did you mean "main"\? If not, it has to be one of the store/,
    ],
    ['a config of a workspace', workspace('defaults: { config_id: mian }'), /there is no config "mian"/],
    ['a config of the organisation', ['  defaults: { config_id: mian }'], /^main\.yaml:5:26: .*"mian"/],
    [
      'a limit twice',
      workspace(
        'rate_limits: [{ type: tokens, unit: rpm, value: 1 }, { type: tokens, unit: rpm, value: 2 }]',
      ),
      /"rate_limits", item 2: is a second limit of tokens per rpm; keep one$/,
    ],
    [
      'a threshold above the limit',
      key('usage_limits: { credit_limit: 5, alert_threshold: 5 }'),
      /"alert_threshold": must be below credit_limit$/,
    ],
    [
      'two resets',
      workspace('usage_limits: [{ credit_limit: 5, periodic_reset: weekly, periodic_reset_days: 3 }]'),
      /"periodic_reset_days": cannot stand beside periodic_reset/,
    ],
  ];
  for (const [name, lines, expected] of rows) {
    test(name, async () => {
      const problems = await found(lines.map((line) => line.replace(', expires_at: null', '')));
      assert.equal(problems.length, 1, problems.join('\n'));
      assert.match(problems[0] as string, expected);
      assert.ok(!problems.join('').includes(secret));
    });
  }

  test('what a variable holds is not shown', async () => {
    const problems = await found(key('workspace: "${PLACE}"'), { PLACE: 'ws-hidden' });
    assert.match(problems.join('\n'), /^main\.yaml:6:\d+: what \$\{PLACE\} stands for cannot be used here$/);
  });
});

function twoKeys(first: string, second: string, given: string): string[] {
  return [
    `    - { name: ${first}, type: workspace-service, key: ${secret}, scopes: [logs.view] }`,
    `    - { name: ${second}, type: workspace-service, ${given}, scopes: [logs.view] }`,
  ];
}

describe('organisation: what the schema says', () => {
  const rows: readonly (readonly [string, readonly string[], RegExp])[] = [
    ['an unknown key', ['  workspace: []'], /:5:3: unknown key "workspace"; did you mean "workspaces"\?/],
    ['a slug without its beginning', ['  workspaces: [{ slug: lab, name: x }]'], /:5:24: .*"ws-laboratory"/],
    ['no secret', key('', 'description: x'), /:6:\d+: .*"key"/],
    ['both kinds of secret', key(`key_sha256: "${sha256(secret, 'base64')}"`), /:6:\d+: /],
    ['no scopes', key('').map((line) => line.replace('completions.write', '')), /"scopes"/],
    ['an unknown type', key('').map((line) => line.replace('workspace-service', 'god')), /"type"/],
  ];
  for (const [name, lines, expected] of rows) {
    test(name, async () => {
      const problems = await problemsOf([`${head}organisation:`, ...lines].join('\n'));
      assert.match(problems.join('\n'), expected);
      assert.ok(!problems.join('').includes(secret));
    });
  }

  test('is not there unless it is written', async () => {
    assert.equal((await configOf(head)).config.organisation, undefined);
  });
});
