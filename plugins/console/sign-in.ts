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
import type { OauthServer, OauthTokens } from '../../core/ports/oauth.ts';

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
      Type.Number({ minimum: 0.1, maximum: 720, default: 12, description: 'Longest session.' }),
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
const refreshCookie = 'console-refresh';
const callbackPath = '/console/callback';

/** A browser that has left for the identity provider. */
const Left = Type.Object({
  state: Type.String(),
  verifier: Type.String(),
  redirectUri: Type.String(),
  /** Place in the console to which it comes back. */
  place: Type.String(),
});
const Refresh = Type.Object({ token: Type.String() });

/**
 * Sign-in at the organisation's identity provider: authorization code with PKCE. Nothing is kept in the gateway: a sealed
 * cookie says that the browser which comes back is the one that left, and another one keeps the refresh token.
 */
export class SignIn {
  readonly #options: SignInOptions;
  readonly #scope: Pick<Scope, 'mcp' | 'clock' | 'log'>;
  readonly #seals: Seals;
  readonly #sessions: BrowserSessions;
  #known: { readonly server: OauthServer; readonly readAt: number } | undefined;

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
    const left: Static<typeof Left> = { state, verifier, redirectUri, place: placeOf(context) };
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
    const { headers } = this.#begun(tokens, origin);
    const ended = cookie(origin, stateCookie, '', { sameSite: 'Lax', lifetimeMs: 0 });
    return redirect(new URL(left.place, `${origin}/`), [...headers, ...ended]);
  }

  /** A new session from the refresh token of the browser; undefined when it has none, or it is refused. */
  async renew(
    context: RequestContext,
    origin: string,
  ): Promise<{ readonly headers: readonly string[]; readonly session: BrowserSession } | undefined> {
    const sealed = cookieOf(context, cookieName(origin, refreshCookie));
    const kept = this.#seals.open('refresh', sealed, Refresh);
    if (kept === undefined) return undefined;
    try {
      const tokens = await this.#tokens({ grant_type: 'refresh_token', refresh_token: kept.value.token });
      return this.#begun({ ...tokens, refreshToken: tokens.refreshToken || kept.value.token }, origin);
    } catch {
      return undefined;
    }
  }

  /** The headers that remove what sign-in left in the browser. */
  over(origin: string): readonly string[] {
    return cookie(origin, refreshCookie, '', { sameSite: 'Strict', lifetimeMs: 0 });
  }

  #begun(tokens: OauthTokens, origin: string) {
    const { session_hours: hours = 12 } = this.#options;
    const now = this.#scope.clock.now();
    const longest = hours * 3_600_000;
    const lifetimeMs = Math.min(longest, Math.max(0, (tokens.expiresAt ?? now + longest) - now));
    const { headers, session } = this.#sessions.begin(tokens.accessToken, origin, lifetimeMs);
    const sealed =
      tokens.refreshToken === '' ? '' : this.#seals.seal('refresh', { token: tokens.refreshToken });
    // A refresh token that does not fit is not kept: the user signs in again when the access token ends.
    const fits = sealed !== '' && sealed.length <= maxCookie;
    const kept = cookie(origin, refreshCookie, fits ? sealed : '', {
      sameSite: 'Strict',
      lifetimeMs: fits ? longest : 0,
    });
    return { headers: [...headers, ...kept], session };
  }

  async #tokens(grant: Readonly<Record<string, string>>): Promise<OauthTokens> {
    const { client_id, client_secret, resource } = this.#options;
    const server = await this.#server();
    const secret =
      client_secret === undefined ? undefined : { name: 'client_secret' as const, value: client_secret };
    const proof = oauthClientOf({ client_id }, secret, server.methods);
    const whole = { ...grant, ...(resource !== undefined && { resource }) };
    return this.#scope.mcp.oauth.token(server, proof, whole).catch((error: unknown) => {
      throw this.#unusable('gives no token', error);
    });
  }

  async #server(): Promise<OauthServer> {
    const now = this.#scope.clock.now();
    if (this.#known !== undefined && now - this.#known.readAt < metadataMs) return this.#known.server;
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
  return /^\/console(?:\/[\w./?&=%+,:~@*!'()-]{0,500})?$/.test(place) && !place.includes('//')
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
