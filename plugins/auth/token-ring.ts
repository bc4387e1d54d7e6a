import type { TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { directoryBehind, quoteClaim, tokenInvalid } from '../../core/errors/gateway-error.ts';
import { canonicalScope, scopesByType } from '../../core/access/scopes.ts';
import { GatewayError, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import type { Counter } from '../../core/ports/metrics.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { sha256, isStorable } from '../../core/base/bytes.ts';
import type { TokenVerifier, VerifiedToken } from '../../core/ports/oauth.ts';

import { defaultAlgorithms, defaultClaims, type TokenOptions } from './token-options.ts';
import type { ApiKeyDefaults } from '../../core/ports/resources.ts';
import {
  givenRateLimits,
  GivenRateLimits,
  givenUsageLimit,
  GivenUsageLimit,
} from '../../core/organisation/providers.ts';
import type { RateLimit, UsageLimit } from '../../core/ports/budgets.ts';
import { isJsonObject } from '../../core/base/json.ts';

const possible = scopesByType['workspace-user'];
/** Every token may see what workspace keys may see. */
const readAndList: readonly string[] = [...possible].filter((scope) => /\.(read|list)$/.test(scope));

/** The scope in its own spelling, if workspace keys may hold it; undefined otherwise. */
function tokenScope(written: string, prefixes: readonly string[]): string | undefined {
  const scope = written.replaceAll(':', '.');
  if (possible.has(scope)) return scope;
  const dot = scope.indexOf('.');
  const rest = scope.slice(dot + 1);
  return dot > 0 && prefixes.includes(scope.slice(0, dot)) && possible.has(rest) ? rest : undefined;
}

/** These scopes, and all those of reading and listing. */
function withReading(scopes: Iterable<string>): readonly string[] {
  return [...new Set([...scopes, ...readAndList])];
}

type Claims = Readonly<Record<string, unknown>>;

/** Identity and limits from the claims of a token. */
interface TokenIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Undefined without a claim. */
  readonly organisation: string | undefined;
  readonly workspace: string | undefined;
  /** Empty when the token names no user. */
  readonly user: string;
  /** As written; undefined without a claim of scopes. */
  readonly scopes: readonly string[] | undefined;
  readonly defaults: ApiKeyDefaults | undefined;
  /** Usage limit of the claims. */
  readonly usageLimit: UsageLimit | undefined;
  readonly rateLimits: readonly RateLimit[];
  readonly audiences: readonly string[];
}

const longestText = 255;
const longestValue = 1024;
const maxMetadata = 50;
const maxScopes = 500;

/** Reads the claims, by the names that the configuration gives them. Throws `token_invalid`. */
function readClaims(claims: Claims, { claims: names = {} }: TokenOptions): TokenIdentity {
  const text = (of: 'organisation' | 'workspace' | 'user'): string | undefined =>
    textOf(present(claims, names[of] ?? defaultClaims[of]));
  return {
    issuer: textOf(present(claims, ['iss'])) ?? '',
    subject: textOf(present(claims, ['sub'])) ?? '',
    organisation: text('organisation'),
    workspace: text('workspace'),
    user: text('user') ?? '',
    scopes: scopesOf(present(claims, names.scopes ?? defaultClaims.scopes)),
    defaults: defaultsOf(present(claims, names.defaults ?? defaultClaims.defaults)),
    usageLimit: usageLimitIn(claims),
    rateLimits: rateLimitsIn(claims),
    audiences: audiencesIn(claims),
  };
}

function audiencesIn({ aud }: Claims): readonly string[] {
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  return named.filter((one) => typeof one === 'string');
}

function usageLimitIn({ usage_limits: given }: Claims): UsageLimit | undefined {
  if (isEmptyClaim(given)) return undefined;
  refuseLimits('usage_limits', errorsOf(GivenUsageLimit, given));
  const { limit, issues } = givenUsageLimit(given as Static<typeof GivenUsageLimit>, '');
  refuseLimits('usage_limits', issues);
  return limit;
}

function rateLimitsIn({ rate_limits: given }: Claims): readonly RateLimit[] {
  if (isEmptyClaim(given)) return [];
  refuseLimits('rate_limits', errorsOf(GivenRateLimits, given));
  const { limits, issues } = givenRateLimits(given as Static<typeof GivenRateLimits>, '');
  refuseLimits('rate_limits', issues);
  return limits;
}

function errorsOf(schema: TSchema, value: unknown): readonly { path: string; message: string }[] {
  if (Value.Check(schema, value)) return [];
  // In a union, the deepest place is the branch that the issuer meant.
  return Value.Errors(schema, value)
    .map(({ instancePath, message }) => ({ path: instancePath, message }))
    .sort((a, b) => b.path.length - a.path.length);
}

/** True for an absent claim, and for an empty list or object. */
function isEmptyClaim(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** Throws for an unreadable limit: ignoring it would grant the token more than its issuer meant. */
function refuseLimits(claim: string, [issue]: readonly { path: string; message: string }[]): void {
  if (issue === undefined) return;
  const place = issue.path === '' ? '' : ` (${issue.path})`;
  throw tokenInvalid(`has a claim "${claim}" that cannot be read${place}: ${issue.message}.`);
}

interface Claim {
  readonly name: string;
  readonly value: unknown;
}

/** The first of these claims that the token has. */
function present(claims: Claims, names: readonly string[]): Claim | undefined {
  const name = names.find((one) => Object.hasOwn(claims, one) && claims[one] !== null);
  return name === undefined ? undefined : { name, value: claims[name] };
}

function textOf(claim: Claim | undefined): string | undefined {
  if (claim === undefined) return undefined;
  const { name, value } = claim;
  if (isText(value, longestText)) return value;
  throw tokenInvalid(`has a claim "${name}" that is no text of 1 to ${longestText} characters.`);
}

function isText(value: unknown, longest: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= longest && isStorable(value);
}

function scopesOf(claim: Claim | undefined): readonly string[] | undefined {
  if (claim === undefined) return undefined;
  const { name, value } = claim;
  const list: unknown = typeof value === 'string' ? value.split(' ').filter((part) => part !== '') : value;
  if (Array.isArray(list) && list.length <= maxScopes && list.every((one) => typeof one === 'string'))
    return list;
  throw tokenInvalid(
    `has a claim "${name}" that is neither a text of scopes separated by spaces nor a list of at most ${maxScopes} of them.`,
  );
}

function defaultsOf(claim: Claim | undefined): ApiKeyDefaults | undefined {
  if (claim === undefined) return undefined;
  const { name, value } = claim;
  const refuse = (what: string): Error => tokenInvalid(`has a claim "${name}" ${what}.`);
  if (!isJsonObject(value)) throw refuse('that is no object');
  const { config_id: configId, metadata } = value;
  if (configId !== undefined && !isText(configId, longestText))
    throw refuse(`whose "config_id" is no text of 1 to ${longestText} characters`);
  if (metadata !== undefined && !isMetadata(metadata))
    throw refuse(
      `whose "metadata" is no object of at most ${maxMetadata} texts, each of at most ${longestValue} characters`,
    );
  return {
    ...(configId !== undefined && { configId }),
    ...(metadata !== undefined && { metadata }),
  };
}

function isMetadata(value: unknown): value is Readonly<Record<string, string>> {
  if (!isJsonObject(value)) return false;
  const members = Object.entries(value);
  return (
    members.length <= maxMetadata &&
    members.every(([name, text]) => isText(name, longestText) && (text === '' || isText(text, longestValue)))
  );
}

/** Interval in which a token's key is rebuilt: users and workspaces come and go while the token is valid. */
const remapEveryMs = 10_000;
/** Lifetime of a cached refusal: the same token is refused without a check. */
const refusedForMs = 2000;
/** Lifetime of the cached verdict that a token beside a service key is not the gateway's. */
const strangerForMs = 60_000;
const maxRefused = 1000;

interface Remembered {
  readonly verified: VerifiedToken;
  key: KeyRecord;
  mappedAt: number;
}

/**
 * Maps bearer tokens to keys. A token is verified once and cached by its SHA-256 until it expires, the keys of its
 * issuer change, or the generation of this object ends.
 */
export class TokenRing {
  private readonly options: TokenOptions;
  private readonly scope: Scope;
  private readonly verifier: TokenVerifier;
  private readonly toleranceMs: number;
  private readonly prefixes: readonly string[];
  private readonly defaultScopes: readonly string[];
  /** Scopes by those of the issuer. */
  private readonly scopeMap: ReadonlyMap<string, readonly string[]>;
  private readonly ignored: Counter;
  private readonly remembered: RecentMap<Remembered>;
  private readonly refused = new RecentMap<{ readonly reason: string; readonly until: number }>(maxRefused);
  private readonly strangers = new RecentMap<number>(maxRefused);
  /** By the key that was made of it; keys go with the requests that hold them. */
  private readonly verifiedOf = new WeakMap<KeyRecord, VerifiedToken>();
  private version: number;

  /** Throws `invalid_request` for a set without usable keys, and for default scopes that a token cannot hold. */
  constructor(options: TokenOptions, scope: Scope) {
    const { scope_prefixes = ['service', 'portkey'], default_scopes = ['completions.write'] } = options;
    this.options = options;
    this.scope = scope;
    this.toleranceMs = (options.clock_tolerance_s ?? 5) * 1000;
    this.prefixes = scope_prefixes;
    this.defaultScopes = withReading(
      default_scopes.map((scope, index) => possibleScope(scope, `default_scopes[${index}]`)),
    );
    this.scopeMap = new Map(
      Object.entries(options.scope_map ?? {}).map(([name, scopes]) => [
        name,
        scopes.map((scope, index) => possibleScope(scope, `scope_map["${name}"][${index}]`)),
      ]),
    );
    this.remembered = new RecentMap(options.cache_max ?? 10_000);
    this.ignored = scope.metrics.counter({
      name: 'weir_token_scopes_ignored_total',
      help: 'Scopes in verified tokens that do not exist or that workspace keys cannot hold.',
      labels: [],
    })({});
    this.verifier = scope.tokens.verifier({
      keys: keysOf(options),
      issuers: listOf(options.issuer),
      audiences: listOf(options.audience),
      algorithms: options.algorithms ?? defaultAlgorithms,
      clockToleranceMs: this.toleranceMs,
      maxAgeMs: (options.jwks_max_age_s ?? 600) * 1000,
      timeoutMs: options.jwks_timeout_ms ?? 5000,
    });
    this.version = this.verifier.version;
  }

  /**
   * The key of the bearer, without a promise for a cached token. Throws or rejects with `token_invalid`, or with
   * `token_keys_unavailable`.
   */
  find(token: string, now: number): KeyRecord | Promise<KeyRecord> {
    const hash = this.hashOf(token);
    const known = this.remembered.touch(hash);
    if (known !== undefined) return this.keyOf(known, hash, now);
    const refused = this.refused.get(hash);
    if (refused !== undefined && now < refused.until) throw tokenInvalid(refused.reason);
    return this.verify(token, hash);
  }

  /** The token of a key that `find` returned; undefined for another key. */
  verified(key: KeyRecord): VerifiedToken | undefined {
    return this.verifiedOf.get(key);
  }

  /**
   * True when `find` would accept this token, which came beside a service key: such a token must never reach a
   * provider. False for providers' own tokens. Never rejects.
   */
  owns(token: string, now: number): boolean | Promise<boolean> {
    const hash = this.hashOf(token);
    if (this.remembered.get(hash) !== undefined) return true;
    if (now < (this.strangers.get(hash) ?? 0)) return false;
    return this.verifier.accepts(token).then((isOurs) => {
      if (!isOurs) this.strangers.set(hash, now + strangerForMs);
      return isOurs;
    });
  }

  private hashOf(token: string): string {
    this.verifier.keepFresh();
    if (this.verifier.version !== this.version) {
      this.version = this.verifier.version;
      this.remembered.clear();
      this.refused.clear();
      this.strangers.clear();
    }
    return sha256(token, 'base64');
  }

  private keyOf(known: Remembered, hash: string, now: number): KeyRecord {
    const { expiresAt } = known.verified;
    if (now >= expiresAt + this.toleranceMs) {
      this.remembered.delete(hash);
      throw tokenExpired(expiresAt);
    }
    if (now - known.mappedAt >= remapEveryMs) {
      known.key = this.map(known.verified);
      known.mappedAt = now;
    }
    return known.key;
  }

  private async verify(token: string, hash: string): Promise<KeyRecord> {
    const { version } = this.verifier;
    try {
      const verified = await this.verifier.verify(token);
      const key = this.map(verified);
      // The issuer's keys may have been replaced during the verification: then the result is not cached.
      if (this.verifier.version === version)
        this.remembered.set(hash, { verified, key, mappedAt: this.scope.clock.now() });
      this.countIgnored(verified);
      return key;
    } catch (error) {
      if (GatewayError.is(error) && error.code === 'token_invalid') {
        const reason = error.message.replace(/^The token /, '');
        this.refused.set(hash, { reason, until: this.scope.clock.now() + refusedForMs });
      }
      throw error;
    }
  }

  private map(verified: VerifiedToken): KeyRecord {
    const { claims, expiresAt } = verified;
    const identity = readClaims(claims, this.options);
    const scopes =
      identity.scopes === undefined
        ? this.defaultScopes
        : withReading(identity.scopes.flatMap((written) => this.scopesOf(written)));
    const key = keyOfToken(identity, { scopes, expiresAt }, this.scope.directory);
    this.verifiedOf.set(key, verified);
    return key;
  }

  /** The scopes that one of the issuer's stands for. */
  private scopesOf(written: string): readonly string[] {
    const own = tokenScope(written, this.prefixes);
    const mapped = this.scopeMap.get(written) ?? [];
    return own === undefined ? mapped : [own, ...mapped];
  }

  private countIgnored({ claims }: VerifiedToken): void {
    const { scopes = [] } = readClaims(claims, this.options);
    const ignored = scopes.filter((written) => this.scopesOf(written).length === 0).length;
    if (ignored > 0) this.ignored.inc(ignored);
  }
}

function keysOf({ jwks, jwks_url: url }: TokenOptions): { set: unknown } | { url: string } {
  return url === undefined ? { set: jwks } : { url };
}

function listOf(value: string | readonly string[] | undefined): readonly string[] {
  if (value === undefined) return [];
  return typeof value === 'string' ? [value] : value;
}

function possibleScope(written: string, place: string): string {
  const scope = canonicalScope(written);
  if (scopesByType['workspace-user'].has(scope)) return scope;
  const param = `jwt.${place}`;
  throw new GatewayError(
    'invalid_request',
    `auth: ${param}: a token cannot hold "${scope}". Name a scope that keys of workspaces can hold.`,
    { param },
  );
}

/**
 * Key for the bearer of a verified token: a user's key in one workspace. Throws `token_invalid` when its organisation
 * or workspace does not exist here, and `store_unavailable` while that cannot be checked.
 */
function keyOfToken(
  identity: TokenIdentity,
  { scopes, expiresAt }: { readonly scopes: readonly string[]; readonly expiresAt: number },
  directory: Directory,
): KeyRecord {
  const { issuer, subject, user, defaults, usageLimit, rateLimits, audiences } = identity;
  const organisationId = identity.organisation ?? directory.defaultOrganisationId;
  const name = user === '' ? subject : user;
  return {
    id: `jwt:${sha256(JSON.stringify([issuer, subject === '' ? user : subject]), 'base64url').slice(0, 22)}`,
    name: name === '' ? 'a token without a subject' : name,
    kind: 'workspace-user',
    organisationId,
    workspaceId: workspaceOf(organisationId, identity.workspace, directory),
    userId: user === '' ? '' : (directory.user(organisationId, user)?.id ?? user),
    scopes,
    expiresAt,
    isToken: true,
    ...(audiences.length > 0 && { audiences }),
    ...(defaults !== undefined && { defaults }),
    ...(rateLimits.length > 0 && { rateLimits }),
    // Periods count from the start of 1970: a token does not say since when its limit applies.
    ...(usageLimit !== undefined && { usageLimits: [{ limit: usageLimit, createdAt: 0 }] }),
  };
}

/** Organisations are known only by their workspaces: a missing one gives the same error as a missing workspace. */
function workspaceOf(organisationId: string, named: string | undefined, directory: Directory): string {
  const { defaultOrganisationId, defaultWorkspaceId } = directory;
  const isDefault = organisationId === defaultOrganisationId;
  if (named === undefined) {
    if (isDefault) return defaultWorkspaceId;
    throw tokenInvalid(
      `names the organisation ${quoteClaim(organisationId)} and no workspace. Have its issuer name one, or leave out the organisation for the default one.`,
    );
  }
  if (isDefault && named === defaultWorkspaceId) return named;
  const found = directory.workspaceId(organisationId, named);
  if (found !== undefined) return found;
  if (directory.standing() !== 'current') throw directoryBehind('workspace of the token');
  throw tokenInvalid(
    isDefault
      ? `names the workspace ${quoteClaim(named)}, which does not exist. Use the id or slug of one that does.`
      : `names the workspace ${quoteClaim(named)} of the organisation ${quoteClaim(organisationId)}, which does not exist. Use ids of ones that do.`,
  );
}

/** A cached token has expired. */
function tokenExpired(at: number): GatewayError {
  return tokenInvalid(`expired at ${new Date(at).toISOString()}. Get a new one.`);
}
