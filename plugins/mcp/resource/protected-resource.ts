import { quoteClaim, tokenInvalid } from '../../../core/errors/gateway-error.ts';
import { bearerChallenge, callerKey, isPublicRequest } from '../../../core/pipeline/keys.ts';
import {
  type Answer,
  GatewayError,
  type MaybePromise,
  type RequestContext,
  type Scope,
} from '../../../core/pipeline/plugin.ts';
import { AuthorizationServer } from '../facade/authorization-server.ts';
import { publicOrigin } from '../../../core/pipeline/browser.ts';
import type { AuthorizationOptions } from '../options.ts';

/** A document below `/.well-known`, and the path that a client has put behind its name (RFC 9728, 3.1). */
const wellKnown =
  /^\/\.well-known\/(oauth-protected-resource|oauth-authorization-server|openid-configuration)((?:\/[\w.~-]+)*)\/?$/;
/** Paths of MCP servers as clients write them; others are named by the origin alone. */
const plainServer = /^(?:\/[\w.~-]{1,64}){0,8}\/(?:mcp|sse)$/;

/** Lets pages of any origin read a public document, and ask for it with a header of MCP. */
const forPages = ['access-control-allow-origin', '*'];
const preflight: Answer = {
  status: 204,
  headers: [
    ...forPages,
    ...['access-control-allow-methods', 'GET, POST, OPTIONS'],
    ...['access-control-allow-headers', 'authorization, content-type, mcp-protocol-version'],
    ...['access-control-max-age', '86400'],
  ],
  body: null,
};

/**
 * The gateway as a protected resource of OAuth (RFC 9728) in front of an identity provider: says where tokens are to be
 * had, and takes only those that are meant for the MCP server that is called. The plugin `auth` verifies them.
 */
export class ProtectedResource {
  readonly #options: AuthorizationOptions | undefined;
  readonly #publicUrl: string | undefined;
  readonly #scopes: readonly string[];
  readonly #audiences: readonly string[];
  /** In front of a provider that lets no client register. */
  readonly #facade: AuthorizationServer | undefined;

  /** Without options its documents are answered with 404, and tokens are not looked at. */
  constructor(options: AuthorizationOptions | undefined, scope: Scope) {
    const { publicUrl, log } = scope;
    const { scopes = ['mcp.invoke'], audience = [] } = options ?? {};
    this.#options = options;
    this.#publicUrl = publicUrl;
    this.#scopes = scopes;
    this.#audiences = typeof audience === 'string' ? [audience] : audience;
    this.#facade = options?.client && new AuthorizationServer(options, options.client, scope);
    if (options !== undefined && publicUrl === undefined)
      log.warn('mcp.authorization works on loopback alone: set server.public_url for other clients');
  }

  /** For the hook `admit`. Marks documents as public, and says what refusals tell the client. */
  admit(context: RequestContext): void {
    if (context.endpoint.id !== 'mcp') return;
    const { path } = context;
    if (wellKnown.test(path) || (this.#facade !== undefined && AuthorizationServer.serves(path))) {
      context.set(isPublicRequest, true);
      return;
    }
    if (this.#options === undefined) return;
    const origin = this.#origin(context);
    if (origin === undefined) return;
    const shown = plainServer.test(context.originalPath) ? context.originalPath : '';
    context.set(bearerChallenge, {
      resourceMetadata: `${origin}/.well-known/oauth-protected-resource${shown}`,
      scope: this.#scopes.join(' '),
    });
  }

  /**
   * For the hook `request`, before anything else. Answers public documents; throws `token_invalid` for a token that is
   * meant for another resource.
   */
  request(context: RequestContext): MaybePromise<Answer | undefined> {
    if (context.endpoint.id !== 'mcp') return undefined;
    if (context.get(isPublicRequest) === true) return this.#document(context);
    if (this.#options !== undefined) this.#requireAudience(context);
    return undefined;
  }

  #document(context: RequestContext): MaybePromise<Answer> {
    const { method, path } = context;
    if (method === 'OPTIONS') return preflight;
    const [, name, suffix = ''] = wellKnown.exec(path) ?? [];
    const origin = this.#origin(context);
    if (this.#options === undefined || origin === undefined) throw this.#notServed(context);
    if (this.#facade !== undefined && AuthorizationServer.serves(path))
      return this.#facade.answer(context, origin);
    if (method !== 'GET' && method !== 'HEAD') throw this.#notServed(context);
    if (this.#facade !== undefined && name === 'oauth-authorization-server' && suffix === '')
      return publicDocument(this.#facade.metadata(origin));
    if (name !== 'oauth-protected-resource' || (suffix !== '' && !plainServer.test(suffix)))
      throw this.#notServed(context);
    const { issuer, resource_name = 'MCP servers' } = this.#options;
    return publicDocument({
      resource: `${origin}${suffix}`,
      authorization_servers: [this.#facade === undefined ? issuer : origin],
      scopes_supported: this.#scopes,
      bearer_methods_supported: ['header'],
      resource_name,
    });
  }

  #notServed({ method, path }: RequestContext): GatewayError {
    let why = 'Clients of MCP find what there is under /.well-known/oauth-protected-resource.';
    if (this.#options === undefined)
      why = 'MCP servers take service keys and tokens here; mcp.authorization is not set.';
    else if (this.#publicUrl === undefined) why = 'The operator has to set server.public_url.';
    return new GatewayError('route_not_found', `There is no ${method} ${path.slice(0, 200)}. ${why}`, {
      headers: forPages,
    });
  }

  #requireAudience(context: RequestContext): void {
    const key = context.get(callerKey);
    if (key?.isToken !== true) return;
    const { audiences = [] } = key;
    const origin = this.#origin(context);
    const resource = `${origin ?? ''}${context.originalPath}`;
    const own = origin === undefined ? [] : [resource, `${origin}${context.path}`, origin, `${origin}/`];
    if (audiences.some((one) => own.includes(one) || this.#audiences.includes(one))) return;
    const meant =
      audiences.length === 0
        ? 'names no audience (aud)'
        : `is meant for ${quoteClaim(audiences.length === 1 ? audiences[0] : audiences)} (aud), not for this MCP server`;
    throw tokenInvalid(
      `${meant}. Ask the authorization server for one with the resource ${quoteClaim(resource)}, or have the operator add its audience to mcp.authorization.audience.`,
    );
  }

  /** Origin of public addresses. A `Host` header is believed on loopback alone. */
  #origin(context: RequestContext): string | undefined {
    return publicOrigin(context, this.#publicUrl);
  }
}

/** A document that every page may read. */
function publicDocument(value: object): Answer {
  return {
    status: 200,
    headers: [...forPages, 'content-type', 'application/json', 'cache-control', 'max-age=300'],
    body: Buffer.from(JSON.stringify(value)),
  };
}
