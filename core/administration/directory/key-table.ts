import type { KeyRecord } from '../../ports/directory.ts';
import type { ApiKeyDefaults, ApiKeySecret, DirectoryKey } from '../../ports/resources.ts';
import type { RateLimit } from '../../ports/budgets.ts';

/** Bound of remembered texts; beyond it the memory starts anew, which costs only sharing. */
const maxTexts = 100_000;

/** Interns equal texts and equal lists of texts. */
export class SharedTexts {
  readonly #texts = new Map<string, string>();
  readonly #lists = new Map<string, readonly string[]>();

  /** The first text equal to this one. */
  text(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    if (this.#texts.size >= maxTexts) this.#texts.clear();
    this.#texts.set(text, text);
    return text;
  }

  /** The first list with the same texts in the same order; frozen. */
  list(list: readonly string[]): readonly string[] {
    const key = JSON.stringify(list);
    const known = this.#lists.get(key);
    if (known !== undefined) return known;
    if (this.#lists.size >= maxTexts) this.#lists.clear();
    const shared = Object.freeze(list.map((text) => this.text(text)));
    this.#lists.set(key, shared);
    return shared;
  }
}

/** Workspace of the requests with an organisation's own keys. */
type WorkspaceOf = (organisationId: string) => string;

/** Bound of remembered lists of limits; beyond it sharing starts anew. */
const maxSharedLimits = 10_000;

/** Keys of the store by the hashes of their secrets. Records are small and share equal parts. */
export class KeyTable {
  readonly #byHash = new Map<string, KeyRecord>();
  /** Hashes of each key by its id: a single one as text, several as a list. */
  readonly #hashes = new Map<string, string | readonly string[]>();
  readonly #shared = new SharedTexts();
  readonly #limits = new Map<string, readonly RateLimit[]>();
  readonly #workspaceOf: WorkspaceOf;

  constructor(workspaceOf: WorkspaceOf) {
    this.#workspaceOf = workspaceOf;
  }

  /** Number of keys. */
  get size(): number {
    return this.#hashes.size;
  }

  /** Key with a secret of this SHA-256 (base64), even when that secret has expired. */
  find(sha256: string): KeyRecord | undefined {
    return this.#byHash.get(sha256);
  }

  /** Key with this id, as of its secret that expires last. */
  findById(id: string): KeyRecord | undefined {
    const hashes = this.#hashes.get(id);
    if (hashes === undefined) return undefined;
    if (typeof hashes === 'string') return this.#byHash.get(hashes);
    const records = hashes.map((hash) => this.#byHash.get(hash));
    return records.find((record) => record?.isReplaced === false) ?? records[0];
  }

  /** Adds the key, or replaces the one with its id. `definedAt` as in `KeyRecord`. */
  put(key: DirectoryKey, definedAt?: string): void {
    this.remove(key.id);
    const present = this.#present(key);
    const base = definedAt === undefined ? present : { ...present, definedAt };
    const hashes: string[] = [];
    for (const secret of key.secrets) {
      this.#byHash.set(secret.hash, secret.expiresAt === undefined ? base : replaced(base, secret.expiresAt));
      hashes.push(secret.hash);
    }
    this.#hashes.set(base.id, hashes.length === 1 ? (hashes[0] ?? []) : hashes);
  }

  /** Hash and record of every secret; input of `restore`. */
  entries(): readonly (readonly [string, KeyRecord])[] {
    return [...this.#byHash];
  }

  /** Adds one secret of a key, as `entries` gave it, to its others. */
  restore(hash: string, record: KeyRecord): void {
    const { organisationId, workspaceId, userId, scopes } = record;
    const shared = {
      organisationId: this.#shared.text(organisationId),
      workspaceId: this.#shared.text(workspaceId),
      userId: this.#shared.text(userId),
      scopes: this.#shared.list(scopes),
    };
    this.#byHash.set(hash, { ...record, ...shared });
    const known = this.#hashes.get(record.id);
    this.#hashes.set(record.id, known === undefined ? hash : [known, hash].flat());
  }

  /** Removes the key with this id, if present. */
  remove(id: string): void {
    const hashes = this.#hashes.get(id);
    if (hashes === undefined) return;
    this.#hashes.delete(id);
    if (typeof hashes === 'string') this.#byHash.delete(hashes);
    else for (const hash of hashes) this.#byHash.delete(hash);
  }

  #present(key: DirectoryKey): KeyRecord {
    const organisationId = this.#shared.text(key.organisationId);
    const record = {
      id: key.id,
      name: key.name,
      kind: key.type,
      organisationId,
      workspaceId: this.#shared.text(key.workspaceId ?? this.#workspaceOf(organisationId)),
      userId: this.#shared.text(key.userId),
      scopes: this.#shared.list(key.scopes),
      expiresAt: endOf(key),
      isReplaced: false,
    };
    // Most keys have neither, and there may be many keys.
    const withDefaults = hasDefaults(key.defaults) ? { ...record, defaults: key.defaults } : record;
    const { usageLimits: limit, createdAt = 0, alertEmails = [] } = key;
    if (key.rateLimits.length === 0 && limit === undefined) return withDefaults;
    return {
      ...withDefaults,
      ...(key.rateLimits.length > 0 && { rateLimits: this.#sharedLimits(key.rateLimits) }),
      ...(limit !== undefined && { usageLimits: [{ limit, createdAt, emails: alertEmails }] }),
    };
  }

  /** The first equal list: many keys have the same limits. */
  #sharedLimits(limits: readonly RateLimit[]): readonly RateLimit[] {
    const said = limits.map(({ type, unit, value }) => `${type} ${unit} ${value}`).join();
    const known = this.#limits.get(said);
    if (known !== undefined) return known;
    if (this.#limits.size >= maxSharedLimits) this.#limits.clear();
    this.#limits.set(said, limits);
    return limits;
  }
}

function hasDefaults({
  metadata,
  configId,
  allowedModels,
  allowConfigOverride,
  logBodies,
}: ApiKeyDefaults): boolean {
  if (configId !== undefined || allowedModels !== undefined) return true;
  if (allowConfigOverride === false || logBodies === false) return true;
  return metadata !== undefined && Object.keys(metadata).length > 0;
}

/** A key marked expired has ended, whatever its date. */
function endOf({ status, expiresAt, updatedAt }: DirectoryKey): number | null {
  if (status !== 'expired') return expiresAt ?? null;
  return Math.min(expiresAt ?? updatedAt, updatedAt);
}

function replaced(base: KeyRecord, secretEndsAt: NonNullable<ApiKeySecret['expiresAt']>): KeyRecord {
  if (base.expiresAt !== null && base.expiresAt <= secretEndsAt) return base;
  return { ...base, expiresAt: secretEndsAt, isReplaced: true };
}
