import type { BrowserSession, BrowserSessions } from '../../core/access/browser-session.ts';
import { isEqual } from '../../core/base/bytes.ts';
import { cookieName, maxCookie, setCookie } from '../../core/base/cookies.ts';
import { oauthClientOf } from '../../core/organisation/mcp-oauth.ts';
import { cookieOf, redirect, Stopped } from '../../core/pipeline/browser.ts';
import {
  type Answer,
  GatewayError,
  type RequestContext,
  type Scope,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import { randomName } from '../../core/base/envelope.ts';
import { Seals } from '../../core/pipeline/seals.ts';
import {
  isSameIssuer,
  type OauthClient,
  type OauthServer,
  type OauthTokens,
} from '../../core/ports/oauth.ts';

const strict = { additionalProperties: false };

const SignInSchema = Type.Object(
  {
    issuer: Type.String({
      pattern: '^https?://[^\\s?#@]+$',
      maxLength: 2048,
      description:
        'Issuer of the identity provider. `jwt` of the plugin `auth` verifies its tokens and maps them to scopes. A provider in a private network needs its host in `security.trusted_hosts`.',
    }),
    client_id: Type.String({
      minLength: 1,
      maxLength: 1024,
      description: 'Client of the console there, with the redirect URI `/console/callback` of this gateway.',
    }),
    client_secret: Type.Optional(
      Type.String({ minLength: 1, maxLength: 8192, description: 'Its secret. Default: a public client.' }),
    ),
    scope: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        default: 'openid',
        description:
          'Scopes to ask for, with spaces between them. With `offline_access` the session goes on when an access token ends.',
      }),
    ),
    resource: Type.Optional(
      Type.String({
        maxLength: 2048,
        description:
          '`resource` of the requests (RFC 8707), for providers that make their access tokens a JSON Web Token only for a named resource.',
      }),
    ),
    parameters: Type.Optional(
      Type.Record(Type.String({ pattern: '^[A-Za-z0-9_]{1,64}$' }), Type.String({ maxLength: 1024 }), {
        maxProperties: 20,
        description: 'Further parameters of the authorization request: `{ audience: "https://…" }`.',
      }),
    ),
    label: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 60,
        default: 'Single sign-on',
        description: 'Text of the button.',
      }),
    ),
    session_hours: Type.Optional(
      Type.Number({
        minimum: 0.1,
        maximum: 720,
        default: 12,
        description: 'Hours until the user has to sign in again, however often the session was renewed.',
      }),
    ),
    end_session: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'Signing out ends the session at the provider as well, where it names an `end_session_endpoint`. The client there needs the post-logout redirect URI `/console` of this gateway.',
      }),
    ),
  },
  { ...strict, description: "Sign-in at the organisation's identity provider, besides keys." },
);

/** Options of the plugin `console`. */
export const OptionsSchema = Type.Object(
  {
    sign_in: Type.Optional(SignInSchema),
    session_hours: Type.Optional(
      Type.Number({
        minimum: 0.1,
        maximum: 720,
        default: 12,
        description: 'Hours until a browser that signed in with a key has to sign in again.',
      }),
    ),
  },
  strict,
);

type SignInOptions = Static<typeof SignInSchema>;

/** Time for the whole walk, milliseconds. */
const walkMs = 600_000;
/** Age in milliseconds from which the provider's metadata is read again. */
const metadataMs = 600_000;
const maxCode = 4_096;
const stateCookie = 'console-sign-in';
const keptCookie = 'console-refresh';
const callbackPath = '/console/callback';
/** To here the provider sends a browser whose session it has ended. `/console/sign-in` would lead back at once. */
const signedOutPath = '/console';
/** Longest wait of a sign-out for the provider's metadata: the session here ends with the answer. */
const leaveMs = 2_000;

/** A browser that has left for the identity provider. */
const Left = Type.Object({
  state: Type.String(),
  verifier: Type.String(),
  redirectUri: Type.String(),
  /** The provider names itself when it sends the browser back. */
  namesIssuer: Type.Boolean(),
  /** Place in the console to which it comes back. */
  place: Type.String(),
});
/** What a browser keeps of a session that the provider made. */
const Kept = Type.Object({
  issuer: Type.String(),
  /** Refresh token; empty for none. */
  token: Type.String(),
  /** End of the session, milliseconds since the epoch. No renewal moves it. */
  until: Type.Number(),
});

/** Where a browser goes that signs out. */
interface Leaving {
  /** Page of the provider that ends its session too; undefined: nowhere. */
  readonly next?: string;
  /** There would be one, and the provider does not say it now. */
  readonly provider_away?: true;
}

/**
 * Sign-in at the organisation's identity provider: authorization code with PKCE. Nothing is kept in the gateway: a sealed
 * cookie says that the browser which comes back is the one that left, and another one keeps the refresh token.
 *
 * The ID token is not kept, so signing out sends the provider no `id_token_hint` but the `client_id`, with which OpenID
 * Connect RP-Initiated Logout 1.0 does as well; the provider then asks the user. As a hint the token would stand in an
 * address, in the history of the browser and in logs; and where `jwt` of `auth` names no audience it is a credential of
 * this gateway. It would be one more cookie of kilobytes with each request, too. There is no `state` (optional): whoever
 * comes back gets the page that everybody gets, so nothing depends on where they come from.
 */
export class SignIn {
  readonly #options: SignInOptions;
  readonly #scope: Pick<Scope, 'mcp' | 'clock' | 'log' | 'setTimeout'>;
  readonly #seals: Seals;
  readonly #sessions: BrowserSessions;
  #known: { readonly server: OauthServer; readonly readAt: number } | undefined;
  #reading: Promise<OauthServer> | undefined;
  /** Renewals that run, by refresh token. */
  readonly #renewals = new Map<string, Promise<OauthTokens>>();

  constructor(options: SignInOptions, scope: Scope, sessions: BrowserSessions) {
    this.#options = options;
    this.#scope = scope;
    this.#seals = new Seals(scope, 'console');
    this.#sessions = sessions;
  }

  /** Leads the browser to the provider. */
  async begin(context: RequestContext, origin: string): Promise<Answer> {
    const { client_id: clientId, scope, parameters = {} } = this.#options;
    const redirectUri = origin + callbackPath;
    const server = await this.#server();
    const asked = { clientId, redirectUri, scope: scope ?? 'openid', resource: this.#options.resource };
    const { url, verifier } = await this.#scope.mcp.oauth.authorize(server, asked).catch((error: unknown) => {
      throw this.#unusable('lets nobody sign in', error);
    });
    for (const [name, value] of Object.entries(parameters)) {
      if (!url.searchParams.has(name)) url.searchParams.set(name, value);
    }
    const state = randomName();
    url.searchParams.set('state', state);
    const { namesIssuer } = server;
    const left: Static<typeof Left> = { state, verifier, redirectUri, namesIssuer, place: placeOf(context) };
    const sealed = this.#seals.seal('state', left, walkMs);
    return redirect(url, cookie(origin, stateCookie, sealed, { sameSite: 'Lax', lifetimeMs: walkMs }));
  }

  /** The browser comes back with a code: its session begins. */
  async end(context: RequestContext, origin: string): Promise<Answer> {
    const query = new URLSearchParams(context.query);
    const sealed = cookieOf(context, cookieName(origin, stateCookie));
    const opened = this.#seals.open('state', sealed, Left);
    const left = opened?.value;
    const isSame = left !== undefined && isEqual(left.state, query.get('state') ?? '');
    if (left === undefined || !isSame || left.redirectUri !== origin + callbackPath)
      throw new Stopped(400, 'This sign-in was begun in another browser, or too long ago. Begin again.');
    // Another server's answer must not be taken for that of this one (RFC 9207).
    const named = query.get('iss');
    if (named === null ? left.namesIssuer : !isSameIssuer(named, this.#options.issuer))
      throw new Stopped(400, 'The answer came from another identity provider than the one that was asked.');
    const refused = query.get('error');
    if (refused !== null)
      throw new Stopped(
        403,
        `The identity provider refused the sign-in (${refused.replace(/[^\w.-]/g, '').slice(0, 64)}).`,
      );
    const code = query.get('code') ?? '';
    if (code === '' || code.length > maxCode)
      throw new Stopped(400, 'The identity provider sent no code. Begin again.');
    if (!(await this.#seals.spend(opened?.id ?? '')))
      throw new Stopped(400, 'This sign-in has been used already. Begin again.');
    const { redirectUri, verifier } = left;
    const grant = {
      grant_type: 'authorization_code',
      code,
      redirect_uri: redirectUri,
      code_verifier: verifier,
    };
    const tokens = await this.#tokens(grant);
    const { session_hours: hours = 12 } = this.#options;
    const { headers } = this.#begun(tokens, origin, this.#scope.clock.now() + hours * 3_600_000);
    const ended = cookie(origin, stateCookie, '', { sameSite: 'Lax', lifetimeMs: 0 });
    return redirect(new URL(left.place, `${origin}/`), [...headers, ...ended]);
  }

  /** A new session from the refresh token of the browser; undefined when it has none, or it is refused. */
  async renew(
    context: RequestContext,
    origin: string,
  ): Promise<{ readonly headers: readonly string[]; readonly session: BrowserSession } | undefined> {
    const kept = this.#kept(context, origin);
    if (kept === undefined || kept.token === '') return undefined;
    const { token, until } = kept;
    // Two pages that ask at once share the renewal: a provider may take a second use of the token for a theft.
    let renewal = this.#renewals.get(token);
    if (renewal === undefined) {
      const forget = (): void => void this.#renewals.delete(token);
      renewal = this.#tokens({ grant_type: 'refresh_token', refresh_token: token }).finally(forget);
      this.#renewals.set(token, renewal);
    }
    try {
      const tokens = await renewal;
      return this.#begun({ ...tokens, refreshToken: tokens.refreshToken || token }, origin, until);
    } catch {
      return undefined;
    }
  }

  /**
   * Where a browser goes whose session ends. Nowhere for one that signed in with a key. Never rejects; the refresh token
   * is revoked meanwhile.
   */
  async leave(context: RequestContext, origin: string): Promise<Leaving> {
    const kept = this.#kept(context, origin);
    if (kept === undefined) return {};
    if (kept.token !== '') void this.#revoke(kept.token);
    if (this.#options.end_session === false) return {};
    const server = await this.#soon(this.#server());
    if (server === undefined) return { provider_away: true };
    if (server.endSessionEndpoint === undefined) return {};
    const url = new URL(server.endSessionEndpoint);
    url.hash = '';
    url.searchParams.set('client_id', this.#options.client_id);
    url.searchParams.set('post_logout_redirect_uri', origin + signedOutPath);
    return { next: url.href };
  }

  /** The headers that remove what sign-in left in the browser. */
  over(origin: string): readonly string[] {
    return cookie(origin, keptCookie, '', { sameSite: 'Strict', lifetimeMs: 0 });
  }

  /** What this browser keeps of a session of this provider; undefined for none, and for one that is over. */
  #kept(context: RequestContext, origin: string): Static<typeof Kept> | undefined {
    const kept = this.#seals.open('refresh', cookieOf(context, cookieName(origin, keptCookie)), Kept)?.value;
    const isOver = kept === undefined || this.#scope.clock.now() >= kept.until;
    return isOver || kept.issuer !== this.#options.issuer ? undefined : kept;
  }

  #begun(tokens: OauthTokens, origin: string, until: number) {
    const now = this.#scope.clock.now();
    const longest = until - now;
    const lifetimeMs = Math.min(longest, Math.max(0, (tokens.expiresAt ?? until) - now));
    const { headers, session } = this.#sessions.begin(tokens.accessToken, origin, lifetimeMs);
    const seal = (token: string): string =>
      this.#seals.seal('refresh', { issuer: this.#options.issuer, token, until });
    const whole = seal(tokens.refreshToken);
    // A refresh token that does not fit is not kept: the user signs in again when the access token ends.
    const sealed = whole.length <= maxCookie ? whole : seal('');
    const kept = cookie(origin, keptCookie, sealed, { sameSite: 'Strict', lifetimeMs: longest });
    return { headers: [...headers, ...kept], session };
  }

  /** Undefined when it fails, or takes too long. */
  async #soon<T>(work: Promise<T>): Promise<T | undefined> {
    let cancel: (() => void) | undefined;
    const late = new Promise<undefined>((resolve) => {
      cancel = this.#scope.setTimeout(() => resolve(undefined), leaveMs);
    });
    try {
      return await Promise.race([work, late]);
    } catch {
      return undefined;
    } finally {
      cancel?.();
    }
  }

  /** A copy of the cookie is worth nothing afterwards. Never rejects. */
  async #revoke(token: string): Promise<void> {
    try {
      const server = await this.#server();
      const { issuer, revocationEndpoint } = server;
      if (revocationEndpoint === undefined) return;
      await this.#scope.mcp.oauth.revoke({ issuer, revocationEndpoint }, this.#proof(server), token);
    } catch (error) {
      this.#scope.log.warn('The identity provider of the console does not revoke a refresh token', { error });
    }
  }

  #proof({ methods }: OauthServer): OauthClient {
    const { client_id, client_secret } = this.#options;
    const secret =
      client_secret === undefined ? undefined : { name: 'client_secret' as const, value: client_secret };
    return oauthClientOf({ client_id }, secret, methods);
  }

  async #tokens(grant: Readonly<Record<string, string>>): Promise<OauthTokens> {
    const { resource } = this.#options;
    const server = await this.#server();
    const whole = { ...grant, ...(resource !== undefined && { resource }) };
    return this.#scope.mcp.oauth.token(server, this.#proof(server), whole).catch((error: unknown) => {
      throw this.#unusable('gives no token', error);
    });
  }

  /** Read once for all who ask meanwhile: anybody may begin a sign-in, and each reading is several requests. */
  async #server(): Promise<OauthServer> {
    const now = this.#scope.clock.now();
    if (this.#known !== undefined && now - this.#known.readAt < metadataMs) return this.#known.server;
    this.#reading ??= this.#read(now).finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #read(now: number): Promise<OauthServer> {
    const { issuer } = this.#options;
    const found = await this.#scope.mcp.oauth.discover({ url: issuer, issuer }).catch((error: unknown) => {
      throw this.#unusable('does not describe itself', error);
    });
    this.#known = { server: found.server, readAt: now };
    return found.server;
  }

  #unusable(what: string, error: unknown): Stopped {
    this.#scope.log.warn(`The identity provider of the console ${what}`, { error });
    const reason = GatewayError.is(error) ? ` ${error.message}` : '';
    return new Stopped(
      502,
      `The identity provider ${what}.${reason} Sign in with a key, or tell the operator.`,
    );
  }
}

/** Where the browser goes afterwards: a place in the console. */
function placeOf({ query }: RequestContext): string {
  const place = new URLSearchParams(query).get('to') ?? '';
  const isPlace = /^\/console(?:\/[\w./?&=%+,:~@*!'()-]{0,500})?$/.test(place) && !place.includes('//');
  // Browsers resolve `..`, also where it is escaped.
  return isPlace && /^\/console(?:\/|$)/.test(new URL(place, 'http://localhost').pathname)
    ? place
    : '/console';
}

function cookie(
  origin: string,
  name: string,
  value: string,
  how: { readonly sameSite: 'Lax' | 'Strict'; readonly lifetimeMs: number },
): readonly string[] {
  return setCookie({ origin, name: cookieName(origin, name), value, ...how });
}
