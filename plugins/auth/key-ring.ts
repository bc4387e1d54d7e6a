import { keySecretHash } from '../../core/organisation/key-secret.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import { sha256 } from '../../core/base/sha256.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyOptions } from './index.ts';
import { tokenInvalid } from '../../core/errors/gateway-error.ts';

const challenge = { headers: ['www-authenticate', 'Bearer'] };

/** The request names no caller. */
export function missing(header: string, keyPrefix: string, hasBearer: boolean): GatewayError {
  const seen = hasBearer
    ? ` The Authorization header holds another key: service keys begin with "${keyPrefix}".`
    : '';
  return new GatewayError(
    'key_missing',
    `No service key. Send it as "${header}: KEY" or as "Authorization: Bearer KEY".${seen}`,
    challenge,
  );
}

/** The service key in this header is not known. */
export function invalid(header: string): GatewayError {
  return new GatewayError(
    'key_invalid',
    `The service key in ${header} is not known here. Check that it was copied whole and still exists.`,
    challenge,
  );
}

/** The key has expired. */
export function keyExpiredError({ id, name, isReplaced }: KeyRecord, at: number): GatewayError {
  const when = new Date(at).toISOString();
  return new GatewayError(
    'key_expired',
    isReplaced === true
      ? `This secret of the service key "${name}" was replaced, and has ended at ${when}. Use the new one; where nobody has it, POST /api-keys/${id}/rotate answers one.`
      : `The service key "${name}" expired at ${when}. Ask for a new one.`,
    challenge,
  );
}

/** The key's workspace is archived. */
export function workspaceArchivedError({ name, isToken }: KeyRecord): GatewayError {
  return new GatewayError(
    'workspace_archived',
    isToken === true
      ? `The workspace that the token of "${name}" names is archived. Get a token for another workspace.`
      : `The workspace of the service key "${name}" is archived, and its keys with it. Use a key of another workspace.`,
  );
}

/** A cached token has expired. */
export function tokenExpired(at: number): GatewayError {
  return tokenInvalid(`expired at ${new Date(at).toISOString()}. Get a new one.`);
}

const maxRemembered = 10_000;
const maxRememberedStrangers = 1000;

/**
 * Every known service key: those of the options and those of the directory. Secrets are looked up by their SHA-256, so
 * that the time of a look-up reveals at most something about a digest, and nothing about a secret.
 */
export class KeyRing {
  private readonly held = new Map<string, KeyRecord>();
  private readonly directory: Directory;
  /** Hashes by secret. Hashing would be the most expensive step of authentication; a secret in use is hashed once. */
  private readonly hashes = new Map<string, string>();
  /** Hashes of secrets that are no service keys: providers' own keys, which callers send beside a service key. */
  private readonly strangers = new Map<string, string>();

  /** Throws `invalid_request` when two keys share their secret or their id, or when a date does not exist. */
  constructor(keys: readonly KeyOptions[], directory: Directory) {
    this.directory = directory;
    const ids = new Set<string>();
    keys.forEach((options, index) => this.add(options, `keys[${index}]`, ids));
  }

  /** The key with this secret, or undefined. */
  find(secret: string): KeyRecord | undefined {
    const known = this.hashes.get(secret) ?? this.strangers.get(secret);
    const hash = known ?? sha256(secret, 'base64');
    const record = this.held.get(hash) ?? this.directory.keyByHash(hash);
    if (known === undefined) this.remember(secret, hash, record !== undefined);
    return record;
  }

  /** Two maps, so that guesses never evict the keys in use. Only the hash is cached: a verdict could become stale. */
  private remember(secret: string, hash: string, isKey: boolean): void {
    const memory = isKey ? this.hashes : this.strangers;
    if (memory.size >= (isKey ? maxRemembered : maxRememberedStrangers)) memory.clear();
    memory.set(secret, hash);
  }

  private add(options: KeyOptions, place: string, ids: Set<string>): void {
    const hash = hashOf(options, place);
    const record = newRecord(options, place, this.directory);
    const twin = this.held.get(hash);
    if (twin)
      throw problem(place, `"${record.name}" and "${twin.name}" have the same secret; give each its own`);
    if (ids.has(record.id))
      throw problem(place, `a second key has the id "${record.id}"; give each its own id`);
    ids.add(record.id);
    this.held.set(hash, record);
  }
}

function newRecord(options: KeyOptions, place: string, directory: Directory): KeyRecord {
  const kind = options.kind ?? 'workspace-service';
  const expiresAt = options.expires_at === undefined ? null : Date.parse(options.expires_at);
  if (Number.isNaN(expiresAt))
    throw problem(place, `expires_at is no date: write it like 2030-01-31T00:00:00Z`);
  return {
    id: options.id ?? options.name,
    name: options.name,
    kind,
    organisationId: options.organisation_id ?? directory.defaultOrganisationId,
    workspaceId: options.workspace_id ?? directory.defaultWorkspaceId,
    userId: '',
    scopes: options.scopes ?? (kind === 'owner' ? ['*'] : ['completions.write']),
    expiresAt,
    definedAt: `auth: ${place}`,
  };
}

function hashOf(options: KeyOptions, place: string): string {
  const hash = keySecretHash(options);
  if (hash === undefined) throw problem(place, 'give the key as key or as key_sha256');
  return hash;
}

function problem(place: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `auth: ${place}: ${message}.`, { param: place });
}
