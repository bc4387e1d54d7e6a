import { Type, type TObject, type TSchema } from 'typebox';
import { RateLimitSchema } from '../../organisation/limits.ts';
import { strict } from '../../organisation/fields.ts';
import { exportFields, exportFormats, exportStates } from '../../ports/request-row.ts';
import { oauthClientMethods } from '../../ports/oauth.ts';
import type { RecordKinds } from '../../ports/record-kinds.ts';
import type { RecordKind } from '../../ports/records.ts';

const Text = Type.String();
const Flag = Type.Boolean();
const Moment = Type.Integer();
const Count = Type.Integer();
const Json = Type.Unknown();
const Free = Type.Record(Type.String(), Type.Unknown());
const Texts = Type.Array(Text);
const oneOf = (...values: readonly string[]) => Type.Union(values.map((value) => Type.Literal(value)));
const exactly = <P extends Record<string, TSchema>>(members: P) => Type.Object(members, strict);
/** By id, or by a user-given name. */
const byName = (value: TSchema) => Type.Record(Type.String(), value);

const UsageLimit = exactly({
  type: oneOf('cost', 'tokens', 'requests'),
  creditLimit: Type.Number(),
  alertThreshold: Type.Optional(Type.Number()),
  periodicReset: Type.Optional(oneOf('monthly', 'weekly')),
  periodicResetDays: Type.Optional(Count),
  nextResetAt: Type.Optional(Moment),
});
const RateLimits = Type.Array(RateLimitSchema);
const Access = exactly({ enabled: Flag, usageLimits: Type.Array(UsageLimit), rateLimits: RateLimits });
const Mappings = Type.Array(
  exactly({
    targetField: Text,
    secretReferenceId: Text,
    secretKey: Text,
    valueFormat: oneOf('string', 'json'),
  }),
);
const TokenPrice = exactly({
  requestToken: Type.Number(),
  responseToken: Type.Number(),
  from: Type.Optional(Type.Number()),
});
const Model = exactly({
  slug: Text,
  enabled: Flag,
  isCustom: Flag,
  isFinetune: Flag,
  baseModelSlug: Text,
  configurations: Free,
  pricing: Type.Optional(TokenPrice),
  laterPricing: Type.Optional(Type.Array(TokenPrice)),
});
const ConditionValue = Type.Union([Text, Texts]);
const rules = {
  conditions: Type.Array(
    exactly({ key: Text, value: ConditionValue, excludes: Type.Optional(ConditionValue) }),
  ),
  groupBy: Type.Array(exactly({ key: Text })),
  target: Type.Optional(oneOf('llm', 'mcp_tools')),
};
const Check = exactly({
  id: Text,
  name: Text,
  isEnabled: Flag,
  parameters: Free,
  onError: Type.Optional(oneOf('pass', 'fail')),
  timeoutMs: Type.Optional(Type.Integer()),
});
const workspaces = { allowAllWorkspaces: Flag, allowedWorkspaces: Texts };
const CapabilityType = oneOf('tool', 'prompt', 'resource', 'resource_template');
const Capability = exactly({
  type: CapabilityType,
  name: Text,
  described: Free,
  digest: Type.Optional(Text),
  pending: Type.Optional(exactly({ described: Free, digest: Type.Optional(Text) })),
  enabled: Flag,
  createdAt: Moment,
  updatedAt: Moment,
});
const McpServer = exactly({
  name: Text,
  version: Text,
  protocolVersion: Text,
  capabilityFlags: Free,
  syncedAt: Moment,
});

const Creator = exactly({
  keyId: Text,
  keyName: Text,
  workspaceId: Text,
  userId: Text,
  isKnownKey: Flag,
  isKnownUser: Flag,
  kind: oneOf('owner', 'organisation-service', 'workspace-service', 'workspace-user'),
});

const OauthSettings = exactly({
  client_id: Type.Optional(Text),
  token_endpoint_auth_method: Type.Optional(oneOf(...oauthClientMethods)),
  issuer: Type.Optional(Text),
  token_endpoint: Type.Optional(Text),
  authorization_endpoint: Type.Optional(Text),
  revocation_endpoint: Type.Optional(Text),
  scope: Type.Optional(Text),
  resource: Type.Optional(Text),
  audience: Type.Optional(Text),
  token_exchange: Type.Optional(oneOf('preferred', 'required')),
  subject_token_type: Type.Optional(oneOf('jwt', 'access_token', 'id_token')),
});

/** One schema per member: the compiler requires it for a new one. */
type DataSchemas = {
  readonly [K in RecordKind]: TObject<{ [M in keyof RecordKinds[K]]-?: TSchema }>;
};

/** JSON schemas of the data of each kind of record: undefined members are absent. */
export const recordDataSchemas: DataSchemas = {
  config: exactly({ config: Free, isDefault: Flag }),
  integration: exactly({
    aiProviderId: Text,
    description: Text,
    configurations: Free,
    secretMappings: Mappings,
    allowAllModels: Flag,
    models: Type.Array(Model),
    globalAccess: Access,
    workspaces: byName(Access),
    priceMultiplier: Type.Number(),
    laterMultipliers: Type.Optional(Type.Array(exactly({ from: Type.Number(), factor: Type.Number() }))),
  }),
  provider: exactly({
    note: Text,
    usageLimits: Type.Optional(UsageLimit),
    rateLimits: RateLimits,
    expiresAt: Type.Optional(Moment),
    isVirtualKey: Flag,
  }),
  secret_reference: exactly({
    description: Text,
    authConfig: Free,
    secretPath: Text,
    secretKey: Text,
    ...workspaces,
    managerType: oneOf('aws_sm', 'azure_kv', 'hashicorp_vault', 'environment', 'file'),
    allowedHosts: Type.Optional(Texts),
    tags: Type.Optional(byName(Text)),
  }),
  rate_limit_policy: exactly({
    ...rules,
    type: oneOf('requests', 'tokens'),
    unit: oneOf('rpm', 'rph', 'rpd', 'rpw'),
    value: Type.Number(),
  }),
  usage_limit_policy: exactly({
    ...{ ...rules, type: oneOf('cost', 'tokens', 'requests'), creditLimit: Type.Number() },
    alertThreshold: Type.Optional(Type.Number()),
    periodicReset: Type.Optional(oneOf('monthly', 'weekly')),
    periodicResetDays: Type.Optional(Count),
    nextResetAt: Type.Optional(Moment),
  }),
  guardrail: exactly({ checks: Type.Array(Check), actions: Free }),
  deployment: exactly({ type: oneOf('production', 'non-production'), config: Free, ...workspaces }),
  collection: exactly({ isDefault: Flag }),
  label: exactly({ description: Text, colourCode: Text, isUniversal: Flag }),
  prompt: exactly({
    template: Text,
    parameters: Free,
    virtualKey: Text,
    model: Text,
    metadata: Free,
    functions: Type.Array(Free),
    tools: Type.Array(Free),
    toolChoice: Json,
    isRawTemplate: Flag,
    defaultVersion: Count,
  }),
  prompt_partial: exactly({ template: Text, defaultVersion: Count }),
  mcp_integration: exactly({
    description: Text,
    url: Text,
    transport: oneOf('http', 'sse'),
    customHeaders: Texts,
    authType: oneOf('oauth_auto', 'oauth_client_credentials', 'headers', 'none'),
    passthroughHeader: Free,
    oauth: Type.Optional(OauthSettings),
    identityHeaders: Type.Optional(byName(Text)),
    secretMappings: Mappings,
    globalAccess: exactly({ enabled: Flag }),
    workspaces: byName(exactly({ enabled: Flag, createdAt: Moment, updatedAt: Moment })),
    server: Type.Optional(McpServer),
    syncError: Text,
    capabilities: Type.Array(Capability),
  }),
  mcp_server: exactly({
    description: Text,
    capabilities: Type.Array(exactly({ type: CapabilityType, name: Text, enabled: Flag })),
    defaultUserAccess: oneOf('allow', 'deny'),
    userAccess: byName(Flag),
  }),
  mcp_virtual_server: exactly({
    description: Text,
    instructions: Text,
    mode: oneOf('list', 'search'),
    servers: Type.Optional(Texts),
    tools: Type.Optional(
      Type.Array(
        exactly({
          server: Text,
          tool: Text,
          name: Type.Optional(Text),
          description: Type.Optional(Text),
        }),
      ),
    ),
  }),
  mcp_connection: exactly({
    userId: Text,
    server: Text,
    binding: Text,
    issuer: Text,
    tokenEndpoint: Text,
    revocationEndpoint: Text,
    clientId: Text,
    clientMethod: oneOf(...oauthClientMethods),
    isRegistered: Flag,
    resource: Text,
    audience: Text,
    scope: Text,
    obtainedAt: Moment,
    expiresAt: Type.Optional(Moment),
    isRefreshed: Flag,
    leasedUntil: Moment,
  }),
  mcp_client: exactly({
    server: Text,
    redirectUri: Text,
    issuer: Text,
    clientId: Text,
    clientMethod: oneOf(...oauthClientMethods),
    expiresAt: Type.Optional(Moment),
  }),
  log_export: exactly({
    description: Text,
    format: oneOf(...exportFormats),
    state: oneOf(...exportStates),
    requestedData: Type.Array(oneOf(...exportFields)),
    filters: Free,
    filter: Free,
    creator: Creator,
    from: Moment,
    to: Moment,
    skip: Count,
    limit: Count,
    run: Count,
    total: Count,
    rows: Count,
    bytes: Count,
    error: Text,
    visibleUserId: Type.Optional(Text),
    visibleKeyId: Type.Optional(Text),
    startedAt: Type.Optional(Moment),
    finishedAt: Type.Optional(Moment),
    expiresAt: Type.Optional(Moment),
  }),
};

/** Every kind of record. */
export const recordKinds = Object.keys(recordDataSchemas) as readonly RecordKind[];
