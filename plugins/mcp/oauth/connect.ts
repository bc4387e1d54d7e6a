import { type Static, Type } from 'typebox';
import { canonicalPath } from '../../../core/dialects/match-endpoint.ts';
import { oauthClientOf } from '../../../core/organisation/mcp-oauth.ts';
import { authorizationServerOf, clientAt, useOf } from '../../../core/organisation/mcp-token.ts';
import { isPublicRequest } from '../../../core/pipeline/keys.ts';
import {
  type Answer,
  GatewayError,
  type MaybePromise,
  type RequestContext,
  type Scope,
} from '../../../core/pipeline/plugin.ts';
import type { OauthClient, OauthDiscovery } from '../../../core/ports/oauth.ts';
import { isEqual } from '../../../core/base/bytes.ts';
import { cookieName, maxCookie, setCookie } from '../../../core/base/cookies.ts';
import {
  cookieOf,
  isOwnForm,
  publicOrigin,
  redirect,
  shortBody,
  Stopped,
} from '../../../core/pipeline/browser.ts';
import { mcpPages } from '../pages.ts';
import { randomName } from '../../../core/base/envelope.ts';
import { Seals } from '../../../core/pipeline/seals.ts';
import type { Servers } from '../servers.ts';
import type { Account, Connections } from './connections.ts';
import {
  bindingOf,
  type Caller,
  type Challenge,
  joinedScopes,
  type ServerIdentity,
} from './server-identity.ts';

/** Time for the whole walk, milliseconds. */
const walkMs = 600_000;
const maxBodyBytes = 8_192;
const maxCode = 4_096;
const callbackPath = '/mcp/callback';
const servedPath = /^\/mcp\/(?:connect\/[\w.~:-]{1,8192}|callback)$/;

const Text = Type.String();
const Maybe = Type.Optional(Text);

/** The account that is to be connected, in a link. */
const Whose = Type.Object({
  ...{ organisation: Text, workspace: Text, user: Text, slug: Text, binding: Text },
  /** Name that the client has for this walk. */
  elicitation: Maybe,
});
const Ticket = Type.Object({
  ...Whose.properties,
  /** Of the server's challenge. */
  scope: Maybe,
  metadata: Maybe,
});
/** A browser that has been asked whether it goes on. */
const Browser = Type.Object({ ticket: Text, proof: Text });
/** A browser that has left for the authorization server. */
const State = Type.Object({
  ...Whose.properties,
  ticket: Text,
  state: Text,
  verifier: Text,
  redirectUri: Text,
  issuer: Text,
  namesIssuer: Type.Boolean(),
  tokenEndpoint: Text,
  revocationEndpoint: Text,
  clientId: Text,
  clientMethod: Text,
  isRegistered: Type.Boolean(),
  asked: Text,
  resource: Text,
  audience: Text,
});
type TicketOf = Static<typeof Ticket>;

/** Is told of a connection; `elicitation` is the name that the client has for the walk, if it knows of it. */
type Connected = (account: Account, elicitation: string | undefined) => void;

type ConnectScope = Pick<Scope, 'secrets' | 'clock' | 'counters' | 'publicUrl' | 'mcp' | 'log'>;

/**
 * Pages on which a user connects an account at an MCP server: `/mcp/connect/TICKET` asks, and leads to the server's
 * authorization server, from where the browser comes back to `/mcp/callback`. Nothing is kept between these steps: a sealed
 * link says whose account it is, and sealed cookies that the browser which begins is the one that ends.
 */
export class ConnectPages {
  readonly #scope: ConnectScope;
  readonly #seals: Seals;
  readonly #servers: Pick<Servers, 'find'>;
  readonly #connections: Connections;
  readonly #listeners: Connected[] = [];

  constructor(scope: ConnectScope, servers: Pick<Servers, 'find'>, connections: Connections) {
    this.#scope = scope;
    this.#seals = new Seals(scope, 'connect');
    this.#servers = servers;
    this.#connections = connections;
  }

  /** Calls this after every new connection, besides. */
  onConnected(connected: Connected): void {
    this.#listeners.push(connected);
  }

  /** For the hook `admit`: its pages need no key. */
  admit(context: RequestContext): void {
    if (pathOf(context) !== undefined) context.set(isPublicRequest, true);
  }

  /** For the hook `request`, before anything else. Undefined for a path that is not one of its pages. */
  request(context: RequestContext): MaybePromise<Answer | undefined> {
    const path = pathOf(context);
    return path === undefined ? undefined : this.#answer(context, path);
  }

  /** The error for a caller whose user has to connect an account first; it holds the link. */
  missing(
    server: ServerIdentity,
    caller: Caller,
    { scope, metadata }: Partial<Challenge> = {},
  ): GatewayError {
    const { organisationId, workspaceId, userId } = caller.key;
    const name = `The MCP server "${server.slug}"`;
    if (userId === '')
      return needed(
        `${name} is for accounts of users, and the key has none. Come with a key or a token of a user.`,
      );
    if (!this.#connections.areKept)
      return needed(
        `${name} needs your account there, and the gateway has no storage.resources to keep it in.`,
      );
    const origin = publicOrigin(caller.request, this.#scope.publicUrl);
    if (origin === undefined)
      return needed(
        `${name} needs your account there, and the gateway cannot make a link for it. Its operator has to set server.public_url.`,
      );
    const elicitationId = caller.elicitsUrls() ? randomName() : undefined;
    const ticket: TicketOf = {
      ...{ organisation: organisationId, workspace: workspaceId, user: userId },
      ...{ slug: server.slug, binding: bindingOf(server) },
      ...(elicitationId !== undefined && { elicitation: elicitationId }),
      ...(scope !== undefined && { scope }),
      ...(metadata !== undefined && { metadata }),
    };
    const url = `${origin}/mcp/connect/${this.#seals.seal('ticket', ticket, walkMs)}`;
    const message = `${name} needs your account there. Open the link in your browser to connect it.`;
    if (elicitationId === undefined)
      return needed(`${message} Then repeat the request. The link is for you alone, and for ten minutes:`, {
        connect_url: url,
      });
    return needed(message, { elicitations: [{ mode: 'url', elicitationId, url, message }] });
  }

  async #answer(context: RequestContext, path: string): Promise<Answer> {
    const { method } = context;
    try {
      const origin = publicOrigin(context, this.#scope.publicUrl);
      if (origin === undefined)
        throw new Stopped(403, 'The operator of the gateway has to set server.public_url.');
      const isCallback = path === callbackPath;
      if (method === 'GET') {
        if (isCallback) return await this.#comeBack(context, origin);
        return await this.#ask(path, origin);
      }
      if (method === 'POST' && !isCallback) return await this.#leave(context, path, origin);
      throw new Stopped(405, 'This page is opened by a link.');
    } catch (error) {
      if (error instanceof Stopped) return mcpPages.end(error.status, 'This does not go on', error.message);
      if (!GatewayError.is(error)) throw error;
      return mcpPages.end(error.status, 'This does not go on', error.message);
    }
  }

  #ticket(path: string) {
    const opened = this.#seals.open('ticket', path.slice('/mcp/connect/'.length), Ticket);
    if (opened !== undefined) return opened;
    throw new Stopped(
      400,
      'The link is over, or is not whole. Repeat the request in your client for another one.',
    );
  }

  /** Throws when the server is gone, has other settings than when the link was made, or is closed to the user. */
  #account({
    organisation: organisationId,
    workspace: workspaceId,
    user: userId,
    slug,
    binding,
  }: Static<typeof Whose>): Account {
    const server = this.#servers.find(slug, { organisationId, workspaceId, userId })?.identity;
    if (server === undefined || server.authType !== 'oauth_auto' || bindingOf(server) !== binding)
      throw new Stopped(
        410,
        'The MCP server has changed since the link was made, or you may not use it any more. Repeat the request in your client.',
      );
    return { server, organisationId, userId };
  }

  async #ask(path: string, origin: string): Promise<Answer> {
    const { id, value } = this.#ticket(path);
    const account = this.#account(value);
    const { slug, url } = account.server;
    const proof = randomName();
    const cookie = this.#seals.seal('browser', { ticket: id, proof }, walkMs);
    const user = (await this.#connections.emailOf(account)) ?? account.userId;
    // A page of another site cannot press the button: the browser leaves this cookie out of its requests.
    return mcpPages.connect(
      { slug, url, user, proof },
      setCookie({
        ...{ origin, name: walkCookie(origin, id), value: cookie },
        ...{ sameSite: 'Strict', lifetimeMs: walkMs },
      }),
    );
  }

  async #leave(context: RequestContext, path: string, origin: string): Promise<Answer> {
    const { id, value } = this.#ticket(path);
    const account = this.#account(value);
    const body = await shortBody(context, maxBodyBytes);
    if (body === undefined) throw new Stopped(413, 'The form is too long.');
    const form = new URLSearchParams(body);
    const name = walkCookie(origin, id);
    const browser = this.#seals.open('browser', cookieOf(context, name), Browser)?.value;
    const isSame = browser?.ticket === id && isEqual(browser.proof, form.get('proof') ?? '');
    if (!isSame || !isOwnForm(context, origin))
      throw new Stopped(
        403,
        'The page was not opened in this browser, or it takes no cookies. Open the link again.',
      );
    const { server } = account;
    const { url, oauth: settings } = server;
    const { oauth } = this.#scope.mcp;
    const challenge = value.metadata === undefined ? {} : { challenge: value.metadata };
    const found = await authorizationServerOf(oauth, { url, settings }, { ...challenge, isForBrowser: true });
    const redirectUri = origin + callbackPath;
    const use = useOf({ url, settings }, found, scopesFor(server, found, value.scope));
    const { scope = '', resource = '', audience = '' } = use;
    const client = await this.#client(account, found, { redirectUri, scope });
    const begun = await oauth.authorize(found.server, {
      clientId: client.id,
      ...{ redirectUri, scope, resource: resource === '' ? undefined : resource },
    });
    const state = randomName();
    begun.url.searchParams.set('state', state);
    if (audience !== '') begun.url.searchParams.set('audience', audience);
    if (!/^https?:$/.test(begun.url.protocol))
      throw new Stopped(
        502,
        'The authorization server of the MCP server has an address that is none of the web.',
      );
    const { organisation, workspace, user, slug, binding, elicitation } = value;
    const left: Static<typeof State> = {
      ...{ organisation, workspace, user, slug, binding },
      ...(elicitation !== undefined && { elicitation }),
      ...{ ticket: id, state, verifier: begun.verifier, redirectUri },
      ...{ issuer: found.server.issuer, namesIssuer: found.server.namesIssuer },
      tokenEndpoint: found.server.tokenEndpoint,
      revocationEndpoint: found.server.revocationEndpoint ?? '',
      clientId: client.id,
      clientMethod: client.method,
      isRegistered: settings.client_id === undefined,
      ...{ asked: scope, resource, audience },
    };
    const cookie = this.#seals.seal('state', left, walkMs);
    if (cookie.length > maxCookie)
      throw new Stopped(
        502,
        'The addresses of the authorization server are too long to be kept in a cookie.',
      );
    return redirect(begun.url, [
      ...setCookie({ origin, name, value: '', sameSite: 'Strict', lifetimeMs: 0 }),
      // Sent when another site leads back to the gateway, and not with its forms, pictures and scripts.
      ...setCookie({
        ...{ origin, name: walkCookie(origin, state), value: cookie },
        ...{ sameSite: 'Lax', lifetimeMs: walkMs },
      }),
    ]);
  }

  /** The client of the settings; else one that the gateway has registered, or registers now. */
  async #client(
    account: Account,
    found: OauthDiscovery,
    { redirectUri, scope }: { readonly redirectUri: string; readonly scope: string },
  ): Promise<OauthClient> {
    const { server } = account;
    const { url, oauth: settings } = server;
    if (settings.client_id !== undefined)
      return clientAt({ url, settings }, await server.oauthSecret(), found);
    const { issuer } = found.server;
    const known = await this.#connections.client(account, redirectUri, issuer);
    if (known !== undefined) return known;
    const made = await this.#scope.mcp.oauth.register(found.server, { redirectUri, scope });
    await this.#connections.keepClient(account, made, { redirectUri, issuer });
    return made.client;
  }

  async #comeBack(context: RequestContext, origin: string): Promise<Answer> {
    const query = new URLSearchParams(context.query);
    const state = query.get('state') ?? '';
    const name = walkCookie(origin, state);
    const left = this.#seals.open('state', cookieOf(context, name), State)?.value;
    if (left === undefined || !isEqual(left.state, state) || left.redirectUri !== origin + callbackPath)
      throw new Stopped(
        403,
        'This was not begun in this browser, or too long ago. Repeat the request in your client for another link.',
      );
    const cleared = setCookie({ origin, name, value: '', sameSite: 'Lax', lifetimeMs: 0 });
    try {
      await this.#finish(left, query);
    } catch (error) {
      if (!(error instanceof Stopped) && !GatewayError.is(error)) throw error;
      return mcpPages.end(error.status, 'This does not go on', error.message, cleared);
    }
    const text = `Your account at the MCP server ${left.slug} is connected. Close this page, and repeat the request in your client.`;
    return mcpPages.end(200, 'Connected', text, cleared);
  }

  async #finish(left: Static<typeof State>, query: URLSearchParams): Promise<void> {
    const { issuer, tokenEndpoint, revocationEndpoint, redirectUri } = left;
    const named = query.get('iss');
    // Another server's answer must not be taken for that of this one (RFC 9207).
    if (named === null ? left.namesIssuer : named !== issuer)
      throw new Stopped(
        403,
        'The answer came from another authorization server than the one that was asked.',
      );
    const isFirst = await this.#seals.spend(left.state);
    if (!isFirst)
      throw new Stopped(
        403,
        'This page was opened before. Repeat the request in your client for another link.',
      );
    const refusal = query.get('error');
    if (refusal !== null) {
      const reason = /^[a-z_]{1,40}$/.test(refusal) ? ` (${refusal})` : '';
      throw new Stopped(403, `The authorization server gives no access${reason}. Nothing is connected.`);
    }
    const code = query.get('code') ?? '';
    if (code === '' || code.length > maxCode)
      throw new Stopped(400, 'The authorization server sent no code. Repeat the request in your client.');
    if (!(await this.#seals.spend(left.ticket)))
      throw new Stopped(
        403,
        'The link has connected an account before. Repeat the request in your client for another one.',
      );
    const account = this.#account(left);
    const client = await this.#clientOf(account, left);
    const { resource, audience, isRegistered } = left;
    const tokens = await this.#scope.mcp.oauth.token({ issuer, tokenEndpoint }, client, {
      ...{ grant_type: 'authorization_code', code, redirect_uri: redirectUri, code_verifier: left.verifier },
      ...(resource !== '' && { resource }),
      ...(audience !== '' && { audience }),
    });
    const told = { issuer, tokenEndpoint, revocationEndpoint, isRegistered, resource, audience };
    await this.#connections.save(account, { ...told, client, tokens, scope: left.asked });
    for (const connected of this.#listeners) connected(account, left.elicitation);
  }

  async #clientOf(account: Account, left: Static<typeof State>): Promise<OauthClient> {
    const { server } = account;
    const { clientId, clientMethod, isRegistered, issuer, redirectUri } = left;
    const client = isRegistered
      ? await this.#connections.client(account, redirectUri, issuer)
      : oauthClientOf(server.oauth, await server.oauthSecret(), [clientMethod]);
    if (client?.id === clientId && client.method === clientMethod) return client;
    throw new Stopped(
      410,
      'The client of the gateway has changed meanwhile. Repeat the request in your client.',
    );
  }
}

/** Scopes of the settings; else those of the challenge, or of the server's description, and the one for refresh tokens. */
function scopesFor(
  { oauth }: ServerIdentity,
  { server, scopes }: OauthDiscovery,
  challenged: string | undefined,
): string {
  if (oauth.scope !== undefined) return joinedScopes(oauth.scope, challenged);
  const wanted = challenged ?? scopes.join(' ');
  return joinedScopes(wanted, server.hasOfflineScope ? 'offline_access' : undefined);
}

function needed(message: string, extra?: Readonly<Record<string, unknown>>): GatewayError {
  return new GatewayError('mcp_connection_missing', message, extra === undefined ? {} : { extra });
}

function pathOf({ path, endpoint }: RequestContext): string | undefined {
  if (endpoint.id !== 'mcp') return undefined;
  if (servedPath.test(path)) return path;
  return canonicalPath(path) === callbackPath ? callbackPath : undefined;
}

/** One of its own for each walk, so that several can be under way. */
function walkCookie(origin: string, id: string): string {
  return cookieName(origin, `mcp-${id.replace(/[^\w-]/g, '').slice(0, 16)}`);
}
