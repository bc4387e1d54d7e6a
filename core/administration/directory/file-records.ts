import { keySecretHash } from '../../organisation/key-secret.ts';
import { rateLimitsOf, usageLimitOf } from '../../organisation/limits.ts';
import { canonicalScope } from '../../access/scopes.ts';
import {
  defaultWorkspaceSlug,
  type KeyBlock,
  type OrganisationBlock,
  type WorkspaceBlock,
} from '../../organisation/organisation-block.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Directory, KeyRecord } from '../../ports/directory.ts';
import type { OrganisationDefaults } from '../../ports/organisation-settings.ts';
import type { ApiKeyRecord, WorkspaceDefaults, WorkspaceRecord } from '../../ports/resources.ts';
import type { SecretBox } from '../../ports/secret-managers.ts';
import { fileId, type OwnedFile, ownedPlace, ownerAt } from './owned-file.ts';
import { FileResources } from './file-resources.ts';
import { KeyTable } from './key-table.ts';

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

/** Makes the records of each configuration once. */
export function fileRecordsOf(
  place: FileRecordsPlace,
  clock: Pick<Clock, 'now'>,
): (file: OwnedFile) => FileRecords {
  const made = new WeakMap<OwnedFile['config'], FileRecords>();
  return (file) => {
    let records = made.get(file.config);
    if (records === undefined) made.set(file.config, (records = new FileRecords(file, place, clock.now())));
    return records;
  };
}

type Unmade<T> = Omit<T, 'createdAt' | 'updatedAt' | 'version'>;

function workspaceOf(block: WorkspaceBlock, organisationId: string): Unmade<WorkspaceRecord> {
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
  block: KeyBlock,
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
  input_guardrails: input = [],
  output_guardrails: output = [],
}: NonNullable<WorkspaceBlock['defaults']> = {}): WorkspaceDefaults {
  return {
    ...(metadata !== undefined && { metadata }),
    ...(configId !== undefined && { configId }),
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
