import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { groupColumns, groupings, type Analytics, type GroupQuery } from '../../core/ports/analytics.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import {
  optionErrors,
  testAnalytics,
  testKey,
  testRouteInput,
  testScope,
  testStart,
} from '../../tests/kit/plugin-kit.ts';
import management from './index.ts';

const dayMs = 86_400_000;

async function routes(analytics: Partial<Analytics> = {}): Promise<readonly RouteDefinition[]> {
  const { scope } = testScope({ analytics: testAnalytics(analytics) });
  return (await management.create({}, scope)).routes ?? [];
}

/** Calls `GET /analytics/groups/{groupBy}` and returns its answer with the query that reached the store. */
async function groups(
  groupBy: string,
  query: object = {},
  { key = testKey(), rows = [], total = 0, id = 'analytics.groups' } = {},
) {
  const asked: GroupQuery[] = [];
  const all = await routes({
    groups(one) {
      asked.push(one);
      return Promise.resolve({ total, rows });
    },
  });
  const route = all.find((one) => one.id === id);
  assert.ok(route);
  const reply = await route.handle(testRouteInput({ params: { groupBy }, query, key }));
  const validate = formats.default(new Ajv2020()).compile(route.reply);
  assert.ok(validate(reply), JSON.stringify(validate.errors));
  return { reply: reply as { object: string; total: number; data: object[] }, asked: asked[0] as GroupQuery };
}

describe('management: the routes', () => {
  test('are these, each with its scope', async () => {
    const keys = (action: string): string[] =>
      ['organisation_service', 'workspace_service', 'workspace_user'].map(
        (type) => `${type}_api_keys.${action}`,
      );
    const workspaces = (path: string, suffix: string): unknown[] => [
      [`workspaces.create${suffix}`, 'POST', path, 'workspaces.create', 'create'],
      [`workspaces.list${suffix}`, 'GET', path, 'workspaces.list', null],
      [`workspaces.get${suffix}`, 'GET', `${path}/{workspaceId}`, 'workspaces.read', null],
      [`workspaces.update${suffix}`, 'PUT', `${path}/{workspaceId}`, 'workspaces.update', 'update'],
      [`workspaces.delete${suffix}`, 'DELETE', `${path}/{workspaceId}`, 'workspaces.delete', 'delete'],
    ];
    const members = (base: string, suffix: string): unknown[] => {
      const path = `${base}/{workspaceId}/users`;
      return [
        [`workspace_users.create${suffix}`, 'POST', path, 'workspace_users.create', 'create'],
        [`workspace_users.list${suffix}`, 'GET', path, 'workspace_users.list', null],
        [`workspace_users.get${suffix}`, 'GET', `${path}/{userId}`, 'workspace_users.read', null],
        [`workspace_users.update${suffix}`, 'PUT', `${path}/{userId}`, 'workspace_users.update', 'update'],
        [`workspace_users.delete${suffix}`, 'DELETE', `${path}/{userId}`, 'workspace_users.delete', 'delete'],
      ];
    };
    const exclusions = (phase: string): unknown[] => {
      const path = `/workspace-exclusions/${phase}-guardrails`;
      return [
        [`workspace_exclusions.${phase}.list`, 'GET', path, 'organisation_exclusions.list', null],
        [`workspace_exclusions.${phase}.update`, 'PUT', path, 'organisation_exclusions.update', 'update'],
      ];
    };
    const ofOrganisation = (what: string): unknown[] => {
      const path = `/admin/organisation/${what}`;
      return [
        [`organisation_${what}.get`, 'GET', path, 'organisation_settings.read', null],
        [`organisation_${what}.update`, 'PUT', path, 'organisation_settings.update', 'update'],
      ];
    };
    const analytics = (kind: string, ...paths: string[]): unknown[] =>
      paths.map((path) => {
        const name = path
          .replace(/\/\{.*/, '')
          .replaceAll('/', '.')
          .replaceAll('-', '_');
        return [`analytics.${kind}.${name}`, 'GET', `/analytics/${kind}/${path}`, 'analytics.view', null];
      });
    const ofWorkspace = (base: string, suffix: string): unknown[] => {
      const path = `${base}/{workspaceId}/settings`;
      return [
        [`workspace_settings.get${suffix}`, 'GET', path, 'organisation_settings.read', null],
        [`workspace_settings.update${suffix}`, 'PUT', path, 'organisation_settings.update', 'update'],
      ];
    };
    const resend = '/admin/users/invites/{inviteId}/resend';
    const groupOf = '/scim/workspaces/{scimWorkspaceGroupId}';
    const references = '/secret-references';
    const reference = `${references}/{secretReferenceId}`;
    const create = (type: string, path: string): unknown[] => [
      `api_keys.create_${type}`,
      ...['POST', path, `${type}_api_keys.create`, 'create'],
    ];
    const integrations = (action: string): string[] => [
      `organisation_integrations.${action}`,
      `workspace_integrations.${action}`,
    ];
    const integration = '/integrations/{slug}';
    const ofSlug = (id: string, path: string): unknown[] => [
      [`${id}.create`, 'POST', path, `${id}.create`, 'create'],
      [`${id}.list`, 'GET', path, `${id}.list`, null],
      [`${id}.get`, 'GET', `${path}/{slug}`, `${id}.read`, null],
      [`${id}.update`, 'PUT', `${path}/{slug}`, `${id}.update`, 'update'],
      [`${id}.delete`, 'DELETE', `${path}/{slug}`, `${id}.delete`, 'delete'],
    ];
    const policies = (id: string, path: string, parameter: string): unknown[] => [
      [`${id}.create`, 'POST', path, 'policies.create', 'create'],
      [`${id}.list`, 'GET', path, 'policies.list', null],
      [`${id}.get`, 'GET', `${path}/{${parameter}}`, 'policies.read', null],
      [`${id}.delete`, 'DELETE', `${path}/{${parameter}}`, 'policies.delete', 'delete'],
      [`${id}.update`, 'PUT', `${path}/{${parameter}}`, 'policies.update', 'update'],
      [`${id}.entities`, 'GET', `${path}/{${parameter}}/entities`, 'policies.read', null],
    ];
    const reset = '/policies/usage-limits/{policyUsageLimitsId}/entities/{entityId}/reset';
    const guardrails = (action: string): string[] => [
      `guardrails.${action}`,
      `organisation_guardrails.${action}`,
    ];
    const deployment = '/deployments/{deploymentId}';
    const exported = (action: string, method: string, path: string, audit: string | null): unknown[] => [
      ...[`log_exports.${action}`, method, `/logs/exports${path}`, 'logs.export', audit],
    ];
    const ofExports = [
      exported('create', 'POST', '', 'create'),
      exported('list', 'GET', '', null),
      exported('restrictions', 'GET', '/field-restrictions', null),
      exported('get', 'GET', '/{exportId}', null),
      exported('update', 'PUT', '/{exportId}', 'update'),
      exported('start', 'POST', '/{exportId}/start', 'export'),
      exported('cancel', 'POST', '/{exportId}/cancel', 'update'),
      exported('download', 'GET', '/{exportId}/download', 'export'),
      exported('file', 'GET', '/{exportId}/file', null),
    ];
    const feedbacks = ['feedbacks.write', 'completions.write'];
    const pricing = '/model-configs/pricing/{provider}/{model}';
    const ofRules = [
      ...policies('rate_limit_policies', '/policies/rate-limits', 'rateLimitsPolicyId'),
      ...policies('usage_limit_policies', '/policies/usage-limits', 'policyUsageLimitsId'),
      ['usage_limit_policies.reset', 'PUT', reset, 'policies.update', 'reset'],
      ['guardrails.create', 'POST', '/guardrails', guardrails('create'), 'create'],
      ['guardrails.list', 'GET', '/guardrails', guardrails('list'), null],
      ['guardrails.get', 'GET', '/guardrails/{guardrailId}', guardrails('read'), null],
      ['guardrails.update', 'PUT', '/guardrails/{guardrailId}', guardrails('update'), 'update'],
      ['guardrails.delete', 'DELETE', '/guardrails/{guardrailId}', guardrails('delete'), 'delete'],
      [
        ...['guardrail_checks.list', 'GET', '/guardrail-checks'],
        [
          'guardrails.list',
          'guardrails.read',
          'organisation_guardrails.list',
          'organisation_guardrails.read',
        ],
        null,
      ],
      ['deployments.create', 'POST', '/deployments', 'deployments.create', 'create'],
      ['deployments.list', 'GET', '/deployments', 'deployments.list', null],
      ['deployments.get', 'GET', deployment, 'deployments.read', null],
      ['deployments.update', 'PUT', deployment, 'deployments.update', 'update'],
      ['deployments.delete', 'DELETE', deployment, 'deployments.delete', 'delete'],
      ['feedback.create', 'POST', '/feedback', feedbacks, null],
      ['feedback.update', 'PUT', '/feedback/{id}', feedbacks, null],
      ['feedback.list', 'GET', '/feedback', 'feedbacks.read', null],
      ...['traces', 'logs', 'metrics'].map((signal) => [
        ...[`otel.${signal}`, 'POST', `/otel/v1/${signal}`, 'logs.write', null],
      ]),
      ['model_pricing.get', 'GET', pricing, ['models.list', 'completions.write'], null],
      [
        ...['provider_kinds.list', 'GET', '/provider-kinds'],
        [
          ...[...integrations('list'), ...integrations('create')],
          ...['virtual_keys.list', 'virtual_keys.create'],
        ],
        null,
      ],
    ];
    const models = `${integration}/models`;
    const access = `${integration}/workspaces`;
    const ofIntegrations = [
      ['integrations.create', 'POST', '/integrations', integrations('create'), 'create'],
      ['integrations.list', 'GET', '/integrations', integrations('list'), null],
      ['integrations.get', 'GET', integration, integrations('read'), null],
      ['integrations.update', 'PUT', integration, integrations('update'), 'update'],
      ['integrations.delete', 'DELETE', integration, integrations('delete'), 'delete'],
      ['integration_models.list', 'GET', models, integrations('read'), null],
      ['integration_models.update', 'PUT', models, integrations('update'), 'update'],
      ['integration_models.delete', 'DELETE', models, integrations('update'), 'delete'],
      ['integration_workspaces.list', 'GET', access, integrations('read'), null],
      ['integration_workspaces.update', 'PUT', access, integrations('update'), 'update'],
    ];
    const mcp = (action: string): string[] => [
      `organisation_mcp_integrations.${action}`,
      `workspace_mcp_integrations.${action}`,
    ];
    const mcpIntegration = '/mcp-integrations/{mcpIntegrationId}';
    const mcpServer = '/mcp-servers/{mcpServerId}';
    const mcpVirtual = '/mcp-virtual-servers/{mcpVirtualServerId}';
    const part = (of: string, name: string, scopes: (action: string) => string | string[]): unknown[] => {
      const [id, path] = [
        `${of}_${name.replace('-', '_')}`,
        of === 'mcp_server' ? mcpServer : mcpIntegration,
      ];
      return [
        [`${id}.list`, 'GET', `${path}/${name}`, scopes('read'), null],
        [`${id}.update`, 'PUT', `${path}/${name}`, scopes('update'), 'update'],
      ];
    };
    const servers = (action: string): string => `mcp_servers.${action}`;
    const connections = `${mcpServer}/connections`;
    const ofMcp = [
      ['mcp_integrations.create', 'POST', '/mcp-integrations', mcp('create'), 'create'],
      ['mcp_integrations.list', 'GET', '/mcp-integrations', mcp('list'), null],
      ['mcp_integrations.get', 'GET', mcpIntegration, mcp('read'), null],
      ['mcp_integrations.update', 'PUT', mcpIntegration, mcp('update'), 'update'],
      ['mcp_integrations.delete', 'DELETE', mcpIntegration, mcp('delete'), 'delete'],
      ...part('mcp_integration', 'workspaces', mcp),
      ...part('mcp_integration', 'capabilities', mcp),
      ['mcp_servers.create', 'POST', '/mcp-servers', 'mcp_servers.create', 'create'],
      ['mcp_servers.list', 'GET', '/mcp-servers', 'mcp_servers.list', null],
      ['mcp_servers.get', 'GET', mcpServer, 'mcp_servers.read', null],
      ['mcp_servers.update', 'PUT', mcpServer, 'mcp_servers.update', 'update'],
      ['mcp_servers.delete', 'DELETE', mcpServer, 'mcp_servers.delete', 'delete'],
      ['mcp_server_test.run', 'POST', `${mcpServer}/test`, 'mcp_servers.read', null],
      ...part('mcp_server', 'capabilities', servers),
      ...part('mcp_server', 'user-access', servers),
      ['mcp_server_connections.list', 'GET', connections, 'mcp_servers.read', null],
      ['mcp_server_connections.delete', 'DELETE', connections, 'mcp_servers.update', 'delete'],
      ['mcp_integration_metadata.get', 'GET', `${mcpIntegration}/metadata`, mcp('read'), null],
      ['mcp_server_metadata.get', 'GET', `${mcpServer}/metadata`, 'mcp_servers.read', null],
      ['mcp_virtual_servers.create', 'POST', '/mcp-virtual-servers', 'mcp_servers.create', 'create'],
      ['mcp_virtual_servers.list', 'GET', '/mcp-virtual-servers', 'mcp_servers.list', null],
      ['mcp_virtual_servers.get', 'GET', mcpVirtual, 'mcp_servers.read', null],
      ['mcp_virtual_servers.update', 'PUT', mcpVirtual, 'mcp_servers.update', 'update'],
      ['mcp_virtual_servers.delete', 'DELETE', mcpVirtual, 'mcp_servers.delete', 'delete'],
    ];
    const promptRoute = (id: string, method: string, path: string, action: string, audit?: string) => [
      ...[id, method, path, `prompts.${action}`, audit ?? null],
    ];
    const ofPrompts = (id: string, path: string, one: string): unknown[] => [
      promptRoute(`${id}.create`, 'POST', path, 'create', 'create'),
      promptRoute(`${id}.list`, 'GET', path, 'list'),
      promptRoute(`${id}.get`, 'GET', `${path}/{${one}}`, 'read'),
      promptRoute(`${id}.update`, 'PUT', `${path}/{${one}}`, 'update', 'update'),
      promptRoute(`${id}.delete`, 'DELETE', `${path}/{${one}}`, 'delete', 'delete'),
    ];
    const partial = '/prompts/partials/{promptPartialId}';
    const promptVersion = '/prompts/{promptId}/versions/{versionId}';
    assert.deepEqual(
      (await routes()).map(({ id, method, path, scope, audit }) => [id, method, path, scope, audit]),
      [
        ['logs.list', 'GET', '/logs', ['logs.list', 'logs.view'], null],
        ['logs.create', 'POST', '/logs', 'logs.write', null],
        ['logs.stream', 'GET', '/logs/stream', ['logs.list', 'logs.view'], null],
        ['logs.get', 'GET', '/logs/{id}', 'logs.view', null],
        ['traces.list', 'GET', '/traces', ['logs.list', 'logs.view'], null],
        ['traces.get', 'GET', '/traces/{id}', 'logs.view', null],
        ...ofExports,
        ['analytics.groups', 'GET', '/analytics/groups/{groupBy}', 'analytics.view', null],
        ['logs.groups', 'GET', '/logs/groups/{groupBy}', 'analytics.view', null],
        ...analytics('groups', 'users', 'ai-models', 'workspaces', 'mcp-servers', 'mcp-tools'),
        ...analytics('groups', 'metadata/{metadataKey}'),
        ...analytics(
          'graphs',
          ...[
            'overview',
            'requests',
            'cost',
            'latency',
            'tokens',
            'users',
            'users/requests',
            'users-requests',
          ],
          ...['errors', 'errors/rate', 'errors-rate', 'errors/stacks', 'errors-stack'],
          ...['errors/status-codes', 'errors-status-code', 'requests/rescued', 'requests-rescued'],
          ...['cache/hit-rate', 'cache-hit-rate', 'cache/latency', 'cache-latency'],
          ...['feedbacks', 'feedbacks/scores', 'feedbacks/score', 'feedbacks/weighted'],
          ...['feedbacks/ai-models'],
        ),
        ...analytics('summary', 'cache'),
        ['cache.delete', 'DELETE', '/cache', 'cache.delete', 'delete'],
        ['caller.get', 'GET', '/me', [], null],
        ['config_file.get', 'GET', '/admin/config-file', 'organisation_settings.update', null],
        ['config_file.schema', 'GET', '/admin/config-file/schema', 'organisation_settings.update', null],
        ['config_file.check', 'POST', '/admin/config-file/check', 'organisation_settings.update', null],
        ['config_file.update', 'PUT', '/admin/config-file', 'organisation_settings.update', 'update'],
        ['config_file.canary.get', 'GET', '/admin/config-file/canary', 'organisation_settings.update', null],
        [
          'config_file.canary.start',
          'POST',
          '/admin/config-file/canary',
          'organisation_settings.update',
          'start',
        ],
        [
          'config_file.canary.abort',
          'DELETE',
          '/admin/config-file/canary',
          'organisation_settings.update',
          'abort',
        ],
        ...ofOrganisation('settings'),
        ...ofOrganisation('defaults'),
        ...exclusions('input'),
        ...exclusions('output'),
        ...ofWorkspace('/admin/workspaces', ''),
        ...ofWorkspace('/workspaces', '_plain'),
        ['users.list', 'GET', '/admin/users', 'organisation_users.list', null],
        ['users.get', 'GET', '/admin/users/{userId}', 'organisation_users.read', null],
        ['users.update', 'PUT', '/admin/users/{userId}', 'organisation_users.update', 'update'],
        ['users.delete', 'DELETE', '/admin/users/{userId}', 'organisation_users.delete', 'delete'],
        ...workspaces('/admin/workspaces', ''),
        ...workspaces('/workspaces', '_plain'),
        ...members('/admin/workspaces', ''),
        ...members('/workspaces', '_plain'),
        ['invites.create', 'POST', '/admin/users/invites', 'organisation_users.create', 'create'],
        ['invites.list', 'GET', '/admin/users/invites', 'organisation_users.list', null],
        ['invites.get', 'GET', '/admin/users/invites/{inviteId}', 'organisation_users.read', null],
        [
          'invites.delete',
          'DELETE',
          '/admin/users/invites/{inviteId}',
          'organisation_users.delete',
          'delete',
        ],
        ['invites.resend', 'POST', resend, 'organisation_users.create', 'update'],
        ['invites.accept', 'POST', '/invites/accept', 'invites.accept', 'accept'],
        ['scim_workspaces.create', 'POST', '/scim/workspaces', 'organisation_settings.update', 'create'],
        ['scim_workspaces.list', 'GET', '/scim/workspaces', 'organisation_settings.read', null],
        ['scim_workspaces.delete', 'DELETE', groupOf, 'organisation_settings.update', 'delete'],
        create('organisation_service', '/api-keys/organisation/service'),
        create('workspace_service', '/api-keys/workspace/service'),
        create('workspace_user', '/api-keys/workspace/user'),
        ['api_keys.list', 'GET', '/api-keys', keys('list'), null],
        ['api_keys.get', 'GET', '/api-keys/{id}', keys('read'), null],
        ['api_keys.update', 'PUT', '/api-keys/{id}', keys('update'), 'update'],
        ['api_keys.delete', 'DELETE', '/api-keys/{id}', keys('delete'), 'delete'],
        ['api_keys.rotate', 'POST', '/api-keys/{id}/rotate', keys('rotate'), 'rotate'],
        ...ofIntegrations,
        ...ofSlug('providers', '/providers'),
        ...ofSlug('virtual_keys', '/virtual-keys'),
        ['configs.create', 'POST', '/configs', 'configs.create', 'create'],
        ['configs.list', 'GET', '/configs', 'configs.list', null],
        ['configs.schema', 'GET', '/configs/schema', ['configs.read', 'configs.list'], null],
        ['configs.explain', 'POST', '/configs/explain', 'configs.read', null],
        ['configs.get', 'GET', '/configs/{slug}', 'configs.read', null],
        ['configs.update', 'PUT', '/configs/{slug}', 'configs.update', 'update'],
        ['configs.delete', 'DELETE', '/configs/{slug}', 'configs.delete', 'delete'],
        ['configs.versions', 'GET', '/configs/{slug}/versions', 'configs.read', null],
        ['secret_references.create', 'POST', references, 'secret_references.create', 'create'],
        ['secret_references.list', 'GET', references, 'secret_references.list', null],
        ['secret_references.get', 'GET', reference, 'secret_references.read', null],
        ['secret_references.update', 'PUT', reference, 'secret_references.update', 'update'],
        ['secret_references.delete', 'DELETE', reference, 'secret_references.delete', 'delete'],
        ['audit_logs.list', 'GET', '/audit-logs', 'audit_logs.list', null],
        ['audit_logs.verify', 'GET', '/audit-logs/verification', 'audit_logs.list', null],
        ...ofRules,
        ...ofPrompts('collections', '/collections', 'collectionId'),
        ...ofPrompts('labels', '/labels', 'labelId'),
        ...ofPrompts('prompt_partials', '/prompts/partials', 'promptPartialId'),
        promptRoute('prompt_partials.versions', 'GET', `${partial}/versions`, 'read'),
        promptRoute('prompt_partials.publish', 'PUT', `${partial}/makeDefault`, 'publish', 'publish'),
        ...ofPrompts('prompts', '/prompts', 'promptId'),
        promptRoute('prompts.versions', 'GET', '/prompts/{promptId}/versions', 'read'),
        promptRoute('prompts.publish', 'PUT', '/prompts/{promptId}/makeDefault', 'publish', 'publish'),
        promptRoute('prompts.get_version', 'GET', promptVersion, 'read'),
        promptRoute('prompts.label_version', 'PUT', promptVersion, 'update', 'update'),
        promptRoute('prompts.render', 'POST', '/prompts/{promptId}/render', 'render'),
        ...ofMcp,
      ],
    );
  });

  test('every schema compiles in strict mode', async () => {
    const ajv = formats.default(
      new Ajv2020({ strict: true, allowUnionTypes: true, keywords: ['x-expected'] }),
    );
    for (const { params, query, body, reply } of await routes()) {
      for (const schema of [params, query, body, reply]) if (schema) ajv.compile(schema);
    }
  });

  test('the plugin has no options, and needs to know the caller', () => {
    assert.equal(optionErrors(management, {}), '');
    assert.match(optionErrors(management, { x: 1 }), /additional/);
    assert.deepEqual(management.capabilities?.needs, ['key']);
  });
});

describe('groups: what is asked of the store', () => {
  for (const by of groupings) {
    test(`by ${by}, with no column and with every one`, async () => {
      const { asked, reply } = await groups(by);
      assert.equal(asked.by, by);
      assert.deepEqual(asked.columns, []);
      assert.deepEqual(reply, { object: 'list', total: 0, data: [] });
      assert.deepEqual((await groups(by, { columns: groupColumns.join(',') })).asked.columns, groupColumns);
    });
  }

  test('the count of requests, named as a column, is there anyway', async () => {
    const { asked } = await groups('model', { columns: 'requests,cost' });
    assert.deepEqual(asked.columns, ['cost']);
  });

  test('a filter', async () => {
    const { asked } = await groups('model', { status_code: '200', cost_max: 100 });
    assert.deepEqual(asked.filter, { statusCodes: [200], cost: { max: 1 } });
  });

  test('columns: spaces, empty ones and repetitions do no harm', async () => {
    const { asked } = await groups('model', { columns: ' cost,, total_tokens ,cost,' });
    assert.deepEqual(asked.columns, ['cost', 'total_tokens']);
  });

  test('the last 24 hours and the first 50 groups by default', async () => {
    const { asked } = await groups('model');
    assert.deepEqual(asked.window, { from: testStart - dayMs, to: testStart });
    assert.deepEqual([asked.limit, asked.offset], [50, 0]);
  });

  test('a page', async () => {
    const { asked } = await groups('model', { current_page: 3, page_size: 20 });
    assert.deepEqual([asked.limit, asked.offset], [20, 60]);
  });

  const visible: [KeyRecord['kind'], object][] = [
    ['owner', { organisationId: 'org-1' }],
    ['organisation-service', { organisationId: 'org-1' }],
    ['workspace-service', { organisationId: 'org-1', workspaceId: 'ws-1' }],
    ['workspace-user', { organisationId: 'org-1', workspaceId: 'ws-1' }],
  ];
  for (const [kind, visibility] of visible) {
    test(`a key of the kind ${kind} sees ${Object.keys(visibility).join(' and ')}`, async () => {
      assert.deepEqual((await groups('model', {}, { key: testKey({ kind }) })).asked.visibility, {
        ...visibility,
        asker: 'key-1',
      });
    });
  }

  test('the older path is the same', async () => {
    const query = { columns: 'cost', page_size: 1 };
    const { asked } = await groups('api_key', query, { id: 'logs.groups' });
    assert.deepEqual(asked, (await groups('api_key', query)).asked);
  });
});

describe('groups: the window', () => {
  const iso = (at: number) => new Date(at).toISOString();
  const good: [string, object, number, number][] = [
    ['from', { time_of_generation_min: iso(testStart - 1) }, testStart - 1, testStart],
    ['until', { time_of_generation_max: iso(0) }, -dayMs, 0],
    [
      '366 days',
      { time_of_generation_min: iso(0), time_of_generation_max: iso(366 * dayMs) },
      0,
      366 * dayMs,
    ],
    [
      'another time zone',
      { time_of_generation_min: '2026-11-21T09:00:00+01:00' },
      testStart - 3_600_000,
      testStart,
    ],
  ];
  for (const [name, query, from, to] of good) {
    test(name, async () => assert.deepEqual((await groups('model', query)).asked.window, { from, to }));
  }

  const bad: [string, object, RegExp][] = [
    [
      'empty',
      { time_of_generation_min: iso(testStart) },
      /must be before time_of_generation_max, which is now/,
    ],
    ['turned round', { time_of_generation_min: iso(2), time_of_generation_max: iso(1) }, /must be before/],
    [
      'too long',
      { time_of_generation_min: iso(0), time_of_generation_max: iso(366 * dayMs + 1) },
      /at most 366 days/,
    ],
    ['no date', { time_of_generation_min: '2026-02-30T99:00:00Z' }, /ISO 8601/],
  ];
  for (const [name, query, message] of bad) {
    test(name, () =>
      assert.rejects(groups('model', query), {
        code: 'invalid_request',
        param: 'time_of_generation_min',
        message,
      }),
    );
  }
});

describe('groups: values that are not known', () => {
  const cases: [string, object, string, RegExp][] = [
    [
      'modell',
      {},
      'groupBy',
      /"modell" is no value of "groupBy"\. Did you mean "model"\? Known: ai_service, model/,
    ],
    ['zzzzzzzz', {}, 'groupBy', /"groupBy"\. Known/],
    ['constructor', {}, 'groupBy', /no value/],
    [
      'model',
      { columns: 'cost,avg_latncy' },
      'columns',
      /"avg_latncy" is no value of "columns"\. Did you mean "avg_latency"\?/,
    ],
    ['model', { columns: 'Cost' }, 'columns', /Did you mean "cost"\?/],
    ['model', { columns: 'x'.repeat(2000) }, 'columns', /^"x{64}" is no value/],
  ];
  for (const [by, query, param, message] of cases) {
    test(`${by} ${JSON.stringify(query).slice(0, 40)}`, () =>
      assert.rejects(groups(by, query), { code: 'invalid_request', status: 400, param, message }));
  }
});

describe('groups: the answer', () => {
  test('numbers are numbers, times are ISO 8601', async () => {
    const columns = {
      cost: '12.000000000001',
      total_tokens: '12345678901',
      avg_latency: 1.5,
      p95_latency: null,
      last_seen: '2026-11-21 08:59:59.001',
      first_seen: '2026-11-20T00:00:00Z',
    };
    const rows = [{ value: 'gpt', requests: 7, columns }];
    const { reply } = await groups('model', {}, { rows: rows as never[], total: 91 });
    assert.deepEqual(reply, {
      object: 'list',
      total: 91,
      data: [
        {
          model: 'gpt',
          requests: 7,
          cost: 12.000000000001,
          total_tokens: 12345678901,
          avg_latency: 1.5,
          p95_latency: null,
          last_seen: '2026-11-21T08:59:59.001Z',
          first_seen: '2026-11-20T00:00:00Z',
        },
      ],
    });
  });

  test('a status code is a number', async () => {
    const rows = [{ value: '446', requests: 1, columns: {} }];
    assert.deepEqual((await groups('status_code', {}, { rows: rows as never[] })).reply.data, [
      { status_code: 446, requests: 1 },
    ]);
  });

  test('a store that is away is said to be', async () => {
    const all = await routes({ groups: () => Promise.reject(new Error('away')) });
    const route = all.find(({ id }) => id === 'logs.groups');
    const input = testRouteInput({ params: { groupBy: 'model' } });
    await assert.rejects(async () => route?.handle(input), /away/);
  });
});
