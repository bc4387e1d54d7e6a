import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import type { RecordFilter, StoredRecord } from '../../../core/ports/records.ts';
import { RecordResource } from '../shared/record-resource.ts';
import { places, storedRecords } from '../shared/records.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import { AuthConfig, splitAuth, type SplitAuth } from './auth.ts';
import { Metadata, Name, orNull, refusedBody, strict } from '../shared/fields.ts';
import type { SecretReferenceData } from '../../../core/ports/record-kinds.ts';
import type { SharedKind } from '../shared/workspace-access.ts';
import type { Mistake } from '../../../core/base/json.ts';

/** Secret manager, or local source, that holds the secret. */
const ManagerType = Type.Union([
  Type.Literal('aws_sm', { description: 'AWS Secrets Manager.' }),
  Type.Literal('azure_kv', { description: 'Azure Key Vault.' }),
  Type.Literal('hashicorp_vault', { description: 'HashiCorp Vault.' }),
  Type.Literal('environment', {
    description: 'An environment variable of the gateway (`security.secret_sources`).',
  }),
  Type.Literal('file', { description: 'A file on the machine of the gateway (`security.secret_sources`).' }),
]);

const ReferenceName = Name('For people.');
const SecretPath = Type.String({
  minLength: 1,
  maxLength: 1024,
  description: 'Name, ARN or path of the secret in its manager; or a variable, or a file.',
});

const fields = {
  description: Type.Optional(orNull(Type.String({ maxLength: 1024, description: 'For people.' }))),
  secret_key: Type.Optional(
    orNull(
      Type.String({ maxLength: 255, description: "Member of the secret's JSON. Default: the whole secret." }),
    ),
  ),
  allow_all_workspaces: Type.Optional(
    Type.Boolean({
      description: 'All workspaces may use it. Default false: only those of `allowed_workspaces`.',
    }),
  ),
  allowed_workspaces: Type.Optional(
    Type.Array(Name('Id or slug of a workspace.'), {
      minItems: 1,
      maxItems: 1000,
      description: 'Workspaces whose requests may use it; instead of `allow_all_workspaces`. Default: none.',
    }),
  ),
  allowed_hosts: Type.Optional(
    Type.Array(
      Type.String({
        minLength: 1,
        maxLength: 300,
        pattern: '^(http://)?([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?$',
        examples: ['my-resource.openai.azure.com'],
      }),
      {
        maxItems: 100,
        uniqueItems: true,
        description:
          'Hosts that may receive the secret: `host` or `host:port`, with `http://` before it for a host without TLS. Default: the hosts of the provider table. A request that adds a host must contain the secrets of `auth_config` again.',
      },
    ),
  ),
  tags: Type.Optional(orNull(Metadata)),
};

/** Body that creates a secret reference. */
const CreateSecretReference = Type.Object(
  {
    organisation_id: Type.Optional(Name('That of the key; anything else is refused.')),
    name: ReferenceName,
    slug: Type.Optional(
      Type.String({ minLength: 1, maxLength: 255, pattern: '^[a-zA-Z0-9_-]+$', description: 'Unique.' }),
    ),
    manager_type: ManagerType,
    auth_config: AuthConfig,
    secret_path: SecretPath,
    ...fields,
  },
  strict,
);

/** Body that changes a secret reference; absent members stay unchanged. */
const UpdateSecretReference = Type.Object(
  {
    name: Type.Optional(ReferenceName),
    auth_config: Type.Optional(AuthConfig),
    secret_path: Type.Optional(SecretPath),
    ...fields,
  },
  strict,
);

/** Members of a record that a body can set, with plain secrets. */
interface ReferenceContent {
  readonly name: string;
  readonly data: SecretReferenceData;
  readonly plain: PlainSecrets;
}

/** The reference after the change by the body. Throws `invalid_request` with every mistake and its place. */
async function changedReference(
  reader: Pick<ResourcesReader, 'workspaces'>,
  body: Static<typeof UpdateSecretReference>,
  before: ReferenceContent,
  { organisationId, managers }: { organisationId: string; managers: Scope['secretManagers'] },
): Promise<ReferenceContent> {
  const mistakes: Mistake[] = [];
  const { managerType } = before.data;
  const auth =
    body.auth_config === undefined
      ? authOf(before)
      : splitAuth(body.auth_config, managerType, authOf(before), mistakes);
  const secretPath = body.secret_path ?? before.data.secretPath;
  if (mistakes.length === 0) {
    const question = { managerType, auth: { ...auth.authConfig, ...auth.plain }, secretPath };
    const refusal = managers.refusal(question);
    if (refusal !== undefined) mistakes.push(refusal);
  }
  const workspaces = await allowedWorkspaces(reader, body, { before: before.data, organisationId }, mistakes);
  mistakes.push(...unknownGrants(body, before, auth.plain));
  if (mistakes.length > 0) throw refusedBody(mistakes);
  const allowedHosts = body.allowed_hosts ?? before.data.allowedHosts;
  const { tags = before.data.tags } = body;
  return {
    name: body.name ?? before.name,
    data: {
      description: body.description === undefined ? before.data.description : (body.description ?? ''),
      managerType,
      authConfig: auth.authConfig,
      secretPath,
      secretKey: body.secret_key === undefined ? before.data.secretKey : (body.secret_key ?? ''),
      ...workspaces,
      ...(allowedHosts !== undefined && { allowedHosts }),
      ...(tags !== undefined && tags !== null && { tags }),
    },
    plain: auth.plain,
  };
}

/** Mistakes for new allowed hosts, unless the body repeats the stored secrets: only their holder may add a host. */
function unknownGrants(
  { allowed_hosts: hosts, auth_config: given }: Static<typeof UpdateSecretReference>,
  { data, plain: stored }: ReferenceContent,
  plain: PlainSecrets,
): readonly Mistake[] {
  const before = data.allowedHosts;
  if (hosts === undefined || before === undefined) return [];
  const isWider = hosts.length === 0 ? before.length > 0 : hosts.some((host) => !before.includes(host));
  if (!isWider) return [];
  const said = new Map<string, unknown>(Object.entries(given ?? {}));
  return Object.keys(plain)
    .filter((name) => stored[name] !== undefined && said.get(name) !== plain[name])
    .map((name) => ({
      path: `/auth_config/${name}`,
      message: 'is missing: allowed_hosts lets the secret go to another host; give it again',
    }));
}

/** The current `auth_config` of a reference. */
function authOf({ data, plain }: Pick<ReferenceContent, 'data' | 'plain'>): SplitAuth {
  const texts = Object.entries(data.authConfig).filter(
    (pair): pair is [string, string] => typeof pair[1] === 'string',
  );
  return { authConfig: Object.fromEntries(texts), plain };
}

type Allowed = Pick<SecretReferenceData, 'allowAllWorkspaces' | 'allowedWorkspaces'>;

async function allowedWorkspaces(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  { allow_all_workspaces: all, allowed_workspaces: named }: Static<typeof UpdateSecretReference>,
  { before, organisationId }: { before: Allowed; organisationId: string },
  mistakes: Mistake[],
): Promise<Allowed> {
  if (named === undefined) {
    if (all === true) return { allowAllWorkspaces: true, allowedWorkspaces: [] };
    if (all === false && before.allowAllWorkspaces)
      return { allowAllWorkspaces: false, allowedWorkspaces: [] };
    return { allowAllWorkspaces: before.allowAllWorkspaces, allowedWorkspaces: before.allowedWorkspaces };
  }
  if (all === true) {
    const message = 'cannot be there when allow_all_workspaces is true; leave one of them out';
    mistakes.push({ path: '/allowed_workspaces', message });
  }
  const ids = new Set<string>();
  for (const [index, idOrSlug] of named.entries()) {
    const found = await workspaces.find(organisationId, idOrSlug);
    if (found !== undefined) ids.add(found.id);
    else
      mistakes.push({
        path: `/allowed_workspaces/${index}`,
        message: 'names no workspace that is visible to this key; check its id or slug',
      });
  }
  return { allowAllWorkspaces: false, allowedWorkspaces: [...ids] };
}

/** A new reference with defaults. */
function emptyReference({
  name,
  manager_type: managerType,
}: Static<typeof CreateSecretReference>): ReferenceContent {
  return {
    name,
    data: {
      description: '',
      managerType,
      authConfig: {},
      secretPath: '',
      secretKey: '',
      allowAllWorkspaces: false,
      allowedWorkspaces: [],
      allowedHosts: [],
    },
    plain: {},
  };
}

/** A secret reference in a list. */
const SecretReferenceReply = Type.Object({
  id: Type.String(),
  name: Type.String(),
  slug: Type.String(),
  manager_type: ManagerType,
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  object: Type.Literal('secret-reference'),
});

/** One secret reference. */
const SecretReferenceDetail = Type.Object({
  ...SecretReferenceReply.properties,
  organisation_id: Type.String(),
  description: Type.String(),
  auth_config: Type.Record(Type.String(), Type.String(), { description: 'Secret fields are masked.' }),
  secret_path: Type.String(),
  secret_key: orNull(Type.String()),
  allow_all_workspaces: Type.Boolean(),
  allowed_workspaces: Type.Array(Type.String(), { description: 'Ids; empty if all are allowed.' }),
  allowed_hosts: orNull(
    Type.Array(Type.String(), {
      description:
        'Hosts that may receive the secret; empty for those of the provider table, null for all (references from older versions without this field).',
    }),
  ),
  tags: orNull(Metadata),
  created_by: Type.String(),
});

type Reference = StoredRecord<'secret_reference'>;

/** Converts a stored reference to its shape in lists. */
function showReference(record: Reference): Static<typeof SecretReferenceReply> {
  return {
    id: record.id,
    name: record.name,
    slug: record.slug,
    manager_type: record.data.managerType,
    status: record.status,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    object: 'secret-reference',
  };
}

/** Converts a stored reference to the API's shape, with its opened secrets masked. */
function showWholeReference(record: Reference, plain: PlainSecrets): Static<typeof SecretReferenceDetail> {
  const { data } = record;
  return {
    ...showReference(record),
    organisation_id: record.organisationId,
    description: data.description,
    auth_config: maskedAuth(authOf({ data, plain })),
    secret_path: data.secretPath,
    secret_key: data.secretKey === '' ? null : data.secretKey,
    allow_all_workspaces: data.allowAllWorkspaces,
    allowed_workspaces: [...data.allowedWorkspaces],
    allowed_hosts: data.allowedHosts === undefined ? null : [...data.allowedHosts],
    tags: data.tags === undefined ? null : { ...data.tags },
    created_by: record.createdBy,
  };
}

/** For the reference. */
const referenceExample: Static<typeof SecretReferenceReply> = {
  id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  name: 'OpenAI key',
  slug: 'openai-key',
  manager_type: 'hashicorp_vault',
  status: 'active',
  object: 'secret-reference',
  created_at: '2026-11-21T09:00:00.000Z',
  last_updated_at: '2026-11-21T09:00:00.000Z',
};

/** For the reference. */
const wholeReferenceExample: Static<typeof SecretReferenceDetail> = {
  ...referenceExample,
  organisation_id: '0198a1c2-0000-7c4d-8e5f-6a7b8c9d0e1f',
  description: '',
  auth_config: {
    vault_auth_type: 'token',
    vault_addr: 'https://vault.example.com:8200',
    vault_token: 'hv…9f',
  },
  secret_path: 'secret/team/openai',
  secret_key: 'api_key',
  tags: null,
  created_by: 'a key',
  allow_all_workspaces: false,
  allowed_workspaces: [],
  allowed_hosts: [],
};

/** Throws `resource_conflict`, listing up to 10 users of each kind, while integrations use the reference. */
async function requireUnreferenced(
  reader: Pick<ResourcesReader, 'records'>,
  reference: StoredRecord<'secret_reference'>,
): Promise<void> {
  const users = {
    integrations: await usersOf(reader, 'integration', reference),
    'MCP integrations': await usersOf(reader, 'mcp_integration', reference),
  };
  storedRecords.requireNoUsers(
    `The secret reference "${reference.name}"`,
    users,
    'Change their secret_mappings first.',
  );
}

async function usersOf(
  reader: Pick<ResourcesReader, 'records'>,
  kind: SharedKind,
  { id, organisationId, slug }: StoredRecord<'secret_reference'>,
): Promise<readonly string[]> {
  const users: string[] = [];
  for await (const { data, slug: user } of storedRecords.each(reader, kind, organisationId, {})) {
    const isUser = data.secretMappings.some(({ secretReferenceId: one }) => one === id || one === slug);
    if (isUser) users.push(user);
  }
  return users;
}

/** The routes of secret references. They belong to the organisation; its keys and its owner's keys may use them. */
export function secretReferenceRoutes(scope: Scope): readonly RouteDefinition[] {
  const { secrets, secretManagers: managers } = scope;
  const references = new RecordResource(scope, {
    kind: 'secret_reference',
    noun: 'secret reference',
    operations: 'secret_references',
    path: '/secret-references',
    parameter: 'secretReferenceId',
    scopes: (action) => `secret_references.${action}`,
  });
  const showWhole = (record: Reference) => showWholeReference(record, sealedSecrets.open(secrets, record));
  return [
    references.create({
      summary: 'Creates a reference to a secret in a secret manager',
      body: CreateSecretReference,
      reply: Type.Object({
        id: Type.String(),
        slug: Type.String(),
        object: Type.Literal('secret-reference'),
      }),
      examples: {
        request: {
          name: 'OpenAI key',
          slug: 'openai-key',
          manager_type: 'hashicorp_vault',
          auth_config: {
            vault_auth_type: 'token',
            vault_addr: 'https://vault.example.com:8200',
            vault_token: 'hvs.…',
          },
          secret_path: 'secret/team/openai',
          secret_key: 'api_key',
        },
        response: { id: referenceExample.id, slug: 'openai-key', object: 'secret-reference' },
      },
      prepare: ({ key, body }) => places.requireOrganisation(key, body.organisation_id),
      async make(writer, { id, key, body }) {
        const setting = { organisationId: key.organisationId, managers };
        const { plain, ...content } = await changedReference(writer, body, emptyReference(body), setting);
        const slug = body.slug ?? storedRecords.newSlug('', body.name);
        return { workspaceId: undefined, slug, ...content, secrets: sealedSecrets.seal(secrets, id, plain) };
      },
      show: ({ id, slug }) => ({ id, slug, object: 'secret-reference' as const }),
    }),
    references.list({
      summary: 'Secret references of the organisation, oldest first',
      query: {
        manager_type: Type.Optional(ManagerType),
        search: Type.Optional(Name('Part of the name or the slug, in any case.')),
      },
      entry: SecretReferenceReply,
      examples: { response: { object: 'list', total: 1, data: [referenceExample] } },
      rows(reader, { key, query }, page) {
        const filter: RecordFilter = { ...(query.search !== undefined && { search: query.search }) };
        const { manager_type: wanted } = query;
        return wanted === undefined
          ? reader.records.list('secret_reference', key.organisationId, filter, page)
          : ofManager(reader, key, { wanted, filter, page });
      },
      show: showReference,
    }),
    references.get({
      summary: 'One secret reference, with masked secrets',
      reply: SecretReferenceDetail,
      examples: { response: wholeReferenceExample },
      show: showWhole,
    }),
    references.update({
      summary: 'Updates a secret reference; omitted fields stay unchanged',
      body: UpdateSecretReference,
      reply: SecretReferenceDetail,
      examples: { request: { secret_path: 'secret/team/openai' }, response: wholeReferenceExample },
      async change(before, writer, { key, body }) {
        const { id, name, data } = before;
        const opened = { name, data, plain: sealedSecrets.open(secrets, before) };
        const setting = { organisationId: key.organisationId, managers };
        const { plain, ...content } = await changedReference(writer, body, opened, setting);
        return { ...content, secrets: sealedSecrets.seal(secrets, id, plain) };
      },
      show: showWhole,
    }),
    references.remove({
      summary: 'Deletes a secret reference that no integration uses; the secret itself stays',
      examples: { response: {} },
      requireUnused: requireUnreferenced,
    }),
  ];
}

interface WantedReferences {
  readonly wanted: Reference['data']['managerType'];
  readonly filter: RecordFilter;
  readonly page: Page;
}

/** Searches all references: the store cannot filter by their manager. */
async function ofManager(
  reader: Pick<ResourcesReader, 'records'>,
  { organisationId }: KeyRecord,
  { wanted, filter, page: { offset, limit } }: WantedReferences,
): Promise<Paged<Reference>> {
  const data: Reference[] = [];
  let total = 0;
  for await (const record of storedRecords.each(reader, 'secret_reference', organisationId, filter)) {
    if (record.data.managerType !== wanted) continue;
    if (total >= offset && data.length < limit) data.push(record);
    total += 1;
  }
  return { total, data };
}

/** An `auth_config` for answers, with masked secrets. */
function maskedAuth({ authConfig, plain }: SplitAuth): Record<string, string> {
  const masked = Object.entries(plain).map(([name, value]): [string, string] => [
    name,
    sealedSecrets.mask(value),
  ]);
  return { ...authConfig, ...Object.fromEntries(masked) };
}
