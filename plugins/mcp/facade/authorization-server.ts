import { createHash } from 'node:crypto';
import { type Static, Type } from 'typebox';
import { sha256 } from '../../../core/base/bytes.ts';
import type { Answer, RequestContext, Scope } from '../../../core/pipeline/plugin.ts';
import type { OauthTokens } from '../../../core/ports/oauth.ts';
import { Clients, isRegistered, placeOf } from './clients.ts';
import { cookieName, setCookie } from '../../../core/base/cookies.ts';
import { cookieOf, isOwnForm, redirect, shortBody, Stopped } from '../../../core/pipeline/browser.ts';
import type { AuthorizationClientOptions, AuthorizationOptions } from '../options.ts';
import { mcpPages } from '../pages.ts';
import { randomName } from '../../../core/base/envelope.ts';
import { Seals } from '../../../core/pipeline/seals.ts';
import { OauthRefusal, OrganisationProvider } from './organisation-provider.ts';

/** Lifetimes in milliseconds. */
const consentMs = 600_000;
const codeMs = 120_000;

const cookie = 'sign-in';
const notOn = 'This does not go on';
const maxState = 1024;
const maxProviderCode = 4096;

const Sha = Type.String({ pattern: '^[\\w-]{43}$' });
const Text = Type.String();

/** An authorization that a client asks for. */
const Asked = Type.Object({
  /** Digest of the client's id. */
  client: Text,
  redirectUri: Text,
  state: Type.Optional(Text),
  challenge: Sha,
  scope: Text,
  resource: Type.Optional(Text),
  prompt: Type.Optional(Text),
  /** The browser that asks. */
  browser: Text,
});
const Pending = Type.Object({ ...Asked.properties, verifier: Text });
const Granted = Type.Object({
  ...Type.Pick(Asked, ['client', 'redirectUri', 'challenge', 'resource']).properties,
  verifier: Text,
  code: Text,
});
const Renewal = Type.Object({ client: Text, token: Text, resource: Type.Optional(Text) });
const BrowserName = Type.Object({ browser: Text });

/**
 * An authorization server in front of an identity provider that registers no clients: every MCP client is one and the
 * same client there. It gives out tokens of the provider alone, and remembers nothing: what it has to know again is sealed
 * into what it gives out. A page asks the user before each sign-in, because the provider cannot tell the clients apart.
 */
export class AuthorizationServer {
  readonly #options: AuthorizationOptions;
  readonly #client: AuthorizationClientOptions;
  readonly #scopes: readonly string[];
  readonly #clock: Scope['clock'];
  readonly #provider: OrganisationProvider;
  readonly #seals: Seals;
  readonly #clients: Clients;

  constructor(options: AuthorizationOptions, client: AuthorizationClientOptions, scope: Scope) {
    this.#options = options;
    this.#client = client;
    this.#clock = scope.clock;
    this.#provider = new OrganisationProvider(options.issuer, client, scope);
    this.#scopes = options.scopes ?? ['mcp.invoke'];
    this.#seals = new Seals(scope, sha256(JSON.stringify([options.issuer, client.client_id]), 'base64url'));
    this.#clients = new Clients(this.#seals, scope, {
      allowed: client.redirect_uris ?? [],
      documentHosts: client.document_hosts ?? [],
    });
  }

  /** Whether the path, below the base path, is one of its endpoints. */
  static serves(path: string): boolean {
    return /^\/mcp\/oauth\/(?:authorize|callback|register|token)$/.test(path);
  }

  /** Its metadata (RFC 8414). */
  metadata(origin: string): object {
    return {
      issuer: origin,
      authorization_endpoint: `${origin}/mcp/oauth/authorize`,
      token_endpoint: `${origin}/mcp/oauth/token`,
      registration_endpoint: `${origin}/mcp/oauth/register`,
      scopes_supported: this.#scopes,
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_methods_supported: ['none'],
      code_challenge_methods_supported: ['S256'],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: this.#clients.readsDocuments,
    };
  }

  /** Answers a request for one of its endpoints. `origin`: the public one of the gateway. */
  async answer(context: RequestContext, origin: string): Promise<Answer> {
    const asked = `${context.method} ${context.path.slice('/mcp/oauth/'.length)}`;
    try {
      switch (asked) {
        case 'GET authorize':
          return await this.#askUser(context, origin);
        case 'POST authorize':
          return await this.#decide(context, origin);
        case 'GET callback':
          return await this.#comeBack(context, origin);
        case 'POST register':
          return await this.#register(context);
        case 'POST token':
          return await this.#token(context, origin);
        default:
          return oauthError(new OauthRefusal('invalid_request', 'This address takes another method.', 405));
      }
    } catch (error) {
      if (error instanceof Stopped) return mcpPages.end(error.status, notOn, error.message);
      if (error instanceof OauthRefusal) return oauthError(error);
      throw error;
    }
  }

  async #register(context: RequestContext): Promise<Answer> {
    const body = await bodyOf(context);
    let metadata: unknown;
    try {
      metadata = JSON.parse(body);
    } catch {
      throw new OauthRefusal('invalid_client_metadata', 'The body is no JSON.');
    }
    const made = this.#clients.register(metadata);
    if ('error' in made) throw new OauthRefusal(made.error, made.why);
    return jsonAnswer(201, made.client);
  }

  /** Shows the page that asks the user. Nothing is sent to a redirect URI before the user has agreed. */
  async #askUser(context: RequestContext, origin: string): Promise<Answer> {
    const given = new Parameters(context.query, (why) => new Stopped(400, why));
    const clientId = given.need('client_id');
    const redirectUri = given.need('redirect_uri');
    const client = await this.#clients.find(clientId);
    if (client === undefined)
      throw new Stopped(
        400,
        'The application is not known here, or not any more. Remove its connection to this server, and connect it anew.',
      );
    if (!isRegistered(client.redirectUris, redirectUri))
      throw new Stopped(
        400,
        'The application asks to be answered at an address that it has not registered (redirect_uri).',
      );
    if (given.need('response_type') !== 'code')
      throw new Stopped(400, 'The application asks for something other than a code (response_type).');
    const challenge = given.need('code_challenge');
    if (given.take('code_challenge_method') !== 'S256' || !/^[\w-]{43}$/.test(challenge))
      throw new Stopped(400, 'The application does not use PKCE with S256 (code_challenge_method).');
    const state = given.take('state');
    if (state !== undefined && (state.length > maxState || !/^[\x20-\x7e]*$/.test(state)))
      throw new Stopped(400, `The application sends a state that is no ASCII, or longer than ${maxState}.`);
    const resource = given.take('resource');
    if (resource !== undefined && !isOwn(resource, origin))
      throw new Stopped(400, 'The application asks for access to a server that is not here (resource).');
    const prompt = given.take('prompt');
    const scopes = this.#grantable(given.take('scope'));
    const browser = this.#browserOf(context, origin) ?? randomName();
    const asked: Static<typeof Asked> = {
      client: digest(clientId),
      redirectUri,
      ...(state !== undefined && { state }),
      challenge,
      scope: [...new Set([...scopes, ...(this.#client.scopes ?? [])])].join(' '),
      ...(resource !== undefined && { resource }),
      ...(prompt !== undefined && /^(?:login|consent|select_account)$/.test(prompt) && { prompt }),
      browser,
    };
    return mcpPages.consent(
      {
        name: client.name,
        host: client.host,
        place: placeOf(redirectUri),
        resourceName: this.#options.resource_name ?? 'MCP servers',
        resource: resource ?? origin,
        scopes,
        action: `${origin}/mcp/oauth/authorize`,
        request: this.#seals.seal('consent', asked, consentMs),
      },
      setCookie({
        ...{ origin, name: cookieName(origin, `mcp-${cookie}`) },
        value: this.#seals.seal('browser', { browser }, consentMs),
        // Sent when the provider leads back to the gateway, and not with forms of other sites.
        ...{ sameSite: 'Lax', lifetimeMs: consentMs },
      }),
    );
  }

  /** The user has decided: on to the identity provider, or back to the application. */
  async #decide(context: RequestContext, origin: string): Promise<Answer> {
    const given = new Parameters(await bodyOf(context), (why) => new Stopped(400, why));
    const asked = this.#seals.open('consent', given.take('request'), Asked)?.value;
    if (asked === undefined || asked.browser !== this.#browserOf(context, origin)) throw strangeRequest();
    if (!isOwnForm(context, origin)) throw strangeRequest();
    const decision = given.take('decision');
    if (decision === 'deny') return backTo(asked, origin, { error: 'access_denied' });
    if (decision !== 'allow') throw new Stopped(400, 'Decide with one of the buttons.');
    const { scope, resource, prompt } = asked;
    const redirectUri = callbackOf(origin);
    const { url, verifier } = await this.#provider.authorize({ redirectUri, scope, resource }, prompt);
    const pending: Static<typeof Pending> = { ...asked, verifier };
    url.searchParams.set('state', this.#seals.seal('state', pending, consentMs));
    return redirect(url);
  }

  /** The identity provider sends the user back: on to the application, with a code of our own. */
  async #comeBack(context: RequestContext, origin: string): Promise<Answer> {
    const given = new Parameters(context.query, (why) => new Stopped(400, why));
    const opened = this.#seals.open('state', given.take('state'), Pending);
    if (opened === undefined || opened.value.browser !== this.#browserOf(context, origin))
      throw strangeRequest();
    const pending = opened.value;
    const server = await this.#provider.server();
    const issuer = given.take('iss');
    if (issuer === undefined ? server.namesIssuer : issuer !== server.issuer)
      throw new Stopped(400, 'The answer does not come from the identity provider that was asked (iss).');
    if (!(await this.#seals.spend(opened.id))) throw strangeRequest();
    const error = given.take('error');
    if (error !== undefined) return backTo(pending, origin, { error: shownError(error) });
    const code = given.take('code');
    if (code === undefined || code.length > maxProviderCode)
      throw new Stopped(502, 'The identity provider sent no code.');
    const { client, redirectUri, challenge, resource, verifier } = pending;
    const granted: Static<typeof Granted> = {
      client,
      redirectUri,
      challenge,
      ...(resource !== undefined && { resource }),
      verifier,
      code,
    };
    return backTo(pending, origin, { code: this.#seals.seal('code', granted, codeMs) });
  }

  async #token(context: RequestContext, origin: string): Promise<Answer> {
    const given = new Parameters(await bodyOf(context), (why) => new OauthRefusal('invalid_request', why));
    const clientId = given.need('client_id');
    if ((await this.#clients.find(clientId)) === undefined)
      throw new OauthRefusal('invalid_client', 'The client is not known here. Register again.', 401);
    const client = digest(clientId);
    switch (given.need('grant_type')) {
      case 'authorization_code':
        return await this.#exchange(given, client, origin);
      case 'refresh_token':
        return await this.#renew(given, client);
      default:
        throw new OauthRefusal('unsupported_grant_type', 'Use authorization_code or refresh_token.');
    }
  }

  async #exchange(given: Parameters, client: string, origin: string): Promise<Answer> {
    const opened = this.#seals.open('code', given.need('code'), Granted);
    const verifier = given.need('code_verifier');
    const granted = opened?.value;
    if (
      opened === undefined ||
      granted?.client !== client ||
      granted.redirectUri !== given.take('redirect_uri') ||
      granted.challenge !== createHash('sha256').update(verifier).digest('base64url') ||
      !(await this.#seals.spend(opened.id))
    )
      throw new OauthRefusal(
        'invalid_grant',
        'The code is used or too old, or client, redirect_uri or code_verifier are not those that it was given for. Begin again.',
      );
    const resource = sameResource(given.take('resource'), granted.resource);
    const grant = {
      grant_type: 'authorization_code',
      code: granted.code,
      redirect_uri: callbackOf(origin),
      code_verifier: granted.verifier,
    };
    const tokens = await this.#provider.tokens(grant, resource);
    return this.#give(tokens, client, resource, '');
  }

  async #renew(given: Parameters, client: string): Promise<Answer> {
    const renewal = this.#seals.open('refresh', given.need('refresh_token'), Renewal)?.value;
    if (renewal?.client !== client)
      throw new OauthRefusal('invalid_grant', 'The refresh token is not of this client. Sign in again.');
    const resource = sameResource(given.take('resource'), renewal.resource);
    const scope = given.take('scope');
    const grant = {
      grant_type: 'refresh_token',
      refresh_token: renewal.token,
      ...(scope !== undefined && { scope }),
    };
    const tokens = await this.#provider.tokens(grant, resource);
    return this.#give(tokens, client, resource, renewal.token);
  }

  /** Tokens for the client. Its refresh token is sealed, so that no other client can use it, and not the provider. */
  #give(
    { accessToken, expiresAt, refreshToken, scope }: OauthTokens,
    client: string,
    resource: string | undefined,
    former: string,
  ): Answer {
    const token = refreshToken === '' ? former : refreshToken;
    const renewal: Static<typeof Renewal> = { client, token, ...(resource !== undefined && { resource }) };
    const left = expiresAt === undefined ? undefined : Math.floor((expiresAt - this.#clock.now()) / 1000);
    return jsonAnswer(200, {
      access_token: accessToken,
      token_type: 'Bearer',
      ...(left !== undefined && { expires_in: Math.max(0, left) }),
      ...(token !== '' && { refresh_token: this.#seals.seal('refresh', renewal) }),
      ...(scope !== undefined && { scope }),
    });
  }

  /** Those of the asked scopes that clients can have; all of them where none is asked for. */
  #grantable(asked: string | undefined): readonly string[] {
    const wanted = new Set(asked?.split(' '));
    const granted = this.#scopes.filter((scope) => wanted.has(scope));
    return granted.length === 0 ? this.#scopes : granted;
  }

  /** The name of the browser, from its cookie; undefined without a valid one. */
  #browserOf(context: RequestContext, origin: string): string | undefined {
    const sealed = cookieOf(context, cookieName(origin, `mcp-${cookie}`));
    return this.#seals.open('browser', sealed, BrowserName)?.value.browser;
  }
}

function digest(clientId: string): string {
  return sha256(clientId, 'base64url');
}

function callbackOf(origin: string): string {
  return `${origin}/mcp/oauth/callback`;
}

/** Whether the URL is one of this gateway. */
function isOwn(resource: string, origin: string): boolean {
  return (resource === origin || resource.startsWith(`${origin}/`)) && /^[\x21-\x7e]{1,512}$/.test(resource);
}

/** The resource that the code or token is for; the client cannot name another one now. */
function sameResource(asked: string | undefined, granted: string | undefined): string | undefined {
  if (asked === undefined || asked === granted) return granted;
  throw new OauthRefusal('invalid_target', 'The resource is not the one that the user was asked about.');
}

function strangeRequest(): Stopped {
  return new Stopped(
    400,
    'This sign-in was not begun in this browser, is over, or has taken too long. Begin again in the application.',
  );
}

/** Reasons of a provider that an application can do something about. */
const tellable =
  /^(?:access_denied|invalid_scope|invalid_target|temporarily_unavailable|(?:login|interaction|consent|account_selection)_required)$/;

function shownError(error: string): string {
  return tellable.test(error) ? error : 'server_error';
}

/** Back to the application, which has registered the redirect URI. */
function backTo(
  { redirectUri, state }: Pick<Static<typeof Asked>, 'redirectUri' | 'state'>,
  origin: string,
  members: Readonly<Record<string, string>>,
): Answer {
  const url = new URL(redirectUri);
  for (const [name, value] of Object.entries(members)) url.searchParams.set(name, value);
  if (state !== undefined) url.searchParams.set('state', state);
  url.searchParams.set('iss', origin);
  return redirect(url);
}

const maxBodyBytes = 32_768;

/** Lets pages of any origin use what has no cookies. */
const forPages = ['access-control-allow-origin', '*'];

/** Parameters of a query or a form: each once (RFC 6749, 3.1). */
class Parameters {
  readonly #given: URLSearchParams;
  readonly #refuse: (why: string) => Error;

  constructor(text: string, refuse: (why: string) => Error) {
    this.#given = new URLSearchParams(text);
    this.#refuse = refuse;
  }

  /** Undefined when it is missing or empty. */
  take(name: string): string | undefined {
    const [value, ...more] = this.#given.getAll(name);
    if (more.length > 0) throw this.#refuse(`The parameter ${name} is given more than once.`);
    return value === '' ? undefined : value;
  }

  need(name: string): string {
    const value = this.take(name);
    if (value === undefined) throw this.#refuse(`The parameter ${name} is missing.`);
    return value;
  }
}

/** The body as text. Throws an `OauthRefusal` for one that is too long. */
async function bodyOf(context: RequestContext): Promise<string> {
  const text = await shortBody(context, maxBodyBytes);
  if (text !== undefined) return text;
  throw new OauthRefusal(
    'invalid_request',
    `Send at most ${maxBodyBytes} bytes, with a Content-Length.`,
    413,
  );
}

function jsonAnswer(status: number, value: object): Answer {
  const headers = [...forPages, 'content-type', 'application/json', 'cache-control', 'no-store'];
  return { status, headers, body: Buffer.from(JSON.stringify(value)) };
}

function oauthError({ code, message, status }: OauthRefusal): Answer {
  return jsonAnswer(status, { error: code, error_description: message });
}
