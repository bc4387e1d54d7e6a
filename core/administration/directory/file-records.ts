import { keySecretHash } from '../../organisation/key-secret.ts';
import { rateLimitsOf, usageLimitOf } from '../../organisation/limits.ts';
import { canonicalScope } from '../../access/scopes.ts';
import {
  type Block,
  defaultWorkspaceSlug,
  type OrganisationBlock,
} from '../../organisation/organisation-block.ts';
import type { Directory, KeyRecord } from '../../ports/directory.ts';
import type { OrganisationDefaults } from '../../ports/organisation-settings.ts';
import type { ApiKeyRecord, WorkspaceDefaults, WorkspaceRecord } from '../../ports/resources.ts';
import { type SecretBox, secretContext } from '../../ports/secret-managers.ts';
import { fileId, type OwnedFile } from './owned-file.ts';
import { KeyTable } from './key-table.ts';
import { actionsOf, checksOf, withoutSecrets } from '../../organisation/guardrails.ts';
import {
  changedUsage,
  type GivenRules,
  mapCondition,
  policyRulesOf,
  ratePolicyName,
  storedTarget,
  unlimited,
  usagePolicyName,
} from '../../organisation/policies.ts';
import { givenRateLimits, givenUsageLimit, plainProvider } from '../../organisation/providers.ts';
import { childPointer, pointerSegments } from '../../base/json.ts';
import type { ConfigData, PolicyRules, RecordKinds } from '../../ports/record-kinds.ts';
import type { RecordKind, StoredRecord } from '../../ports/records.ts';
import { integrationOfFile } from '../../organisation/file-integration.ts';
import { RecordTable } from './organisation-table.ts';
import { providerFields } from '../../providers/provider-fields.ts';
import { basename } from 'node:path';

/** Organisation and workspace of the file's records. */
export interface FileRecordsPlace extends Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'> {
  /** Seals the secrets of its integrations. */
  readonly secrets: SecretBox;
}

/**
 * Records of the workspaces, keys and request configuration that the configuration owns. Ids derive from the
 * organisation's id and the slug, or the type, workspace and name: the same in every process and after every reload.
 */
export class FileRecords {
  readonly organisationId: string;
  /** Name of the organisation in the file; undefined when absent. */
  readonly name: string | undefined;
  /** The organisation's request defaults; undefined when the file leaves them to the API. */
  readonly defaults: OrganisationDefaults | undefined;
  /** In file order. */
  readonly workspaces: readonly WorkspaceRecord[];
  /** In file order. */
  readonly apiKeys: readonly ApiKeyRecord[];
  /** Configs, integrations, providers, guardrails and policies. */
  readonly resources: FileResources;
  readonly #source: OwnedFile['source'];
  readonly #workspaces = new Map<string, WorkspaceRecord>();
  readonly #keys = new Map<string, ApiKeyRecord>();
  /** JSON pointers by id. */
  readonly #pointers: Map<string, string>;
  readonly #secrets: KeyTable;

  /** `file` has been checked; `readAt`, in milliseconds, becomes the creation time of its records. */
  constructor(file: OwnedFile, place: FileRecordsPlace, readAt: number) {
    const { defaultOrganisationId: organisationId, defaultWorkspaceId, secrets } = place;
    const block = file.config.organisation ?? {};
    this.#source = file.source;
    this.organisationId = organisationId;
    this.name = block.name;
    const made = { createdAt: readAt, updatedAt: readAt, version: 1, managedBy: 'file' } as const;
    this.workspaces = (block.workspaces ?? []).map((workspace) => ({
      ...workspaceOf(workspace, organisationId),
      ...made,
    }));
    for (const workspace of this.workspaces) this.#workspaces.set(workspace.slug, workspace);
    const workspaceId = (slug: string): string | undefined =>
      slug === defaultWorkspaceSlug ? defaultWorkspaceId : this.#workspaces.get(slug)?.id;
    this.defaults = block.defaults && organisationDefaultsOf(block.defaults, workspaceId);
    this.apiKeys = (block.keys ?? []).map((key) => {
      const ofKey = workspaceId(key.workspace ?? defaultWorkspaceSlug);
      return { ...keyOf(key, organisationId, ofKey), ...made };
    });
    this.#secrets = new KeyTable(() => defaultWorkspaceId);
    for (const [index, key] of this.apiKeys.entries()) {
      this.#keys.set(key.id, key);
      this.#secrets.put(key, ownerAt(`/organisation/keys/${index}`, file.source));
    }
    for (const workspace of this.workspaces) this.#workspaces.set(workspace.id, workspace);
    const keyId = (name: string): string | undefined => {
      const alike = this.apiKeys.filter((key) => key.name === name);
      return alike.length === 1 ? alike[0]?.id : undefined;
    };
    this.resources = new FileResources(file, { organisationId, workspaceId, keyId, secrets, readAt });
    this.#pointers = this.resources.pointers;
    this.workspaces.forEach(({ id }, index) => this.#pointers.set(id, `/organisation/workspaces/${index}`));
    this.apiKeys.forEach(({ id }, index) => this.#pointers.set(id, `/organisation/keys/${index}`));
  }

  /** By id or slug. */
  workspace(organisationId: string, idOrSlug: string): WorkspaceRecord | undefined {
    return organisationId === this.organisationId ? this.#workspaces.get(idOrSlug) : undefined;
  }

  key(organisationId: string, id: string): ApiKeyRecord | undefined {
    return organisationId === this.organisationId ? this.#keys.get(id) : undefined;
  }

  /** The key whose secret has this SHA-256 (base64). */
  keyByHash(hash: string): KeyRecord | undefined {
    return this.#secrets.find(hash);
  }

  keyById(id: string): KeyRecord | undefined {
    return this.#secrets.findById(id);
  }

  /** Place of the record with this id in the file: `organisation.workspaces[2]`; undefined for all others. */
  placeOf(id: string): string | undefined {
    const pointer = this.#pointers.get(id);
    return pointer === undefined ? undefined : ownedPlace(pointer);
  }

  /** The same with the name of the file, for messages: `gateway.config.yaml (organisation.workspaces[2])`. */
  ownerOf(id: string): string | undefined {
    const pointer = this.#pointers.get(id);
    return pointer === undefined ? undefined : ownerAt(pointer, this.#source);
  }

  /** The same for the organisation's request defaults. */
  get defaultsOwner(): string {
    return ownerAt('/organisation/defaults', this.#source);
  }
}

type Unmade<T> = Omit<T, 'createdAt' | 'updatedAt' | 'version'>;

function workspaceOf(block: Block<'workspace'>, organisationId: string): Unmade<WorkspaceRecord> {
  return {
    id: fileId(organisationId, 'workspace', block.slug),
    organisationId,
    slug: block.slug,
    name: block.name,
    description: block.description ?? '',
    icon: block.icon ?? '',
    status: 'active',
    isDefault: false,
    defaults: defaultsOf(block.defaults),
    usageLimits: (block.usage_limits ?? []).map((limit) => usageLimitOf(limit)),
    rateLimits: rateLimitsOf(block.rate_limits ?? []),
  };
}

function keyOf(
  block: Block<'key'>,
  organisationId: string,
  workspaceId: string | undefined,
): Unmade<ApiKeyRecord> {
  const ofOrganisation = block.type === 'organisation-service';
  const override = block.defaults?.allow_config_override;
  const logBodies = block.defaults?.log_bodies;
  return {
    id: fileId(
      ...[organisationId, 'key', block.type],
      ...[ofOrganisation ? '' : (block.workspace ?? defaultWorkspaceSlug), block.name],
    ),
    organisationId,
    workspaceId: ofOrganisation ? undefined : workspaceId,
    userId: block.user_id ?? '',
    name: block.name,
    description: block.description ?? '',
    type: block.type,
    status: 'active',
    scopes: [...new Set(block.scopes.map((scope) => canonicalScope(scope)))],
    rateLimits: rateLimitsOf(block.rate_limits ?? []),
    usageLimits: block.usage_limits === undefined ? undefined : usageLimitOf(block.usage_limits),
    defaults: {
      ...defaultsOf(block.defaults),
      ...(override !== undefined && { allowConfigOverride: override }),
      ...(logBodies !== undefined && { logBodies }),
    },
    alertEmails: [],
    // A hash has nothing to show.
    masked: '***',
    secrets: [{ hash: keySecretHash(block) ?? '', expiresAt: undefined }],
    creationMode: 'auto',
    expiresAt: block.expires_at === undefined ? undefined : Date.parse(block.expires_at),
    rotation: undefined,
  };
}

function defaultsOf({
  metadata,
  config_id: configId,
  allowed_models: allowedModels,
  input_guardrails: input = [],
  output_guardrails: output = [],
}: NonNullable<Block<'workspace'>['defaults']> = {}): WorkspaceDefaults {
  return {
    ...(metadata !== undefined && { metadata }),
    ...(configId !== undefined && { configId }),
    ...(allowedModels !== undefined && { allowedModels }),
    ...(input.length + output.length > 0 && { guardrails: { input, output } }),
  };
}

function organisationDefaultsOf(
  { workspace_exclusions: excluded, ...defaults }: NonNullable<OrganisationBlock['defaults']>,
  workspaceId: (slug: string) => string | undefined,
): OrganisationDefaults {
  const idsOf = (names: readonly string[] = []) => names.map((name) => workspaceId(name) ?? name);
  const { input_guardrails: input, output_guardrails: output } = excluded ?? {};
  return {
    ...defaultsOf(defaults),
    ...(excluded !== undefined && { excludedWorkspaces: { input: idsOf(input), output: idsOf(output) } }),
  };
}

/** Shown instead of secrets and of values from variables. */
const hidden = '***';

const secretNames: ReadonlySet<string> = new Set([
  'api_key',
  // Credentials of checks that call services.
  'credentials',
  ...providerFields.filter(({ secret }) => secret).map(({ name }) => name),
]);

const withCredentials = /^[a-z][a-z0-9+.-]*:\/\/[^/\s]*@/i;

/** Copy of the value at `pointer` for display: without credentials and without values from variables. */
function shownValue<T>(value: T, pointer: string, source: OwnedFile['source']): T {
  return maskValue(value, pointer, source) as T;
}

function maskValue(value: unknown, pointer: string, source: OwnedFile['source']): unknown {
  if (Array.isArray(value))
    return value.map((item: unknown, index) => maskValue(item, childPointer(pointer, index), source));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [
        name,
        secretNames.has(name) ? hidden : maskValue(member, childPointer(pointer, name), source),
      ]),
    );
  }
  if (source?.origin(pointer) !== undefined) return hidden;
  return typeof value === 'string' && withCredentials.test(value) ? hidden : value;
}

/** Organisation of the file's records, and look-ups of their names. */
interface FileResourcesPlace {
  readonly organisationId: string;
  /** Id of the workspace with this slug: one of the file, or the default one. */
  readonly workspaceId: (slug: string) => string | undefined;
  /** Id of the file's only key with this name. */
  readonly keyId: (name: string) => string | undefined;
  /** Seals the secrets of its integrations, like those of the store. */
  readonly secrets: SecretBox;
  /** Creation time of its records, in milliseconds. */
  readonly readAt: number;
}

type Kinds = { [K in RecordKind]?: StoredRecord<K>[] };

/** Fields that every record of a file has. */
interface Envelope {
  readonly slug: string;
  readonly name: string;
  /** Slug; undefined for the organisation. */
  readonly workspace?: string | undefined;
  readonly parentId?: string;
}

const none: readonly never[] = [];

/**
 * Request configuration that the configuration owns: indexed once per configuration, for look-ups of requests and for
 * the administration.
 */
class FileResources {
  /** Records that serve requests. */
  readonly table = new RecordTable();
  /** Records that the administration shows: `table`, and the top-level `configs` and `providers`, without secrets. */
  readonly shown = new RecordTable();
  /** JSON pointers by id. */
  readonly pointers = new Map<string, string>();
  readonly #file: OwnedFile;
  readonly #place: FileResourcesPlace;
  readonly #kinds: Kinds = {};

  /** `file` has been checked. */
  constructor(file: OwnedFile, place: FileResourcesPlace) {
    this.#file = file;
    this.#place = place;
    const { configs = {}, providers = {}, organisation = {} } = file.config;
    for (const [name, config] of Object.entries(configs)) this.#topLevelConfig(name, config);
    for (const name of Object.keys(providers)) this.#topLevelProvider(name);
    organisation.integrations?.forEach((_, index) => this.#integration(index));
    organisation.providers?.forEach((one, index) => this.#provider(one, index));
    organisation.configs?.forEach((one, index) => this.#config(one, index));
    organisation.guardrails?.forEach((one, index) => this.#guardrail(one, index));
    organisation.rate_limit_policies?.forEach((one, index) => this.#ratePolicy(one, index));
    organisation.usage_limit_policies?.forEach((one, index) => this.#usagePolicy(one, index));
  }

  /** Records that the administration shows, in file order. */
  list<K extends RecordKind>(kind: K): readonly StoredRecord<K>[] {
    return this.#kinds[kind] ?? none;
  }

  #topLevelConfig(name: string, config: NonNullable<OwnedFile['config']['configs']>[string]): void {
    const pointer = childPointer('/configs', name);
    const said = shownValue(config, pointer, this.#file.source) as ConfigData['config'];
    const data = { config: said, isDefault: false };
    this.#show(this.#record('config', { slug: name, name: config.name ?? name }, pointer, data));
  }

  #topLevelProvider(name: string): void {
    const pointer = childPointer('/providers', name);
    this.#show(this.#record('provider', { slug: name, name }, pointer, plainProvider));
  }

  #integration(index: number): void {
    const block = this.#file.config.organisation?.integrations?.[index];
    if (block === undefined) return;
    const pointer = `/organisation/integrations/${index}`;
    const { data, plain } = integrationOfFile(block, (slug) => this.#place.workspaceId(slug) ?? slug);
    const record = this.#record('integration', block, pointer, data);
    this.#add({ ...record, secrets: this.#sealed(record.id, plain) });
    const { slug, name, workspace, create_default_provider: wanted = true } = block;
    const providers = this.#file.config.organisation?.providers ?? none;
    const has = providers.some((one) => one.integration_id === slug && one.workspace === workspace);
    if (!wanted || has) return;
    const own = { slug: block.default_provider_slug ?? slug, name, workspace, parentId: record.id };
    this.#add(this.#record('provider', own, pointer, plainProvider));
  }

  #sealed(recordId: string, plain: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    const { secrets } = this.#place;
    return Object.fromEntries(
      Object.entries(plain).map(([field, text]) => [
        field,
        secrets.seal(text, secretContext(recordId, field)),
      ]),
    );
  }

  #provider(block: Block<'provider'>, index: number): void {
    const { integration_id: named, usage_limits: usage = null, rate_limits: rates = null } = block;
    const workspaceId = block.workspace && this.#place.workspaceId(block.workspace);
    const integration = this.table.find('integration', workspaceId, named);
    const { expires_at: expires } = block;
    // A record that the file lacks is looked up in the store, by this name.
    const own = { ...block, parentId: integration?.id ?? named };
    const record = this.#record('provider', own, `/organisation/providers/${index}`, {
      ...plainProvider,
      note: block.note ?? '',
      usageLimits: givenUsageLimit(usage, '').limit,
      rateLimits: givenRateLimits(rates, '').limits,
      expiresAt: typeof expires === 'string' ? Date.parse(expires) : undefined,
    });
    this.#add(record);
  }

  #config(block: Block<'config'>, index: number): void {
    const pointer = `/organisation/configs/${index}`;
    const config = block.config as ConfigData['config'];
    const data = { config, isDefault: block.is_default ?? false };
    const shown = shownValue(config, `${pointer}/config`, this.#file.source);
    this.#add(this.#record('config', block, pointer, data), { ...data, config: shown });
  }

  #guardrail(block: Block<'guardrail'>, index: number): void {
    const pointer = `/organisation/guardrails/${index}`;
    type Parameters = RecordKinds['guardrail']['checks'][number]['parameters'];
    const actions = actionsOf(block.actions);
    const given = checksOf(block.checks, (parameters) => parameters as Parameters);
    const { checks, plain } = withoutSecrets(given);
    const shown = checksOf(block.checks, (parameters, at) => {
      const place = `${pointer}/checks/${at}/parameters`;
      return shownValue(parameters, place, this.#file.source) as Parameters;
    });
    const record = this.#record('guardrail', block, pointer, { checks, actions });
    const secrets = this.#sealed(record.id, plain);
    this.#add({ ...record, secrets }, { checks: withoutSecrets(shown).checks, actions });
  }

  #ratePolicy(block: Block<'rate_limit_policy'>, index: number): void {
    const { type, unit, value } = block;
    const own = { ...block, name: block.name ?? ratePolicyName(block) };
    const data = { ...this.#rules(block), ...storedTarget(block.target), type, unit, value };
    this.#add(this.#record('rate_limit_policy', own, `/organisation/rate_limit_policies/${index}`, data));
  }

  #usagePolicy(block: Block<'usage_limit_policy'>, index: number): void {
    const { type, credit_limit: limit } = block;
    const own = { ...block, name: block.name ?? usagePolicyName(block, limit) };
    const target = storedTarget(block.target);
    const data = { ...this.#rules(block), ...target, type, ...changedUsage(block, unlimited) };
    this.#add(this.#record('usage_limit_policy', own, `/organisation/usage_limit_policies/${index}`, data));
  }

  /** The rules with the names that requests carry: ids of keys and workspaces, slugs otherwise. */
  #rules(block: Required<GivenRules>): PolicyRules {
    const { conditions, groupBy } = policyRulesOf(block);
    const { workspaceId, keyId } = this.#place;
    const named = (key: string, value: string): string => {
      if (key === 'workspace_id') return workspaceId(value) ?? value;
      if (key === 'api_key') return keyId(value) ?? value;
      const isProvider = key === 'provider' || key === 'virtual_key';
      return isProvider && value.startsWith('@') ? value.slice(1) : value;
    };
    return {
      conditions: conditions.map((condition) =>
        mapCondition(condition, (value) => named(condition.key, value)),
      ),
      groupBy,
    };
  }

  #record<K extends RecordKind>(
    kind: K,
    { slug, name, workspace, parentId = '' }: Envelope,
    pointer: string,
    data: RecordKinds[K],
  ): StoredRecord<K> {
    const { organisationId, readAt } = this.#place;
    const id = fileId(organisationId, kind, workspace ?? '', slug);
    this.pointers.set(id, pointer);
    return {
      kind,
      id,
      organisationId,
      slug,
      name,
      status: 'active',
      parentId,
      data,
      secrets: {},
      workspaceId: workspace === undefined ? undefined : this.#place.workspaceId(workspace),
      createdBy: '',
      updatedBy: '',
      createdAt: readAt,
      updatedAt: readAt,
      version: 1,
      managedBy: 'file',
    };
  }

  /** `shown`: the part of the data that the administration shows. Default: all of it. */
  #add<K extends RecordKind>(record: StoredRecord<K>, shown: RecordKinds[K] = record.data): void {
    this.table.put(record);
    this.#show(shown === record.data ? record : { ...record, data: shown });
  }

  #show<K extends RecordKind>(record: StoredRecord<K>): void {
    this.shown.put(record);
    const kinds: { [One in K]?: StoredRecord<One>[] } = this.#kinds;
    (kinds[record.kind] ??= []).push(record);
  }
}

/** File and place of a JSON pointer: `gateway.config.yaml (organisation.workspaces[2])`. */
function ownerAt(pointer: string, source: OwnedFile['source']): string {
  const file = source === undefined ? 'gateway.config.yaml' : basename(source.fileOf(pointer));
  return `${file} (${ownedPlace(pointer)})`;
}

/** Place of an owned record, from its JSON pointer: `organisation.workspaces[2]`. */
function ownedPlace(pointer: string): string {
  const segments = pointerSegments(pointer);
  const isList = segments[0] === 'organisation';
  return segments
    .map((name) => (isList && /^\d+$/.test(name) ? `[${name}]` : `.${name}`))
    .join('')
    .slice(1);
}
