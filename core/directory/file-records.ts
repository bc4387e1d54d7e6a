import { keySecretHash } from '../access/key-secret-schema.ts';
import { rateLimitsOf, usageLimitOf } from '../access/limits-schema.ts';
import { canonicalScope } from '../access/scopes.ts';
import type { KeyBlock, OrganisationBlock, WorkspaceBlock } from '../config/organisation-schema.ts';
import type { Clock } from '../ports/clock.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { OrganisationDefaults } from '../ports/organisation-settings.ts';
import type { ApiKeyRecord, WorkspaceRecord } from '../ports/resources.ts';
import { sha256 } from '../ports/sha256.ts';
import { defaultWorkspaceSlug } from './default-workspace.ts';
import { KeyTable } from './key-table.ts';

/** Where the records of the file belong. */
export type FileRecordsPlace = Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'>;

const nothing: OrganisationBlock = {};

/**
 * The workspaces and keys that the configuration owns, as records. Their ids are made of the organisation's id and
 * their slug, or their type, workspace and name: the same in every process and after every reload.
 */
export class FileRecords {
  readonly organisationId: string;
  /** What the file calls the organisation; undefined when it does not. */
  readonly name: string | undefined;
  /** What the organisation's requests begin with; undefined when the file leaves that to the API. */
  readonly defaults: OrganisationDefaults | undefined;
  /** In the order of the file. */
  readonly workspaces: readonly WorkspaceRecord[];
  /** In the order of the file. */
  readonly apiKeys: readonly ApiKeyRecord[];
  readonly #workspaces = new Map<string, WorkspaceRecord>();
  readonly #keys = new Map<string, ApiKeyRecord>();
  readonly #places = new Map<string, string>();
  readonly #secrets: KeyTable;

  /** `block` has been checked; `readAt`, in milliseconds, is what its records say of when they were made. */
  constructor(block: OrganisationBlock, place: FileRecordsPlace, readAt: number) {
    const { defaultOrganisationId: organisationId, defaultWorkspaceId } = place;
    this.organisationId = organisationId;
    this.name = block.name;
    this.defaults = block.defaults === undefined ? undefined : defaultsOf(block.defaults);
    const made = { createdAt: readAt, updatedAt: readAt, version: 1, managedBy: 'file' } as const;
    this.workspaces = (block.workspaces ?? []).map((workspace) => ({
      ...workspaceOf(workspace, organisationId),
      ...made,
    }));
    for (const workspace of this.workspaces) this.#workspaces.set(workspace.slug, workspace);
    this.apiKeys = (block.keys ?? []).map((key) => {
      const slug = key.workspace ?? defaultWorkspaceSlug;
      const workspaceId = slug === defaultWorkspaceSlug ? defaultWorkspaceId : this.#workspaces.get(slug)?.id;
      return { ...keyOf(key, organisationId, workspaceId), ...made };
    });
    this.#secrets = new KeyTable(() => defaultWorkspaceId);
    for (const key of this.apiKeys) {
      this.#keys.set(key.id, key);
      this.#secrets.put(key);
    }
    for (const workspace of this.workspaces) this.#workspaces.set(workspace.id, workspace);
    this.workspaces.forEach(({ id }, index) => this.#places.set(id, `organisation.workspaces[${index}]`));
    this.apiKeys.forEach(({ id }, index) => this.#places.set(id, `organisation.keys[${index}]`));
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

  /** Where in the file the record with this id stands: `organisation.workspaces[2]`; undefined for all others. */
  placeOf(id: string): string | undefined {
    return this.#places.get(id);
  }
}

/** Makes the records of a configuration, once each. */
export function fileRecordsOf(
  place: FileRecordsPlace,
  clock: Pick<Clock, 'now'>,
): (block: OrganisationBlock | undefined) => FileRecords {
  const made = new WeakMap<OrganisationBlock, FileRecords>();
  return (block = nothing) => {
    let records = made.get(block);
    if (records === undefined) made.set(block, (records = new FileRecords(block, place, clock.now())));
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
    },
    alertEmails: [],
    // Of a hash there is nothing to show.
    masked: '***',
    secrets: [{ hash: keySecretHash(block) ?? '', expiresAt: undefined }],
    creationMode: 'auto',
    expiresAt: block.expires_at === undefined ? undefined : Date.parse(block.expires_at),
  };
}

function defaultsOf({
  metadata,
  config_id: configId,
}: NonNullable<OrganisationBlock['defaults']> = {}): OrganisationDefaults {
  return { ...(metadata !== undefined && { metadata }), ...(configId !== undefined && { configId }) };
}

/** A UUID (version 8, RFC 9562) of these names. */
function fileId(...names: readonly string[]): string {
  const hex = sha256(JSON.stringify(['weir-file-1', ...names]), 'hex');
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 3) | 8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}
