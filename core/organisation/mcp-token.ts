import { GatewayError } from '../errors/gateway-error.ts';
import type { OauthClient, OauthClients, OauthDiscovery, OauthTokens } from '../ports/oauth.ts';
import type { McpOauthSettings } from '../ports/record-kinds.ts';
import { type SecretBox, secretContext, type SecretManagers } from '../ports/secret-managers.ts';
import { mappedSecret, type ReferringIntegration } from './mcp-address.ts';
import { oauthClientOf, type OauthSecretName, oauthSecrets } from './mcp-oauth.ts';

/** Secret of the client at the authorization server. */
export interface OauthSecret {
  readonly name: OauthSecretName;
  readonly value: string;
}

/** An MCP server that takes tokens. */
interface McpResource {
  readonly url: string;
  readonly settings: McpOauthSettings;
}

/**
 * The client's secret: that of a mapping, else that of the record; undefined for none. Undefined `workspaceId` means
 * requests of the organisation itself. Rejects with `credentials_failed` for a reference that is missing or not allowed.
 */
export async function oauthSecretOf(
  { record, references }: ReferringIntegration,
  workspaceId: string | undefined,
  scope: { readonly secrets: SecretBox; readonly secretManagers: SecretManagers },
): Promise<OauthSecret | undefined> {
  const { id, data, secrets: sealed } = record;
  for (const [index, mapping] of data.secretMappings.entries()) {
    const name = oauthSecrets.nameOf(mapping.targetField);
    if (name === undefined) continue;
    const origin = oauthSecrets.origin(data.oauth ?? {}, data.url);
    const mapped = { mapping, reference: references[index], workspaceId, origin };
    return { name, value: await mappedSecret(mapped, scope) };
  }
  for (const name of oauthSecrets.names) {
    const text = sealed[oauthSecrets.field(name)];
    if (text !== undefined)
      return { name, value: scope.secrets.open(text, secretContext(id, oauthSecrets.field(name))) };
  }
  return undefined;
}

/**
 * The authorization server of an MCP server: that of the settings, else the one that the server names. `challenge` is
 * the `resource_metadata` of the server's refusal; `isForBrowser` says that an authorization endpoint is needed.
 */
export async function authorizationServerOf(
  oauth: OauthClients,
  { url, settings }: McpResource,
  { challenge, isForBrowser = false }: { readonly challenge?: string; readonly isForBrowser?: boolean } = {},
): Promise<OauthDiscovery> {
  const { issuer, token_endpoint: tokenEndpoint, authorization_endpoint: authorizationEndpoint } = settings;
  const { revocation_endpoint: revocationEndpoint } = settings;
  if (tokenEndpoint !== undefined && (!isForBrowser || authorizationEndpoint !== undefined)) {
    const unsaid = {
      registrationEndpoint: undefined,
      endSessionEndpoint: undefined,
      methods: [],
      namesIssuer: false,
      hasOfflineScope: false,
    };
    return {
      server: {
        ...{ ...unsaid, issuer: issuer ?? '', tokenEndpoint, authorizationEndpoint, revocationEndpoint },
        hasPkce: true,
      },
      resource: undefined,
      scopes: [],
    };
  }
  const found = await oauth.discover({ url, issuer, metadata: challenge });
  return {
    ...found,
    // An authorization server that the settings name may refuse this parameter.
    resource: found.resource ?? (issuer === undefined ? url : undefined),
    server: {
      ...found.server,
      ...(tokenEndpoint !== undefined && { tokenEndpoint }),
      ...(authorizationEndpoint !== undefined && { authorizationEndpoint }),
      ...(revocationEndpoint !== undefined && { revocationEndpoint }),
    },
  };
}

/**
 * The client of the settings at this authorization server. Throws `credentials_failed` when its secret would leave for a
 * host that the settings do not name: the MCP server alone says that it is its authorization server.
 */
export function clientAt(
  { url, settings }: McpResource,
  secret: OauthSecret | undefined,
  { server }: OauthDiscovery,
): OauthClient {
  const client = oauthClientOf(settings, secret, server.methods);
  const isNamed = settings.issuer !== undefined || settings.token_endpoint !== undefined;
  const isOwn = new URL(server.tokenEndpoint).origin === new URL(url).origin;
  if (secret?.name !== 'client_secret' || isNamed || isOwn) return client;
  throw new GatewayError(
    'credentials_failed',
    `The client secret of the MCP server is not sent to "${new URL(server.tokenEndpoint).host}", which only the server itself names. Set issuer in its OAuth settings.`,
  );
}

/** Parameters of a request for a token that concern its use; `scope` replaces that of the settings. */
export function useOf(
  { settings }: McpResource,
  { resource: named, scopes }: Pick<OauthDiscovery, 'resource' | 'scopes'>,
  scope = settings.scope ?? scopes.join(' '),
): Readonly<Record<string, string>> {
  const resource = settings.resource ?? named ?? '';
  return {
    ...(scope !== '' && { scope }),
    ...(resource !== '' && { resource }),
    ...(settings.audience !== undefined && { audience: settings.audience }),
  };
}

/** What a server asks for in its challenge. */
export interface AskedToken {
  /** Replaces the scopes of the settings. */
  readonly scope?: string;
  /** Its `resource_metadata`. */
  readonly challenge?: string;
}

/** Tokens with all scopes that were asked for, separated by spaces. */
type ScopedTokens = OauthTokens & { readonly scope: string };

/** A token for the gateway itself (`client_credentials`). */
export async function clientCredentials(
  oauth: OauthClients,
  server: McpResource,
  secret: OauthSecret | undefined,
  asked: AskedToken = {},
): Promise<ScopedTokens> {
  return granted(oauth, server, secret, { ...asked, grant: { grant_type: 'client_credentials' } });
}

const tokenType = 'urn:ietf:params:oauth:token-type:';

/** A token of the server's audience for one of the organisation's identity provider (RFC 8693). */
export async function exchangedToken(
  oauth: OauthClients,
  server: McpResource,
  secret: OauthSecret | undefined,
  { subject, ...asked }: AskedToken & { readonly subject: string },
): Promise<ScopedTokens> {
  const grant = {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: subject,
    subject_token_type: `${tokenType}${server.settings.subject_token_type ?? 'jwt'}`,
    requested_token_type: `${tokenType}access_token`,
  };
  return granted(oauth, server, secret, { ...asked, grant });
}

async function granted(
  oauth: OauthClients,
  server: McpResource,
  secret: OauthSecret | undefined,
  { grant, scope, challenge }: AskedToken & { readonly grant: Readonly<Record<string, string>> },
): Promise<ScopedTokens> {
  const found = await authorizationServerOf(oauth, server, challenge === undefined ? {} : { challenge });
  const use = useOf(server, found, scope);
  const tokens = await oauth.token(found.server, clientAt(server, secret, found), { ...grant, ...use });
  // A scope that is not granted stays in the list: asking for it once more would bring nothing.
  const scopes = new Set(`${use['scope'] ?? ''} ${tokens.scope ?? ''}`.split(' '));
  return { ...tokens, scope: [...scopes].filter((one) => one !== '').join(' ') };
}
