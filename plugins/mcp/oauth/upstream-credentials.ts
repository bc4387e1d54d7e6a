import { sha256 } from '../../../core/base/bytes.ts';
import { type AskedToken, clientCredentials, exchangedToken } from '../../../core/organisation/mcp-token.ts';
import { callerToken, type CallerToken } from '../../../core/pipeline/keys.ts';
import { GatewayError, type MaybePromise, type Scope } from '../../../core/pipeline/plugin.ts';
import type { HeaderList } from '../../../core/ports/header-list.ts';
import type { OauthTokens } from '../../../core/ports/oauth.ts';
import type { ConnectPages } from './connect.ts';
import type { Account, Connections } from './connections.ts';
import {
  bindingOf,
  type Caller,
  type Challenge,
  joinedScopes,
  readChallenge,
  type ServerIdentity,
  takesTokens,
} from './server-identity.ts';
import { PassingMap, RecentMap } from '../../../core/base/recent-map.ts';
import type { Clock } from '../../../core/ports/clock.ts';

/** A token in memory, as a header. */
interface HeldToken {
  /** `bindingOf` the server that it was made for. */
  readonly binding: string;
  readonly headers: HeaderList;
  /** Until when it is sent without a question, milliseconds since the epoch. */
  readonly freshUntil: number;
  readonly obtainedAt: number;
  /** Scopes that were asked for, separated by spaces. */
  readonly scope: string;
  /** It has replaced another one, with which requests may still be on their way. */
  readonly isReplacement: boolean;
}

const maxTokens = 10_000;
const maxFlights = 1000;
const maxFailures = 1000;
/** A token is replaced this long before its end, but not in the first half of its life. */
const marginMs = 60_000;
/** Of a token whose end is not told. */
const usualLifeMs = 3_600_000;
/** A failure is repeated for this time without another attempt. */
const failureMs = 2000;
/** Requests that were sent with the previous token come back within this time. */
const overlapMs = 10_000;

/** Until when a token is sent without a question. */
export function freshUntil(now: number, expiresAt: number | undefined): number {
  const end = expiresAt ?? now + usualLifeMs;
  return Math.max(end - marginMs, now + (end - now) / 2);
}

/** Tokens in memory, the most recently used 10,000; each is fetched once at a time. */
class TokenKeeper {
  readonly #clock: Clock;
  readonly #held = new RecentMap<HeldToken>(maxTokens);
  readonly #flights = new PassingMap<string, Promise<HeldToken>>();
  readonly #failures = new RecentMap<{ readonly error: GatewayError; readonly until: number }>(maxFailures);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The token of this key, also when it is about to end; undefined for one with another binding. */
  held(key: string, binding: string): HeldToken | undefined {
    const held = this.#held.touch(key);
    return held?.binding === binding ? held : undefined;
  }

  /** The header of a token that is fresh, at once; else that of a new one. Rejects as `fetch` does. */
  headers(key: string, binding: string, fetch: () => Promise<HeldToken>): MaybePromise<HeaderList> {
    const held = this.held(key, binding);
    if (held !== undefined && this.#clock.now() < held.freshUntil) return held.headers;
    return this.renew(key, binding, fetch).then(({ headers }) => headers);
  }

  /** A new token; calls at the same time share one. A failure is repeated for two seconds. */
  renew(key: string, binding: string, fetch: () => Promise<HeldToken>): Promise<HeldToken> {
    const flight = `${binding} ${key}`;
    const present = this.#flights.get(flight);
    if (present !== undefined) return present;
    const failure = this.#failures.get(flight);
    if (failure !== undefined && this.#clock.now() < failure.until) return Promise.reject(failure.error);
    if (this.#flights.size >= maxFlights) {
      const message = `${maxFlights} tokens of MCP servers are being fetched, the most that are allowed. Try again shortly.`;
      return Promise.reject(new GatewayError('overloaded', message, { headers: ['retry-after', '2'] }));
    }
    const fetching = this.#fetch(key, flight, fetch).finally(() => this.#flights.delete(flight));
    this.#flights.set(flight, fetching);
    return fetching;
  }

  async #fetch(key: string, flight: string, fetch: () => Promise<HeldToken>): Promise<HeldToken> {
    try {
      const held = await fetch();
      this.keep(key, held);
      this.#failures.delete(flight);
      return held;
    } catch (error) {
      if (GatewayError.is(error)) this.#failures.set(flight, { error, until: this.#clock.now() + failureMs });
      throw error;
    }
  }

  /** Holds a token that was fetched elsewhere. */
  keep(key: string, held: HeldToken): void {
    this.#held.set(key, held);
  }

  /** Forgets a token. */
  drop(key: string): void {
    this.#held.delete(key);
  }

  /**
   * What a refused token calls for. `retry`: the refused one may be its predecessor; `give-up`: it is new, and the server
   * refuses it all the same; `renew`: it may have been revoked.
   */
  afterRefusal(held: HeldToken | undefined): 'retry' | 'give-up' | 'renew' {
    if (held === undefined || this.#clock.now() - held.obtainedAt >= overlapMs) return 'renew';
    return held.isReplacement ? 'retry' : 'give-up';
  }
}

/** Place of a token in memory. */
interface TokenPlace {
  readonly key: string;
  readonly binding: string;
}

/** Where a token comes from. */
interface TokenSource extends TokenPlace {
  /** Of a user; undefined for a token that is fetched without one at a browser. */
  readonly account?: Account;
  /** Asks for it; `scope` and `metadata` are those of the server's challenge. */
  fetch(challenge: Challenge | undefined): Promise<HeldToken>;
}

/** What credentials need of the gateway. */
type CredentialScope = Pick<Scope, 'clock' | 'mcp'>;

/** How users connect their accounts, and where they are kept. */
interface UserAccounts {
  readonly connections: Pick<Connections, 'token'>;
  readonly pages: Pick<ConnectPages, 'missing' | 'onConnected'>;
}

/** A user's connection is looked up again after this time, so that one that was ended is not used for longer. */
const lookMs = 30_000;
/** The same for a user without one. */
const absentMs = 1_000;

/**
 * Credentials of requests to MCP servers, in the name of their callers. A token goes to the address that it was made for,
 * and the caller's own credential to none.
 */
export class UpstreamCredentials {
  readonly #scope: CredentialScope;
  readonly #tokens: TokenKeeper;
  readonly #accounts: UserAccounts;

  constructor(scope: CredentialScope, accounts: UserAccounts) {
    this.#scope = scope;
    this.#tokens = new TokenKeeper(scope.clock);
    this.#accounts = accounts;
    accounts.pages.onConnected((account) => this.#tokens.drop(accountKey(account)));
  }

  /**
   * Headers of one request to the server, beside those of its settings: its token, and who calls. At once from memory
   * while the token is valid for a minute. Throws or rejects with `credentials_failed`, `address_refused`, `overloaded`,
   * and `mcp_connection_missing` for a caller whose own token has to be exchanged, and who came without one.
   */
  headersFor(server: ServerIdentity, caller: Caller): MaybePromise<HeaderList> {
    const identity = identityHeaders(server, caller);
    const source = this.#source(server, caller);
    if (source === undefined) return identity;
    const token = this.#tokens.headers(source.key, source.binding, () => source.fetch(undefined));
    if (identity.length === 0) return token;
    return token instanceof Promise ? token.then((one) => [...identity, ...one]) : [...identity, ...token];
  }

  /**
   * A server that takes tokens answered 401 or 403 to a request with `headersFor`. `retry`: repeat it once with new ones; an error: tell
   * it to the client.
   */
  async refused(
    server: ServerIdentity,
    caller: Caller,
    answer: { readonly status: number; readonly wwwAuthenticate: string | undefined },
  ): Promise<'retry' | GatewayError> {
    try {
      const challenge = readChallenge(answer.wwwAuthenticate);
      const source = this.#source(server, caller);
      if (source === undefined)
        return server.authType === 'oauth_auto'
          ? this.#accounts.pages.missing(server, caller)
          : refusal(server, answer.status, challenge);
      if (source.account !== undefined)
        return await this.#refusedUser(server, caller, source, { ...challenge, status: answer.status });
      return await this.#refusedToken(server, source, { ...challenge, status: answer.status });
    } catch (error) {
      if (GatewayError.is(error)) return error;
      throw error;
    }
  }

  async #refusedToken(
    server: ServerIdentity,
    source: TokenSource,
    { status, ...challenge }: Challenge & { readonly status: number },
  ): Promise<'retry' | GatewayError> {
    const { key, binding } = source;
    const held = this.#tokens.held(key, binding);
    if (status === 403) {
      const scope = joinedScopes(held?.scope, challenge.scope);
      const isWider = challenge.error === 'insufficient_scope' && scope !== (held?.scope ?? '');
      if (!isWider) return refusal(server, status, challenge);
      await this.#tokens.renew(key, binding, () => source.fetch({ ...challenge, scope }));
      return 'retry';
    }
    const next = this.#tokens.afterRefusal(held);
    if (next === 'give-up') return refusal(server, status, challenge);
    if (next === 'renew') await this.#tokens.renew(key, binding, () => source.fetch(challenge));
    return 'retry';
  }

  async #refusedUser(
    server: ServerIdentity,
    caller: Caller,
    source: TokenSource,
    { status, ...challenge }: Challenge & { readonly status: number },
  ): Promise<'retry' | GatewayError> {
    const { key, binding } = source;
    const { pages } = this.#accounts;
    const held = this.#tokens.held(key, binding);
    if (held === undefined || held.headers.length === 0) {
      // A server that lets strangers in has other reasons for a 403 than a token that is missing.
      if (status === 403 && challenge.error === undefined && challenge.metadata === undefined)
        return refusal(server, status, challenge);
      return pages.missing(server, caller, challenge);
    }
    if (status === 403) {
      const scope = joinedScopes(held.scope, challenge.scope);
      const isWider = challenge.error === 'insufficient_scope' && scope !== held.scope;
      return isWider
        ? pages.missing(server, caller, { ...challenge, scope })
        : refusal(server, status, challenge);
    }
    const next = this.#tokens.afterRefusal(held);
    if (next === 'give-up') return pages.missing(server, caller, challenge);
    if (next === 'retry') return next;
    const renewed = await this.#tokens.renew(key, binding, () => source.fetch(challenge));
    return renewed.headers.length === 0 ? pages.missing(server, caller, challenge) : 'retry';
  }

  #source(server: ServerIdentity, caller: Caller): TokenSource | undefined {
    const { authType, oauth } = server;
    if (!takesTokens(server)) return undefined;
    if (oauth.token_exchange !== undefined) {
      const token = caller.request.get(callerToken);
      if (token !== undefined) return this.#exchanged(server, token);
      if (oauth.token_exchange === 'required')
        throw new GatewayError(
          'mcp_connection_missing',
          `The MCP server "${server.slug}" is for callers with a token of the organisation's identity provider. Come with one in place of a service key.`,
        );
    }
    if (authType === 'oauth_client_credentials') return this.#own(server);
    const { organisationId, userId } = caller.key;
    return userId === '' ? undefined : this.#ofUser({ server, organisationId, userId });
  }

  /** Of the user's own account; without one the server is asked without a token, and says what it wants. */
  #ofUser(account: Account): TokenSource {
    const { clock } = this.#scope;
    const place = { key: accountKey(account), binding: bindingOf(account.server) };
    return {
      ...place,
      account,
      fetch: async (challenge) => {
        const before = this.#tokens.held(place.key, place.binding);
        const [, sent = ''] = before?.headers ?? [];
        const refused = challenge === undefined ? undefined : sent.slice(bearer.length);
        const token = await this.#accounts.connections.token(account, refused);
        const now = clock.now();
        if (token === undefined)
          return {
            ...{ binding: place.binding, headers: [], scope: '', isReplacement: false },
            ...{ obtainedAt: now, freshUntil: now + absentMs },
          };
        const header = bearer + token.accessToken;
        return {
          binding: place.binding,
          headers: ['authorization', header],
          freshUntil: Math.min(freshUntil(token.obtainedAt, token.expiresAt), now + lookMs),
          obtainedAt: token.obtainedAt,
          scope: token.scope,
          isReplacement: sent === header ? (before?.isReplacement ?? false) : sent !== '',
        };
      },
    };
  }

  /** Of the gateway itself; all callers share it. */
  #own(server: ServerIdentity): TokenSource {
    const { mcp } = this.#scope;
    const place = placeOf(server, server.id);
    return {
      ...place,
      fetch: async (challenge) => {
        const { url, oauth: settings } = server;
        const asked = this.#asked(place, challenge);
        const secret = await server.oauthSecret();
        return this.#hold(place, await clientCredentials(mcp.oauth, { url, settings }, secret, asked));
      },
    };
  }

  /** Of the caller, for the token that they came with (RFC 8693). */
  #exchanged(server: ServerIdentity, subject: CallerToken): TokenSource {
    const { mcp } = this.#scope;
    const place = placeOf(server, `${server.id} ${sha256(subject.text, 'base64url')}`);
    return {
      ...place,
      fetch: async (challenge) => {
        const { url, oauth: settings } = server;
        const asked = this.#asked(place, challenge);
        const secret = await server.oauthSecret();
        const tokens = await exchangedToken(mcp.oauth, { url, settings }, secret, {
          ...asked,
          subject: subject.text,
        });
        const expiresAt = Math.min(tokens.expiresAt ?? subject.expiresAt, subject.expiresAt);
        return this.#hold(place, { ...tokens, expiresAt });
      },
    };
  }

  /** A token that once needed more scopes than the settings have is renewed with them. */
  #asked({ key, binding }: TokenPlace, challenge: Challenge | undefined): AskedToken {
    const scope = joinedScopes(this.#tokens.held(key, binding)?.scope, challenge?.scope);
    const metadata = challenge?.metadata;
    return { ...(scope !== '' && { scope }), ...(metadata !== undefined && { challenge: metadata }) };
  }

  #hold({ key, binding }: TokenPlace, tokens: OauthTokens & { readonly scope: string }): HeldToken {
    const now = this.#scope.clock.now();
    return {
      binding,
      headers: ['authorization', `Bearer ${tokens.accessToken}`],
      freshUntil: freshUntil(now, tokens.expiresAt),
      obtainedAt: now,
      scope: tokens.scope,
      isReplacement: this.#tokens.held(key, binding) !== undefined,
    };
  }
}

const bearer = 'Bearer ';

function accountKey({ server, organisationId, userId }: Account): string {
  return JSON.stringify([server.id, organisationId, userId]);
}

/** Other scopes in the settings make another token. */
function placeOf(server: ServerIdentity, key: string): TokenPlace {
  return { key, binding: `${bindingOf(server)} ${server.oauth.scope ?? ''}` };
}

function refusal({ slug }: ServerIdentity, status: number, { error }: Challenge): GatewayError {
  const reason = error !== undefined && /^[a-z_]{1,40}$/.test(error) ? `: ${error}` : '';
  return new GatewayError(
    'credentials_failed',
    `The MCP server "${slug}" refuses the credentials of the request (HTTP ${status}${reason}). Check its settings, and what its account may do there.`,
    { extra: { status } },
  );
}

const noHeaders: HeaderList = [];
const longestClaim = 4096;

/**
 * Headers that tell the server who calls, of claims that `auth` has verified; none for callers with a service key. Throws
 * `token_invalid` when a claim is too long for a header.
 */
function identityHeaders({ identityHeaders: wanted }: ServerIdentity, { request }: Caller): HeaderList {
  const token = request.get(callerToken);
  if (token === undefined) return noHeaders;
  const headers: string[] = [];
  for (const [name, claim] of Object.entries(wanted)) {
    const value = Object.hasOwn(token.claims, claim) ? claimText(token.claims[claim]) : '';
    if (value.length > longestClaim)
      throw new GatewayError(
        'token_invalid',
        `The token has a claim "${claim}" that is too long for the header ${name}: at most ${longestClaim} bytes.`,
      );
    if (value !== '') headers.push(name, value);
  }
  return headers;
}

/**
 * A claim as a header: a list has commas between its texts. Characters that a header cannot hold, `%`, and commas within a list
 * are percent-encoded, so that no claim looks like another one.
 */
function claimText(claim: unknown): string {
  if (typeof claim === 'string') return encodedClaim(claim, /[^\x20-\x24\x26-\x7e]+/g);
  if (typeof claim === 'number' || typeof claim === 'boolean') return String(claim);
  if (!Array.isArray(claim)) return '';
  return claim
    .filter((one): one is string => typeof one === 'string')
    .map((one) => encodedClaim(one, /[^\x20-\x24\x26-\x2b\x2d-\x7e]+/g))
    .join(',');
}

function encodedClaim(text: string, closed: RegExp): string {
  return text
    .trim()
    .replace(/\p{Surrogate}/gu, '\ufffd')
    .replace(closed, (part) => encodeURIComponent(part));
}
