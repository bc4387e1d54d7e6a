import crypto from 'node:crypto';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyOptions } from './options.ts';

interface Held {
  readonly digest: Buffer;
  readonly record: KeyRecord;
}

const maxRemembered = 10_000;

/** Every service key that is known: those of the options and those of the directory. Secrets are compared as SHA-256; those in use are remembered in memory. */
export class KeyRing {
  private readonly held = new Map<string, Held>();
  private readonly directory: Directory;
  /** Hashing would be the dearest step of a request's authentication; a key in use is hashed once. */
  private readonly digests = new Map<string, Buffer>();

  /** Throws `invalid_request` when two keys share their secret or their id, or when a date does not exist. */
  constructor(keys: readonly KeyOptions[], directory: Directory) {
    this.directory = directory;
    const ids = new Set<string>();
    keys.forEach((options, index) => this.add(options, `keys[${index}]`, ids));
  }

  /** The key with this secret, or undefined. */
  find(secret: string): KeyRecord | undefined {
    const known = this.digests.get(secret);
    const digest = known ?? sha256(secret);
    const hash = digest.toString('base64');
    const record = this.recordOf(hash, digest);
    if (known === undefined && record !== undefined) this.remember(secret, digest);
    return record;
  }

  private recordOf(hash: string, digest: Buffer): KeyRecord | undefined {
    const held = this.held.get(hash);
    if (held === undefined) return this.directory.keyByHash(hash);
    return crypto.timingSafeEqual(held.digest, digest) ? held.record : undefined;
  }

  /** Only secrets that have proved right are remembered, so that guesses neither fill nor probe the memory. */
  private remember(secret: string, digest: Buffer): void {
    if (this.digests.size >= maxRemembered) this.digests.clear();
    this.digests.set(secret, digest);
  }

  private add(options: KeyOptions, place: string, ids: Set<string>): void {
    const digest = digestOf(options, place);
    const hash = digest.toString('base64');
    const record = newRecord(options, place, this.directory);
    const twin = this.held.get(hash)?.record;
    if (twin)
      throw problem(place, `"${record.name}" and "${twin.name}" have the same secret; give each its own`);
    if (ids.has(record.id))
      throw problem(place, `a second key has the id "${record.id}"; give each its own id`);
    ids.add(record.id);
    this.held.set(hash, { digest, record });
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
  };
}

function digestOf(options: KeyOptions, place: string): Buffer {
  if (options.key !== undefined) return sha256(options.key);
  if (options.key_sha256 === undefined) throw problem(place, 'give the key as key or as key_sha256');
  return Buffer.from(options.key_sha256, options.key_sha256.length === 64 ? 'hex' : 'base64');
}

function sha256(text: string): Buffer {
  // `crypto.hash` costs half of `createHash`, and not every supported runtime has it.
  return typeof crypto.hash === 'function'
    ? crypto.hash('sha256', text, 'buffer')
    : crypto.createHash('sha256').update(text).digest();
}

function problem(place: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `auth: ${place}: ${message}.`, { param: place });
}
