import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Type, type Static } from 'typebox';
import { Value } from 'typebox/value';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import { makeFolderDurably, writeDurably } from '../../core/base/durable-file.ts';

const StoredIdentity = Type.Object({
  organisation_id: Type.String({ format: 'uuid' }),
  workspace_id: Type.String({ format: 'uuid' }),
  /** Files of earlier versions lack it. */
  owner_user_id: Type.Optional(Type.String({ format: 'uuid' })),
  owner_key_id: Type.String({ format: 'uuid' }),
  /** SHA-256 of the owner key, base64. The key itself is not stored. */
  owner_key_sha256: Type.String({ minLength: 44, maxLength: 44 }),
  /** False from the creation of an owner key until a start has shown it: a key that was never shown is replaced. */
  owner_key_shown: Type.Optional(Type.Boolean()),
  /** False until the store has reported whether it has an organisation that this folder joins. */
  organisation_settled: Type.Optional(Type.Boolean()),
});

/** Marks that can be updated in the file. */
type Marks = 'owner_key_shown' | 'organisation_settled';
type StoredIds = Required<Omit<Static<typeof StoredIdentity>, Marks>> &
  Pick<Static<typeof StoredIdentity>, Marks>;

const minKeyLength = 16;
const maxEmailLength = 254;

/** Settings from outside. */
export interface IdentityOptions {
  /** `WEIR_ADMIN_KEY`: becomes the owner key, at this and later starts. */
  readonly presetKey: string | undefined;
  /** `WEIR_OWNER_EMAIL`: address of the first user. Default `owner@localhost`. */
  readonly ownerEmail: string | undefined;
  /** Prefix of generated keys. */
  readonly keyPrefix: string;
}

/** The default organisation of a data folder, and its owner. */
export interface Identity {
  readonly directory: Directory;
  /** The user that the owner key belongs to; the e-mail address is lower-case. */
  readonly owner: { readonly id: string; readonly email: string };
  /** The owner key in plain text, only when it was just generated: show it once, then call `keyShown`. */
  readonly newOwnerKey: string | undefined;
  /**
   * Records that the owner key was shown. Until then each start creates a new one, so that an unseen key is never
   * valid.
   */
  keyShown(): Promise<void>;
  /** True for a new data folder until `join` or `keepOwn` is called. */
  readonly isNew: boolean;
  /** Records that this folder keeps its own organisation: the store has none to join. */
  keepOwn(): Promise<void>;
  /** Replaces the identity of the data folder by this one, with the same owner key, and resolves to it. */
  join(ids: JoinedIds): Promise<Identity>;
}

/** An existing organisation. */
export interface JoinedIds {
  readonly organisationId: string;
  readonly workspaceId: string;
  readonly ownerId: string;
  /** Lower-case. */
  readonly ownerEmail: string;
}

/**
 * Opens the default organisation, workspace, owner and owner key of a data folder, and creates them at the first start.
 * Throws when the preset key is too short, when the address is invalid, or when the file is damaged.
 */
export async function openIdentity(
  directory: string,
  { presetKey, ownerEmail, keyPrefix }: IdentityOptions,
): Promise<Identity> {
  if (presetKey !== undefined && presetKey.length < minKeyLength) {
    throw new Error(`WEIR_ADMIN_KEY is shorter than ${minKeyLength} characters. Choose a longer key.`);
  }
  const email = readEmail(ownerEmail);
  const file = path.join(directory, 'identity.json');
  const stored = await read(file);
  const newOwnerKey =
    (stored === undefined || stored.owner_key_shown === false) && presetKey === undefined
      ? keyPrefix + randomBytes(30).toString('base64url')
      : undefined;
  const key = presetKey ?? newOwnerKey;
  const identity: StoredIds = {
    organisation_id: stored?.organisation_id ?? randomUUID(),
    workspace_id: stored?.workspace_id ?? randomUUID(),
    owner_user_id: stored?.owner_user_id ?? randomUUID(),
    owner_key_id: stored?.owner_key_id ?? randomUUID(),
    owner_key_sha256: key === undefined ? (stored?.owner_key_sha256 ?? '') : sha256(key),
  };
  if (newOwnerKey !== undefined) identity.owner_key_shown = false;
  const isNew = stored === undefined || stored.organisation_settled === false;
  if (isNew) identity.organisation_settled = false;
  const isKnown =
    identity.owner_key_sha256 === stored?.owner_key_sha256 &&
    identity.owner_user_id === stored.owner_user_id &&
    identity.owner_key_shown === stored.owner_key_shown;
  if (!isKnown) await write(file, identity);
  const store = async (change: (ids: StoredIds) => void): Promise<void> => {
    change(identity);
    await write(file, identity);
  };
  const identityOf = (ownerEmail: string): Identity => ({
    directory: directoryOf(identity),
    owner: { id: identity.owner_user_id, email: ownerEmail },
    newOwnerKey,
    isNew,
    async keyShown() {
      if (newOwnerKey !== undefined) await store((ids) => delete ids.owner_key_shown);
    },
    async keepOwn() {
      if (isNew) await store((ids) => delete ids.organisation_settled);
    },
    async join({ organisationId, workspaceId, ownerId, ownerEmail: theirs }) {
      await store((ids) => {
        ids.organisation_id = organisationId;
        ids.workspace_id = workspaceId;
        ids.owner_user_id = ownerId;
        delete ids.organisation_settled;
      });
      return identityOf(theirs);
    },
  });
  return identityOf(email);
}

/**
 * The identity of a data folder that another process of this gateway has opened: nothing is created or written. Throws
 * when there is none.
 */
export async function readIdentity(
  directory: string,
  ownerEmail: string | undefined,
): Promise<Pick<Identity, 'directory' | 'owner'>> {
  const stored = await read(path.join(directory, 'identity.json'));
  if (stored?.owner_user_id === undefined) throw new Error(`${directory} has no identity yet.`);
  return {
    directory: directoryOf({ ...stored, owner_user_id: stored.owner_user_id }),
    owner: { id: stored.owner_user_id, email: readEmail(ownerEmail) },
  };
}

/** The ids of a data folder's default organisation and workspace, for a command; undefined before its first start. */
export async function readStoredIds(
  directory: string,
): Promise<Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'> | undefined> {
  const stored = await read(path.join(directory, 'identity.json'));
  return stored && { defaultOrganisationId: stored.organisation_id, defaultWorkspaceId: stored.workspace_id };
}

function readEmail(given: string | undefined): string {
  const email = given?.trim().toLowerCase() ?? '';
  if (email === '') return 'owner@localhost';
  if (email.length <= maxEmailLength && /^[^\s@]+@[^\s@]+$/.test(email)) return email;
  throw new Error(`WEIR_OWNER_EMAIL must be an e-mail address; it is "${email.slice(0, 64)}".`);
}

async function read(file: string): Promise<Static<typeof StoredIdentity> | undefined> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (Value.Check(StoredIdentity, value)) return value;
  throw new Error(
    `${file} is damaged. Restore it from a backup, or move it away to get a new organisation and owner key.`,
  );
}

async function write(file: string, identity: StoredIds): Promise<void> {
  await makeFolderDurably(path.dirname(file));
  await writeDurably(file, `${JSON.stringify(identity, null, 2)}\n`);
}

function directoryOf(identity: StoredIds): Directory {
  const owner: KeyRecord = {
    id: identity.owner_key_id,
    name: 'owner',
    kind: 'owner',
    organisationId: identity.organisation_id,
    workspaceId: identity.workspace_id,
    userId: identity.owner_user_id,
    scopes: ['*'],
    expiresAt: null,
  };
  return {
    ...withoutStore,
    keyByHash: (hash) => (hash === identity.owner_key_sha256 ? owner : undefined),
    keyById: (id) => (id === owner.id ? owner : undefined),
    defaultOrganisationId: identity.organisation_id,
    defaultWorkspaceId: identity.workspace_id,
  };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}
