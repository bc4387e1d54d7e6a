import type { OauthSecret } from '../../../core/organisation/mcp-token.ts';
import type { MaybePromise, OptionFault, RequestContext } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { McpIntegrationData, McpOauthSettings } from '../../../core/ports/record-kinds.ts';
import { sha256 } from '../../../core/base/bytes.ts';
import {
  identityHeaderMistakes,
  oauthMistakes,
  secretsOfOauth,
  withoutOauthSecrets,
} from '../../../core/organisation/mcp-oauth.ts';
import type { ServerOptions } from '../options.ts';

/** An MCP server, as far as its credentials depend on it. Make one for each version of its settings, and keep it. */
export interface ServerIdentity {
  /** Id of the `mcp_server` record; `file:` and the slug for a server of the YAML. */
  readonly id: string;
  readonly slug: string;
  /** Where requests go; a token is for this address alone. */
  readonly url: string;
  readonly authType: McpIntegrationData['authType'];
  readonly oauth: McpOauthSettings;
  /** Claims of the caller by the header in which they are sent. */
  readonly identityHeaders: Readonly<Record<string, string>>;
  /** Workspace of the record, where its connections are kept; undefined for a server of the YAML. */
  readonly workspaceId: string | undefined;
  /** The secret of its OAuth client. Rejects with `credentials_failed` when a reference cannot be read. */
  oauthSecret(): MaybePromise<OauthSecret | undefined>;
}

/** The server is sent tokens, and not only the headers of its settings. */
export function takesTokens({ authType }: Pick<ServerIdentity, 'authType'>): boolean {
  return authType === 'oauth_auto' || authType === 'oauth_client_credentials';
}

/** A request that is passed on to a server. */
export interface Caller {
  readonly key: KeyRecord;
  readonly request: Pick<RequestContext, 'get' | 'header' | 'service' | 'remoteAddress'>;
  /** The client opens URLs for its user: protocol 2025-11-25, with the capability `elicitation.url`. */
  elicitsUrls(): boolean;
}

const bindings = new WeakMap<ServerIdentity, string>();

/**
 * What a token of this server is bound to: its address and its authorization server, client and audience. Another
 * binding makes every token that exists useless.
 */
export function bindingOf(server: ServerIdentity): string {
  let binding = bindings.get(server);
  if (binding === undefined) {
    const { url, authType, oauth } = server;
    const { client_id: id, issuer, resource, audience } = oauth;
    const { token_endpoint: token, authorization_endpoint: authorization } = oauth;
    const bound = [new URL(url).href, authType, id, issuer, token, authorization, resource, audience];
    binding = sha256(JSON.stringify(bound.map((one) => one ?? null)), 'base64url');
    bindings.set(server, binding);
  }
  return binding;
}

/** A challenge of a server (RFC 6750, RFC 9728). */
export interface Challenge {
  /** `invalid_token`, `insufficient_scope`; undefined for none. */
  readonly error: string | undefined;
  /** Needed scopes, separated by spaces; undefined for none. */
  readonly scope: string | undefined;
  /** `resource_metadata`: the address of the server's description. */
  readonly metadata: string | undefined;
}

const longestHeader = 8192;
const longestValue = 2048;
const parameter = /([a-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/gi;

/** The Bearer challenge of a `WWW-Authenticate` header; its values are the server's, and not to be trusted. */
export function readChallenge(header: string | undefined): Challenge {
  const found = new Map<string, string>();
  const start = header?.slice(0, longestHeader).search(/(?:^|,)\s*bearer(?:\s|$)/i) ?? -1;
  if (header !== undefined && start >= 0) {
    for (const [, name = '', quoted, plain] of header.slice(start, longestHeader).matchAll(parameter)) {
      const value = quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '';
      // The first of its name: that of the Bearer challenge, if there are several challenges.
      if (value !== '' && value.length <= longestValue && !found.has(name.toLowerCase()))
        found.set(name.toLowerCase(), value);
    }
  }
  const scope = found.get('scope');
  const metadata = found.get('resource_metadata');
  return {
    error: found.get('error'),
    scope: scope === undefined || !/^[\x21\x23-\x5b\x5d-\x7e ]+$/.test(scope) ? undefined : scope,
    metadata: metadata === undefined || !URL.canParse(metadata) ? undefined : metadata,
  };
}

/** Scopes of both, without repetition, separated by spaces. */
export function joinedScopes(...scopes: readonly (string | undefined)[]): string {
  const all = scopes.flatMap((one) => one?.split(' ') ?? []).filter((one) => one !== '');
  return [...new Set(all)].join(' ');
}

interface OwnOauth {
  readonly authType: McpIntegrationData['authType'];
  readonly settings: McpOauthSettings;
  readonly secret: OauthSecret | undefined;
}

function ownOauth({ oauth, headers }: ServerOptions): OwnOauth {
  if (oauth === undefined)
    return { authType: headers === undefined ? 'none' : 'headers', settings: {}, secret: undefined };
  const [secret] = secretsOfOauth(oauth);
  const authType = oauth.grant === 'client_credentials' ? 'oauth_client_credentials' : 'oauth_auto';
  return { authType, settings: withoutOauthSecrets(oauth), secret };
}

/** The identity of a server of the YAML. */
export function ownIdentity(
  place: Pick<ServerIdentity, 'id' | 'slug' | 'url'>,
  options: ServerOptions,
): ServerIdentity {
  const { authType, settings, secret } = ownOauth(options);
  return {
    ...place,
    authType,
    oauth: settings,
    identityHeaders: options.identity_headers ?? {},
    workspaceId: undefined,
    oauthSecret: () => secret,
  };
}

/** Every contradiction in the OAuth settings of a server of the YAML. `path` is that of the server. */
export function ownOauthFaults(path: string, options: ServerOptions): readonly OptionFault[] {
  const { url, oauth, identity_headers: headers = {} } = options;
  const faults = identityHeaderMistakes(headers).map((one) => ({
    path: `${path}/identity_headers${one.path}`,
    message: one.message,
  }));
  if (url === undefined) {
    const isThere = { oauth: oauth !== undefined, identity_headers: Object.keys(headers).length > 0 };
    for (const [name, there] of Object.entries(isThere))
      if (there) faults.push({ path: `${path}/${name}`, message: 'is for servers with a url; leave it out' });
    return faults;
  }
  if (oauth === undefined) return faults;
  const { authType, settings } = ownOauth(options);
  const secrets = new Set(secretsOfOauth(oauth).map(({ name }) => name));
  for (const one of oauthMistakes({ authType, settings, secrets }))
    faults.push({ path: `${path}/oauth${one.path}`, message: one.message });
  return faults;
}
