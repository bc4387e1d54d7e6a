import { type Static, Type } from 'typebox';
import { GatewayError } from '../errors/gateway-error.ts';
import type { OauthClient, OauthClientMethod } from '../ports/oauth.ts';
import type { McpIntegrationData, McpOauthSettings } from '../ports/record-kinds.ts';
import { type SecretOrigin, originOf } from '../providers/provider-row.ts';
import { strict } from './fields.ts';
import { headerNameMistake } from './mcp-address.ts';
import type { Mistake } from '../base/json.ts';

/** Secrets of the OAuth settings, by their names in the settings. */
const oauthSecretNames = ['client_secret', 'private_key'] as const;
export type OauthSecretName = (typeof oauthSecretNames)[number];

const fieldPrefix = 'configurations.oauth.';

/** Field of a record's secret: `configurations.oauth.client_secret`. */
function oauthField(name: OauthSecretName): string {
  return `${fieldPrefix}${name}`;
}

/** Name of the secret that a field is; undefined for another field. */
function oauthSecretName(field: string): OauthSecretName | undefined {
  return oauthSecretNames.find((name) => oauthField(name) === field);
}

const address = (description: string) =>
  Type.Optional(Type.String({ pattern: '^https?://', maxLength: 2048, description }));
const text = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description }));

/** Settings of OAuth towards a server, in the API and in the YAML. */
export const oauthProperties = {
  client_id: text('Client at the authorization server. Default: the gateway registers itself (RFC 7591).'),
  client_secret: Type.Optional(Type.String({ minLength: 1, maxLength: 8192, description: 'Its secret.' })),
  private_key: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 16_384,
      description: 'Its private key for `private_key_jwt`: PKCS #8 in PEM, or a JWK.',
    }),
  ),
  token_endpoint_auth_method: Type.Optional(
    Type.Union(
      [
        Type.Literal('client_secret_basic'),
        Type.Literal('client_secret_post'),
        Type.Literal('private_key_jwt'),
        Type.Literal('none'),
      ],
      {
        description:
          'How the client proves itself. Default: `private_key_jwt` with a private key, `client_secret_basic` with a secret unless the server takes only `client_secret_post`, else `none`.',
      },
    ),
  ),
  issuer: address(
    'Authorization server; its metadata names the endpoints. Default: the one that the MCP server names (RFC 9728). A secret goes to another host than that of the MCP server only when this or `token_endpoint` is set.',
  ),
  token_endpoint: address('Default: as the authorization server says.'),
  authorization_endpoint: address('Default: as the authorization server says.'),
  revocation_endpoint: address('Default: as the authorization server says.'),
  scope: text('Scopes to ask for, with spaces between them. Default: those that the MCP server names.'),
  resource: Type.Optional(
    Type.String({
      maxLength: 2048,
      description:
        '`resource` of requests for tokens (RFC 8707); empty for none. Default: the name that the MCP server has for itself (RFC 9728); without one, its URL, or none where the settings name the authorization server.',
    }),
  ),
  audience: text('`audience` of requests for tokens, which some authorization servers want. Default: none.'),
  token_exchange: Type.Optional(
    Type.Union([Type.Literal('preferred'), Type.Literal('required')], {
      description:
        'Exchanges the token with which a caller came (a JSON Web Token that `auth` has verified) for one of the server (RFC 8693). `preferred`: other callers go on without an exchange; `required`: they are refused. Default: no exchange.',
    }),
  ),
  subject_token_type: Type.Optional(
    Type.Union([Type.Literal('jwt'), Type.Literal('access_token'), Type.Literal('id_token')], {
      default: 'jwt',
      description: 'Type of the token that is exchanged.',
    }),
  ),
};

/** OAuth towards a server of the administration API. */
export const McpOauthSchema = Type.Object(oauthProperties, {
  ...strict,
  description: 'OAuth towards the server. Its secrets are masked in answers.',
});

/** Headers with claims of the caller. */
export const IdentityHeadersSchema = Type.Record(
  Type.String(),
  Type.String({ minLength: 1, maxLength: 255 }),
  {
    maxProperties: 20,
    propertyNames: { pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$" },
    description:
      'Headers that tell the server who calls, with the claim that each holds: `{ "x-user-email": "email" }`. Claims are those of a verified JSON Web Token; callers with a service key have none. A header of the same name from a client is dropped.',
  },
);

/** Settings without their secrets, and without the grant that the YAML names in them. */
export function withoutOauthSecrets(given: Static<typeof McpOauthSchema>): McpOauthSettings {
  const left: ReadonlySet<string> = new Set([...oauthSecretNames, 'grant']);
  return Object.fromEntries(Object.entries(given).filter(([name]) => !left.has(name)));
}

/** The secrets of settings that hold them. */
export function secretsOfOauth(
  given: Pick<Static<typeof McpOauthSchema>, OauthSecretName>,
): readonly { readonly name: OauthSecretName; readonly value: string }[] {
  return oauthSecretNames.flatMap((name) => {
    const value = given[name];
    return value === undefined ? [] : [{ name, value }];
  });
}

/** Settings with the secrets that exist, in the record or elsewhere. */
interface GivenOauth {
  readonly authType: McpIntegrationData['authType'];
  readonly settings: McpOauthSettings;
  readonly secrets: ReadonlySet<OauthSecretName>;
}

/** Every contradiction in OAuth settings, whose members are valid by the schema. */
export function oauthMistakes({ authType, settings, secrets }: GivenOauth): readonly Mistake[] {
  const mistakes: Mistake[] = [];
  const { client_id: id, token_endpoint_auth_method: method, token_exchange: exchange } = settings;
  const isOauth = authType === 'oauth_auto' || authType === 'oauth_client_credentials';
  const needsClient = authType === 'oauth_client_credentials' || exchange !== undefined;
  if (!isOauth && (Object.keys(settings).length > 0 || secrets.size > 0))
    mistakes.push({ path: '', message: `has no use with auth_type ${authType}; leave it out` });
  if (isOauth && needsClient && id === undefined)
    mistakes.push({ path: '/client_id', message: 'is missing: such tokens are given to known clients only' });
  if (id === undefined && secrets.size > 0)
    mistakes.push({ path: '/client_id', message: 'is missing, and the secret belongs to it' });
  if (secrets.size > 1)
    mistakes.push({ path: '/private_key', message: 'is there beside client_secret; keep one of them' });
  if (authType === 'oauth_client_credentials' && secrets.size === 0)
    mistakes.push({ path: '/client_secret', message: 'is missing; give it, or a private_key' });
  const needed = method === undefined ? undefined : secretOf(method);
  if (method !== undefined && needed !== undefined && !secrets.has(needed))
    mistakes.push({ path: `/${needed}`, message: `is missing: ${method} proves the client with it` });
  if (method === 'none' && secrets.size > 0)
    mistakes.push({ path: '/token_endpoint_auth_method', message: 'says none, and there is a secret' });
  for (const name of ['issuer', 'token_endpoint', 'authorization_endpoint', 'revocation_endpoint'] as const) {
    const message = settings[name] === undefined ? undefined : addressMistake(settings[name]);
    if (message !== undefined) mistakes.push({ path: `/${name}`, message });
  }
  const { authorization_endpoint: authorization, token_endpoint: token } = settings;
  if (authorization !== undefined && token === undefined)
    mistakes.push({ path: '/token_endpoint', message: 'is missing beside authorization_endpoint' });
  const { resource } = settings;
  if (resource !== undefined && resource !== '' && !URL.canParse(resource))
    mistakes.push({ path: '/resource', message: 'must be an absolute URI, or empty' });
  return mistakes;
}

function secretOf(method: OauthClientMethod): OauthSecretName | undefined {
  if (method === 'none') return undefined;
  return method === 'private_key_jwt' ? 'private_key' : 'client_secret';
}

function addressMistake(given: string): string | undefined {
  if (!URL.canParse(given)) return 'must be a URL like https://host/path';
  const { username, password, hash } = new URL(given);
  if (username !== '' || password !== '') return 'carries credentials; leave them out';
  return hash === '' ? undefined : 'has a fragment; leave it out';
}

/** Every mistake in the names of identity headers. */
export function identityHeaderMistakes(headers: Readonly<Record<string, string>>): readonly Mistake[] {
  const mistakes: Mistake[] = [];
  const seen = new Set<string>();
  for (const name of Object.keys(headers)) {
    const lower = name.toLowerCase();
    const message =
      lower === 'authorization'
        ? 'holds the token of the server; name another header'
        : seen.has(lower)
          ? 'is there twice, in another case; keep one'
          : headerNameMistake(name);
    if (message !== undefined) mistakes.push({ path: `/${name}`, message });
    seen.add(lower);
  }
  return mistakes;
}

/** Where the client's secret goes: the token endpoint of the settings, their issuer, or the server itself. */
function oauthSecretOrigin(settings: McpOauthSettings, url: string): SecretOrigin {
  return originOf(settings.token_endpoint ?? settings.issuer ?? url);
}

/** Secrets of the OAuth settings: their names there, the field of a record that holds each, and where they are sent. */
export const oauthSecrets = {
  names: oauthSecretNames,
  field: oauthField,
  nameOf: oauthSecretName,
  origin: oauthSecretOrigin,
};

/**
 * The client of the settings. `methods` are those of the authorization server, empty when it says nothing. Throws
 * `credentials_failed` without a client id.
 */
export function oauthClientOf(
  settings: McpOauthSettings,
  secret: { readonly name: OauthSecretName; readonly value: string } | undefined,
  methods: readonly string[],
): OauthClient {
  const { client_id: id, token_endpoint_auth_method: method } = settings;
  if (id === undefined)
    throw new GatewayError('credentials_failed', 'The OAuth settings of the MCP server have no client_id.');
  return { id, method: method ?? usualMethod(secret?.name, methods), secret: secret?.value ?? '' };
}

function usualMethod(name: OauthSecretName | undefined, methods: readonly string[]): OauthClientMethod {
  if (name === undefined) return 'none';
  if (name === 'private_key') return 'private_key_jwt';
  const takesBasic = methods.length === 0 || methods.includes('client_secret_basic');
  return takesBasic || !methods.includes('client_secret_post') ? 'client_secret_basic' : 'client_secret_post';
}
