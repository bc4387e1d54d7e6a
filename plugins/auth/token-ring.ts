import { tokenInvalid } from '../../core/errors/gateway-error.ts';
import { canonicalScope, scopesByType } from '../../core/access/scopes.ts';
import { notEnforced } from '../../core/organisation/not-enforced.ts';
import { GatewayError, type Scope } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { Counter } from '../../core/ports/metrics.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { sha256 } from '../../core/base/sha256.ts';
import type { TokenVerifier, VerifiedToken } from '../../core/ports/token-verifier.ts';
import { tokenExpired } from './refusals.ts';
import { readClaims } from './token-claims.ts';
import { keyOfToken } from './token-key.ts';
import { defaultAlgorithms, type TokenOptions } from './token-options.ts';
import { tokenScope, withReading } from './token-scopes.ts';

/** A user may be made, or a workspace removed, while a token lives: this often its key is made anew. */
const remapEveryMs = 10_000;
/** A token that was refused is refused again without a look for so long. */
const refusedForMs = 2000;
/** The same of a token beside a service key that is none of ours. */
const strangerForMs = 60_000;
const maxRefused = 1000;

interface Remembered {
  readonly verified: VerifiedToken;
  key: KeyRecord;
  mappedAt: number;
}

/**
 * The keys as which the bearers of tokens act. A token is verified once and remembered by its SHA-256 until it expires,
 * the keys of its issuer change, or this object ends with its generation.
 */
export class TokenRing {
  private readonly options: TokenOptions;
  private readonly scope: Scope;
  private readonly verifier: TokenVerifier;
  private readonly toleranceMs: number;
  private readonly prefixes: readonly string[];
  private readonly defaultScopes: readonly string[];
  private readonly ignored: Counter;
  private readonly remembered: RecentMap<Remembered>;
  private readonly refused = new RecentMap<{ readonly reason: string; readonly until: number }>(maxRefused);
  private readonly strangers = new RecentMap<number>(maxRefused);
  private version: number;
  /** The log has told of limits that are not enforced. */
  private toldLimits = false;

  /** Throws `invalid_request` for a set without usable keys, and for default scopes that a token cannot hold. */
  constructor(options: TokenOptions, scope: Scope) {
    const { scope_prefixes = ['service', 'portkey'], default_scopes = ['completions.write'] } = options;
    this.options = options;
    this.scope = scope;
    this.toleranceMs = (options.clock_tolerance_s ?? 5) * 1000;
    this.prefixes = scope_prefixes;
    this.defaultScopes = withReading(default_scopes.map(possibleScope));
    this.remembered = new RecentMap(options.cache_max ?? 10_000);
    this.ignored = scope.metrics.counter({
      name: 'weir_token_scopes_ignored_total',
      help: 'Scopes in verified tokens that keys of workspaces cannot hold, or that do not exist.',
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
   * The key of the bearer, at once for a token that is remembered. Throws or rejects with `token_invalid`, or with
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

  /**
   * Whether a token that came beside a service key is one that `find` takes: it must never reach a provider. Providers'
   * own tokens are none. Never rejects.
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
      // Not what keys vouched for that may have been replaced meanwhile.
      if (this.verifier.version === version)
        this.remembered.set(hash, { verified, key, mappedAt: this.scope.clock.now() });
      this.countIgnored(verified);
      this.tellLimits(verified, key);
      return key;
    } catch (error) {
      if (GatewayError.is(error) && error.code === 'token_invalid') {
        const reason = error.message.replace(/^The token /, '');
        this.refused.set(hash, { reason, until: this.scope.clock.now() + refusedForMs });
      }
      throw error;
    }
  }

  private map({ claims, expiresAt }: VerifiedToken): KeyRecord {
    const identity = readClaims(claims, this.options);
    const scopes =
      identity.scopes === undefined
        ? this.defaultScopes
        : withReading(identity.scopes.flatMap((written) => tokenScope(written, this.prefixes) ?? []));
    return keyOfToken(identity, { scopes, expiresAt }, this.scope.directory);
  }

  private tellLimits({ claims }: VerifiedToken, { limitClaims }: KeyRecord): void {
    if (limitClaims === undefined || this.toldLimits) return;
    this.toldLimits = true;
    const { issuer } = readClaims(claims, this.options);
    this.scope.log.warn(`A token has limits in its claims. ${notEnforced.tokenLimits}`, {
      claims: limitClaims,
      issuer,
    });
  }

  private countIgnored({ claims }: VerifiedToken): void {
    const { scopes = [] } = readClaims(claims, this.options);
    const ignored = scopes.filter((written) => tokenScope(written, this.prefixes) === undefined).length;
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

function possibleScope(written: string, index: number): string {
  const scope = canonicalScope(written);
  if (scopesByType['workspace-user'].has(scope)) return scope;
  const param = `jwt.default_scopes[${index}]`;
  throw new GatewayError(
    'invalid_request',
    `auth: ${param}: a token cannot hold "${scope}". Name a scope that keys of workspaces can hold.`,
    { param },
  );
}
