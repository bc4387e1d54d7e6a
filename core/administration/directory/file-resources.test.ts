import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { OrganisationBlock } from '../../organisation/organisation-block.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { withoutStore } from '../../organisation/without-store.ts';
import type { Directory } from '../../ports/directory.ts';
import type { RecordKind, StoredRecord } from '../../ports/records.ts';
import { directoryWithFile, fileRecordsOnly } from './file-records-directory.ts';
import { FileRecords } from './file-records.ts';
import type { OwnedFile } from './owned-file.ts';
import { plainBox } from './stored-records.test-support.ts';

const place = { defaultOrganisationId: 'org-1', defaultWorkspaceId: 'ws-id-default', secrets: plainBox };
const rules = {
  conditions: [
    { key: 'workspace_id', value: 'ws-lab' },
    { key: 'api_key', value: 'batch' },
    { key: 'provider', value: '@prod' },
  ],
  group_by: [{ key: 'api_key' }],
};
const ofTools = {
  target: 'mcp_tools' as const,
  conditions: [{ key: 'mcp_server', value: 'tickets' }],
  group_by: [{ key: 'mcp_tool' }],
};
const organisation: OrganisationBlock = {
  workspaces: [{ slug: 'ws-lab', name: 'Laboratory' }],
  keys: [{ name: 'batch', type: 'workspace-service', key: 'wk_0123456789abcdef', scopes: ['logs.view'] }],
  integrations: [
    {
      slug: 'prod',
      name: 'Production',
      ai_provider_id: 'openai',
      key: 'sk-1',
      workspaces: [
        { id: 'ws-lab', enabled: true },
        { id: 'ws-default', enabled: false },
      ],
      models: [{ slug: 'm', enabled: true, configurations: { custom_headers: { 'x-a': 'b' } } }],
    },
    {
      slug: 'own',
      name: 'Own',
      workspace: 'ws-lab',
      ai_provider_id: 'openai',
      create_default_provider: false,
    },
  ],
  providers: [{ slug: 'later', name: 'Later', integration_id: 'stored', expires_at: '2030-01-01T00:00:00Z' }],
  configs: [
    {
      slug: 'pc-own',
      name: 'Own',
      workspace: 'ws-lab',
      config: { virtual_key: 'prod', override_params: { user: 'from a variable' } },
    },
  ],
  rate_limit_policies: [
    { slug: 'few', ...rules, type: 'requests', unit: 'rpm', value: 5 },
    { slug: 'calls', ...ofTools, type: 'requests', unit: 'rpm', value: 6 },
  ],
  usage_limit_policies: [{ slug: 'all-calls', ...ofTools, type: 'requests', credit_limit: 7 }],
};
const file: OwnedFile = {
  config: {
    organisation,
    configs: { main: { provider: 'openai', api_key: 'sk-2' } },
    providers: { direct: {} },
  },
  source: {
    fileOf: () => '/etc/weir.yaml',
    origin: (pointer) =>
      pointer.endsWith('/user') ? { names: ['${USER}'], whole: true, resolved: true } : undefined,
  },
};
const records = new FileRecords(file, place, 1000);
const lab = records.workspaces[0]?.id ?? '';

function directory(base: Partial<Directory> = {}): Directory {
  return directoryWithFile({ ...withoutStore, keyByHash: () => undefined, ...place, ...base }, () => records);
}

describe('what requests are configured with, in the file', () => {
  const inLab = { organisationId: 'org-1', workspaceId: lab };

  test('is found by slug and id, in its workspace or in all', () => {
    const own = directory();
    const provider = own.record('provider', inLab, 'prod');
    const integration = own.record('integration', inLab, provider?.parentId ?? '');
    assert.equal(integration?.slug, 'prod');
    assert.deepEqual(Object.keys(integration.data.workspaces), [lab, 'ws-id-default']);
    assert.deepEqual(integration.secrets, {
      key: `${integration.id}/key:sk-1`,
      'models.m.headers': `${integration.id}/models.m.headers:{"x-a":"b"}`,
    });
    const config = own.record('config', inLab, 'pc-own');
    assert.equal(own.record('config', inLab, config?.id ?? ''), config);
    assert.deepEqual(config?.data.config, organisation.configs?.[0]?.config);
    assert.equal(own.record('config', { ...inLab, workspaceId: 'elsewhere' }, 'pc-own'), undefined);
    assert.equal(own.record('config', { ...inLab, organisationId: 'org-2' }, 'pc-own'), undefined);
    assert.equal(own.record('provider', inLab, 'own'), undefined, 'it was asked for no provider');
    const later = own.record('provider', inLab, 'later');
    assert.deepEqual(
      [later?.parentId, later?.data.expiresAt],
      ['stored', Date.parse('2030-01-01T00:00:00Z')],
    );
    assert.equal(own.record('config', inLab, 'main'), undefined, 'the router has those of `configs` itself');
  });

  test('conditions of policies name what requests are told by', () => {
    const policy = directory().record('rate_limit_policy', inLab, 'few');
    assert.deepEqual(
      policy?.data.conditions.map(({ value }) => value),
      [lab, records.apiKeys[0]?.id, 'prod'],
    );
  });

  test('policies have the target that they name; one that names none is for requests to models', () => {
    const own = directory();
    const seen = [...own.records('rate_limit_policy', inLab), ...own.records('usage_limit_policy', inLab)];
    assert.deepEqual(seen.map(({ name, data }) => [name, data.target]).sort(), [
      ['5 requests per minute', undefined],
      ['6 tool calls per minute', 'mcp_tools'],
      ['7 tool calls', 'mcp_tools'],
    ]);
  });

  test('comes before the store, in one list for as long as nothing changes', () => {
    const stored = [{ slug: 'prod' } as StoredRecord<'provider'>];
    const base = {
      record: <K extends RecordKind>() => ({ slug: 'of the store' }) as StoredRecord<K>,
      records: <K extends RecordKind>(): readonly StoredRecord<K>[] => stored as never,
    };
    const own = directory(base);
    assert.equal(own.record('provider', inLab, 'prod')?.name, 'Production');
    assert.equal(own.record('provider', inLab, 'other')?.slug, 'of the store');
    const list = own.records('provider', inLab);
    assert.deepEqual(list.map(({ slug }) => slug).sort(), ['later', 'prod', 'prod']);
    assert.equal(list.at(-1), stored[0]);
    assert.equal(own.records('provider', inLab), list);
    assert.equal(own.records('provider', { organisationId: 'org-2' }), stored);
  });

  test('is read without a store, without secrets and what came from variables; the rest says that there is none', async () => {
    const alone = fileRecordsOnly(() => records, place);
    const all = { offset: 0, limit: 100 };
    const configs = await alone.read((reader) => reader.records.list('config', 'org-1', {}, all));
    assert.deepEqual(
      configs.data.map(({ slug, data }) => [slug, data.config]),
      [
        ['main', { provider: 'openai', api_key: '***' }],
        ['pc-own', { virtual_key: 'prod', override_params: { user: '***' } }],
      ],
    );
    const seen = async (workspaceId: string): Promise<string[]> => {
      const { data } = await alone.read((reader) =>
        reader.records.list('provider', 'org-1', { workspaceId }, all),
      );
      return data.map(({ slug }) => slug);
    };
    assert.deepEqual(await seen(lab), ['direct', 'prod', 'later']);
    assert.deepEqual(await seen('ws-id-default'), ['direct', 'later'], 'it may not use the integration');
    const workspaces = await alone.read((reader) => reader.workspaces.list('org-1', {}, all));
    assert.deepEqual(
      workspaces.data.map(({ slug }) => slug),
      ['ws-lab', 'ws-default'],
    );
    await assert.rejects(
      alone.read((reader) => reader.invites.list('org-1', {}, all)),
      (error) => GatewayError.is(error) && error.code === 'not_supported',
    );
  });

  test('says where it stands, by the name of the file', () => {
    const id = directory().record('config', inLab, 'pc-own')?.id ?? '';
    assert.equal(records.ownerOf(id), 'weir.yaml (organisation.configs[0])');
    assert.equal(records.ownerOf('another'), undefined);
    const [direct] = records.resources.list('provider');
    assert.equal(records.placeOf(direct?.id ?? ''), 'providers.direct');
  });
});
