/** One record of every kind wherever there can be one, marked in every text that it has. */
import { randomUUID } from 'node:crypto';
import type { RecordKinds } from '../../core/ports/record-kinds.ts';
import type { RecordKind } from '../../core/ports/records.ts';
import type { ResourcesWriter } from '../../core/ports/resources.ts';
import { secretContext } from '../../core/ports/secret-managers.ts';
import { testStart } from './plugin-kit.ts';
import { testSecrets } from './test-secrets.ts';

/** Stands in every secret of every planted record: no answer has it, whoever asks. */
export const plantedSecret = `planted-secret-${randomUUID()}`;

/** Where a record is planted. */
interface PlantedRecord {
  readonly kind: RecordKind;
  readonly organisation: string;
  /** Undefined for one of the organisation. */
  readonly workspace: string | undefined;
  /** Its marker is in it, so it is in everything. */
  readonly id: string;
}

interface Sketch<K extends RecordKind> {
  /** Whose such a record is. */
  readonly of: 'workspace' | 'organisation' | 'either';
  /** What it belongs to: planted along with it. */
  readonly parent?: RecordKind;
  readonly secrets?: readonly string[];
  /** It has versions, the first of which is planted. */
  readonly hasVersions?: true;
  /** `text` is in every text of it. */
  data(text: string): RecordKinds[K];
}

/** Name of a tool of every planted MCP integration. */
export const plantedCapability = 'planted-tool';

const rules = { conditions: [{ key: 'metadata.team', value: '*' }], groupBy: [{ key: 'api_key' }] };

/** One line a kind: the compiler asks for it when there is a new one. */
const sketches: { readonly [K in RecordKind]: Sketch<K> } = {
  config: {
    of: 'workspace',
    hasVersions: true,
    data: (text) => ({ config: { provider: 'mock', override_params: { user: text } }, isDefault: false }),
  },
  integration: {
    of: 'either',
    secrets: ['key'],
    data: (text) => ({
      aiProviderId: 'mock',
      description: text,
      configurations: {},
      secretMappings: [],
      allowAllModels: true,
      models: [model(text)],
      workspaces: {},
      priceMultiplier: 1,
      globalAccess: { enabled: true, usageLimits: [], rateLimits: [] },
    }),
  },
  provider: {
    of: 'workspace',
    parent: 'integration',
    data: (text) => ({
      note: text,
      usageLimits: undefined,
      rateLimits: [],
      expiresAt: undefined,
      isVirtualKey: true,
    }),
  },
  secret_reference: {
    of: 'organisation',
    secrets: ['vault_token'],
    data: (text) => ({
      description: text,
      managerType: 'hashicorp_vault',
      secretPath: text,
      secretKey: text,
      authConfig: { vault_auth_type: 'token', vault_addr: `https://${text}.example.com` },
      allowAllWorkspaces: true,
      allowedWorkspaces: [],
      tags: { text },
    }),
  },
  rate_limit_policy: { of: 'either', data: () => ({ ...rules, type: 'requests', unit: 'rpm', value: 1 }) },
  usage_limit_policy: {
    of: 'either',
    data: () => ({
      ...rules,
      type: 'cost',
      creditLimit: 10,
      alertThreshold: undefined,
      periodicReset: undefined,
      periodicResetDays: undefined,
      nextResetAt: undefined,
    }),
  },
  guardrail: {
    of: 'either',
    hasVersions: true,
    data: (text) => ({
      checks: [{ id: 'add-prefix', name: text, isEnabled: true, parameters: { prefix: text } }],
      actions: {},
    }),
  },
  deployment: {
    of: 'organisation',
    data: (text) => ({
      type: 'production',
      config: { text },
      allowAllWorkspaces: true,
      allowedWorkspaces: [],
    }),
  },
  collection: { of: 'workspace', data: () => ({ isDefault: false }) },
  label: {
    of: 'either',
    data: (text) => ({ description: text, colourCode: '#00AA55', isUniversal: false }),
  },
  prompt: {
    of: 'workspace',
    parent: 'collection',
    hasVersions: true,
    data: (text) => ({
      template: text,
      parameters: { user: text },
      virtualKey: '',
      model: `${text}-model`,
      functions: [],
      tools: [],
      toolChoice: null,
      metadata: { text },
      isRawTemplate: false,
      defaultVersion: 1,
    }),
  },
  prompt_partial: {
    of: 'workspace',
    parent: 'collection',
    hasVersions: true,
    data: (text) => ({ template: text, defaultVersion: 1 }),
  },
  mcp_integration: {
    of: 'either',
    secrets: ['configurations.custom_headers'],
    data: (text) => ({
      description: text,
      url: `https://${text}.example.com/mcp`,
      authType: 'headers',
      transport: 'http',
      customHeaders: ['x-token'],
      passthroughHeader: {},
      secretMappings: [],
      globalAccess: { enabled: true },
      workspaces: {},
      server: undefined,
      syncError: text,
      capabilities: [plantedCapability, `${text}-tool`].map((name) => ({
        type: 'tool',
        name,
        described: { description: text },
        enabled: true,
        createdAt: testStart,
        updatedAt: testStart,
      })),
    }),
  },
  mcp_server: {
    of: 'workspace',
    parent: 'mcp_integration',
    data: (text) => ({ description: text, capabilities: [], defaultUserAccess: 'allow', userAccess: {} }),
  },
  mcp_virtual_server: {
    of: 'workspace',
    data: (text) => ({
      description: text,
      instructions: text,
      mode: 'list',
      servers: [text],
      tools: undefined,
    }),
  },
  mcp_connection: {
    of: 'workspace',
    parent: 'mcp_server',
    data: (text) => ({
      userId: text,
      server: text,
      binding: text,
      issuer: 'https://login.example.com',
      tokenEndpoint: 'https://login.example.com/token',
      revocationEndpoint: '',
      clientId: text,
      clientMethod: 'none',
      isRegistered: false,
      resource: text,
      audience: '',
      scope: text,
      obtainedAt: testStart,
      expiresAt: undefined,
      isRefreshed: false,
      leasedUntil: 0,
    }),
  },
  mcp_client: {
    of: 'workspace',
    parent: 'mcp_server',
    data: (text) => ({
      server: text,
      redirectUri: 'https://gateway.example.com/mcp/callback',
      issuer: 'https://login.example.com',
      clientId: text,
      clientMethod: 'none',
      expiresAt: undefined,
    }),
  },
  log_export: {
    of: 'workspace',
    data: (text) => ({
      description: text,
      format: 'jsonl',
      requestedData: ['id'],
      filters: { text },
      filter: {},
      from: testStart,
      to: testStart + 1,
      skip: 0,
      limit: 1,
      state: 'draft',
      run: 0,
      error: '',
      visibleUserId: undefined,
      visibleKeyId: undefined,
      total: 0,
      rows: 0,
      bytes: 0,
      startedAt: undefined,
      finishedAt: undefined,
      expiresAt: undefined,
      creator: {
        keyId: text,
        keyName: text,
        kind: 'owner',
        workspaceId: '',
        userId: '',
        isKnownKey: false,
        isKnownUser: false,
      },
    }),
  },
};

function model(slug: string): RecordKinds['integration']['models'][number] {
  return {
    slug,
    enabled: true,
    isCustom: true,
    isFinetune: false,
    baseModelSlug: '',
    configurations: {},
    pricing: undefined,
  };
}

/** Every kind of record. */
export const recordKinds = Object.keys(sketches) as readonly RecordKind[];

/** Whose records of a kind are. */
export function homeOf(kind: RecordKind): Sketch<RecordKind>['of'] {
  return sketches[kind].of;
}

/** Which records a route is about, as the first part of its id says; undefined for none. */
export function recordKindOf(routeId: string): RecordKind | undefined {
  const [name = ''] = routeId.split('.');
  // The older face of providers has a name of its own.
  if (name === 'virtual_keys') return 'provider';
  const stem = name.replace('policies', 'policy');
  const fitting = recordKinds.filter((kind) => stem.startsWith(kind));
  return fitting.sort((one, other) => other.length - one.length)[0];
}

/** The slug of the model that is planted with an integration. */
export function modelOf(id: string): string {
  return textOf(id);
}

function textOf(id: string): string {
  return `${id}-text`;
}

/** The id of the version that is planted with a record. */
export function versionIdOf(id: string): string {
  return `${id}-v1`;
}

/** Plants a record, what it belongs to, and its first version. */
export async function insertRecord(writer: ResourcesWriter, planted: PlantedRecord): Promise<void> {
  const { kind, organisation, workspace, id } = planted;
  const sketch = sketches[kind];
  const parentId = sketch.parent === undefined ? '' : `${id}-parent`;
  if (sketch.parent !== undefined)
    await insertRecord(writer, { ...planted, kind: sketch.parent, id: parentId });
  const data = sketch.data(textOf(id));
  const secrets = Object.fromEntries(
    (sketch.secrets ?? []).map((field) => [
      field,
      testSecrets.seal(secretText(field, id), secretContext(id, field)),
    ]),
  );
  const name = `${id} name`;
  await writer.records.insert({
    kind,
    id,
    organisationId: organisation,
    workspaceId: workspace,
    slug: `${id}-slug`,
    name,
    status: 'active',
    parentId,
    data,
    secrets,
    createdBy: `${id}-by`,
    updatedBy: `${id}-by`,
    createdAt: testStart,
    updatedAt: testStart,
    version: 1,
  });
  if (sketch.hasVersions !== true) return;
  await writer.records.addVersion(kind, organisation, {
    id: versionIdOf(id),
    recordId: id,
    name,
    data,
    description: `${id} said`,
    labelId: '',
    createdBy: `${id}-by`,
    createdAt: testStart,
  });
}

/** Headers are JSON, everything else is text. */
function secretText(field: string, id: string): string {
  const text = `${plantedSecret} of ${id}`;
  return field.endsWith('headers') ? JSON.stringify({ 'x-token': text }) : text;
}
