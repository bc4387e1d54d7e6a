import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { configOf, pipelines } from '../config/load-texts.test-support.ts';
import { formatProblem } from '../config/problem.ts';
import type { ProviderRow } from '../providers/provider-row.ts';
import { checkOrganisationResources } from './check-organisation-resources.ts';

const providerRows = new Map<string, ProviderRow>([
  ['openai', { base_url: 'https://api.openai.com/v1' }],
  ['azure-openai', { base_url: 'https://{azure_resource_name}.openai.azure.com' }],
]);
const guards = {
  ids: ['addPrefix'],
  issues: (id: string) => (id === 'addPrefix' ? [] : undefined),
  definition: () => undefined,
};

/** The faults of `organisation`, which begins on line 6 below its workspace and its key. */
async function found(lines: readonly string[], store = 'pglite:', env = {}): Promise<string[]> {
  const head = [
    'version: 1',
    `storage: { resources: { url: "${store}" } }`,
    'configs: { main: { provider: openai } }',
    'organisation:',
    '  workspaces: [{ slug: ws-lab, name: Laboratory }]',
    '  keys: [{ name: batch, type: workspace-service, key: wk_0123456789abcdef, scopes: [logs.view] }]',
  ];
  const { config, source } = await configOf([...head, ...lines, pipelines].join('\n'), env);
  const check = { config, source, guards, providerRows, providerNames: providerRows.keys() };
  return checkOrganisationResources(check).map((one) => formatProblem(one).replaceAll('/c/', ''));
}

const all = 'global_workspace_access: { enabled: true }';
const integration = (members = all, slug = 'prod') => [
  '  integrations:',
  `    - { slug: ${slug}, name: Production, ai_provider_id: openai, key: sk-1, ${members} }`,
];
const config = (config: string, members = '') => [
  '  configs:',
  `    - { slug: pc-own, name: Own, config: ${config}, ${members} }`,
];
const policy = (key: string, value: string, members = '') => [
  '  rate_limit_policies:',
  `    - { slug: few, conditions: [{ key: ${key}, value: ${value} }], group_by: [{ key: api_key }], type: requests, unit: rpm, value: 1, ${members} }`,
];

describe('records of the file: what is fine', () => {
  const rows: readonly (readonly [string, readonly string[]])[] = [
    [
      'an integration and a config that names its provider',
      [...integration(), ...config('{ virtual_key: prod }')],
    ],
    [
      'a config of a workspace',
      [...integration(), ...config('{ provider: "@prod" }', 'workspace: ws-lab, is_default: true')],
    ],
    ['a config that names another one', config('{ config: main }')],
    [
      'a provider',
      [
        ...integration(),
        '  providers: [{ slug: mine, name: Mine, workspace: ws-lab, integration_id: prod }]',
      ],
    ],
    ['policies by name', policy('workspace_id', 'ws-lab')],
    ['policies of a key', policy('api_key', 'batch')],
    ['policies for calls of tools', policy('mcp_server', 'tickets', 'target: mcp_tools')],
  ];
  for (const [name, lines] of rows) test(name, async () => assert.deepEqual(await found(lines, 'none:'), []));
});

describe('records of the file: usage limits are taken', () => {
  const limit = 'usage_limits: [{ credit_limit: 5 }]';
  const rows: readonly (readonly [string, readonly string[]])[] = [
    [
      'a usage limit of a provider',
      [
        ...integration(),
        `  providers: [{ slug: mine, name: Mine, workspace: ws-lab, integration_id: prod, ${limit} }]`,
      ],
    ],
    [
      'a usage limit of all workspaces at an integration',
      integration(`global_workspace_access: { enabled: true, ${limit} }`),
    ],
    [
      'a usage limit of one workspace at an integration',
      integration(`workspaces: [{ id: ws-lab, enabled: true, ${limit} }]`),
    ],
    [
      'a usage-limit policy',
      [
        '  usage_limit_policies:',
        "    - { slug: p, conditions: [{ key: api_key, value: '*' }], group_by: [{ key: api_key }], type: cost, credit_limit: 5 }",
      ],
    ],
  ];
  for (const [name, lines] of rows) test(name, async () => assert.deepEqual(await found(lines, 'none:'), []));
});

describe('records of the file: what is wrong, at its place and with the remedy', () => {
  const rows: readonly (readonly [string, readonly string[], RegExp])[] = [
    [
      'an unknown workspace',
      integration('workspace: ws-lub'),
      /^main\.yaml:8:\d+: "workspace": there is no workspace "ws-lub" in this file; did you mean "ws-lab"\?$/,
    ],
    [
      'an unknown provider',
      integration(all).map((line) => line.replace(': openai', ': opnai')),
      /"ai_provider_id": there is no provider "opnai" in this gateway; did you mean "openai"\?/,
    ],
    [
      'settings of another provider',
      integration(`${all}, configurations: { azure_resource_name: a }`),
      /:8:\d+: "azure_resource_name": is nothing that openai takes/,
    ],
    [
      'nobody may use it',
      integration('description: x'),
      /warning: no workspace may use the integration "Production"/,
    ],
    [
      'access to one of a workspace',
      integration(`workspace: ws-lab, ${all}`),
      /"global_workspace_access": "Production" belongs to one workspace/,
    ],
    [
      'a model twice',
      integration(`${all}, models: [{ slug: a, enabled: true }, { slug: a, enabled: true }]`),
      /"slug": is there twice/,
    ],
    [
      'a limit that cannot be',
      integration(
        'global_workspace_access: { enabled: true, usage_limits: [{ credit_limit: 1, alert_threshold: 2 }] }',
      ),
      /"alert_threshold": must be below credit_limit/,
    ],
    [
      'a slug twice',
      [...integration(), `    - { slug: prod, name: Again, ai_provider_id: openai, ${all} }`],
      /:9:\d+: "slug": a second integration has the slug "prod"; the first stands at main\.yaml:8:\d+/,
    ],
    [
      'a provider without integration',
      ['  providers: [{ slug: mine, name: Mine, integration_id: prod }]'],
      /"integration_id": there is no integration "prod" in this file; define it under "organisation\.integrations"/,
    ],
    [
      'a provider of nobody',
      [
        ...integration('workspaces: [{ id: ws-default, enabled: true }]'),
        '  providers: [{ slug: mine, name: Mine, workspace: ws-lab, integration_id: prod }]',
      ],
      /the workspace "ws-lab" may not use the integration "prod"/,
    ],
    [
      'a config with a credential',
      config('{ provider: openai, api_key: sk-1 }'),
      /"api_key": a saved config holds no credentials/,
    ],
    [
      'a config of a name that is taken',
      config('{ provider: openai }').map((line) => line.replace('pc-own', 'main')),
      /"slug": the config "main" of "configs" has this name/,
    ],
    [
      'a config that names nothing',
      [...integration(), ...config('{ virtual_key: prud }')],
      /:10:\d+: there is no virtual key "prud"; did you mean "prod"\?$/,
    ],
    ['a config in a circle', config('{ config: pc-own }'), /refer to each other in a circle/],
    [
      'a default of all',
      config('{ provider: openai }', 'is_default: true'),
      /"is_default": name the organisation's in/,
    ],
    [
      'an unknown check',
      ['  guardrails: [{ slug: g, name: G, checks: [{ id: addPrefx }], actions: {} }]'],
      /"id": is "addPrefx", and this gateway has no such check; did you mean "addPrefix"/,
    ],
    [
      'an unknown rule',
      policy('modl', '"*"'),
      /"key": is "modl", which no rule can be about; did you mean "model"/,
    ],
    [
      'a rule about models for calls of tools',
      policy('model', '"*"', 'target: mcp_tools'),
      /"key": is "model", which only rules of policies with the target "llm" can be about/,
    ],
    [
      'tokens of calls of tools',
      policy('mcp_tool', '"*"', 'target: mcp_tools').map((line) => line.replace(': requests', ': tokens')),
      /"type": is "tokens", and calls of MCP tools have neither tokens nor a cost/,
    ],
    [
      'an unknown workspace of a rule',
      policy('workspace_id', 'ws-lub'),
      /"value": there is no workspace "ws-lub"/,
    ],
    [
      'an unknown key of a rule',
      policy('api_key', 'bach'),
      /"value": there is no key named "bach" in this file/,
    ],
    [
      'a secret reference',
      integration(`${all}, secret_mappings: [{ target_field: key, secret_reference_id: vault }]`),
      /"secret_reference_id": .* would be one of the store, and there is none/,
    ],
    [
      'a field that is not mapped',
      integration(`${all}, secret_mappings: [{ target_field: kay, secret_reference_id: vault }]`),
      /"target_field": is no field of openai; did you mean key\?/,
    ],
  ];
  for (const [name, lines, expected] of rows)
    test(name, async () => {
      const problems = await found(lines, 'none:');
      assert.ok(
        problems.some((one) => expected.test(one)),
        problems.join('\n') || 'nothing was found',
      );
    });

  test('what only the store can have is a note, with the word that was probably meant', async () => {
    const lines = [
      ...integration(`${all}, secret_mappings: [{ target_field: key, secret_reference_id: vault }]`),
      '  providers: [{ slug: mine, name: Mine, integration_id: prodd }]',
      '  configs:',
      '    - { slug: pc-a, name: A, config: { virtual_key: prud } }',
      '    - { slug: pc-b, name: B, config: { config: pc-stored } }',
    ];
    const problems = await found(lines);
    assert.equal(problems.length, 4, problems.join('\n'));
    for (const one of problems) assert.match(one, /: note: .*store.*cannot be checked here$/);
    assert.match(problems.join('\n'), /did you mean "prod"\? If not, it has to be one of the store/);
  });

  test('what a variable holds is quoted nowhere', async () => {
    const problems = await found(integration('workspace: "${SECRET}"'), 'none:', { SECRET: 'ws-secret' });
    assert.match(problems.join('\n'), /what \$\{SECRET\} stands for cannot be used here/);
    assert.ok(!problems.join('\n').includes('ws-secret'));
  });
});
