import { IdentityHeadersSchema, oauthProperties } from '../../core/organisation/mcp-oauth.ts';
import { GuardrailList } from '../../core/organisation/guardrails.ts';
import { virtualServerFields } from '../../core/organisation/mcp-virtual-servers.ts';
import { type Static, Type } from '../../core/pipeline/plugin.ts';

const strict = { additionalProperties: false };
const seconds = (description: string, fallback: number, most: number) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: most, default: fallback, description }));

/** Short names, which stand in paths and before the names of tools. */
const Slug = '^[a-zA-Z0-9_-]{1,50}$';

const ToolSchema = Type.Object(
  {
    enabled: Type.Optional(
      Type.Boolean({
        default: true,
        description: 'Off: the tool is not listed, and calls of it are refused.',
      }),
    ),
    description: Type.Optional(
      Type.String({ minLength: 1, maxLength: 4096, description: 'Replaces the description of the server.' }),
    ),
    max_result_bytes: Type.Optional(
      Type.Integer({
        minimum: 64,
        maximum: 67_108_864,
        description: 'Longest text of a result; the rest is cut, and the result says so.',
      }),
    ),
    digest: Type.Optional(
      Type.String({
        pattern: '^sha256:[0-9a-f]{64}$',
        description:
          'Digest of title, description, schemas and hints as approved; a tool that differs is held back. The log and the error name the present one.',
      }),
    ),
  },
  strict,
);

const headers = Type.Optional(
  Type.Record(Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" }), Type.String({ maxLength: 8192 }), {
    maxProperties: 32,
    description: 'Headers of every request to the server.',
  }),
);

const operations = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 512 }), { maxItems: 1000, description }));

const OpenapiSchema = Type.Object(
  {
    document: Type.String({
      minLength: 1,
      maxLength: 2048,
      description:
        'File or `http(s)` URL of the document (OpenAPI 3.0 or 3.1, JSON or YAML, 8 MiB at the most). It is read with the first request.',
    }),
    base_url: Type.Optional(
      Type.String({
        pattern: '^https?://',
        maxLength: 2048,
        description:
          'URL before the paths of the document. Default: the first of its `servers`; a host that only a fetched document names is called without `headers`.',
      }),
    ),
    credential: Type.Optional(
      Type.Object(
        {
          provider: Type.Optional(
            Type.String({ pattern: Slug, description: "Slug of a provider of the caller's workspace." }),
          ),
          mcp_integration: Type.Optional(
            Type.String({ pattern: Slug, description: 'Slug of an MCP integration: its headers are sent.' }),
          ),
        },
        {
          ...strict,
          description:
            "Record of the administration API whose credential is sent, as the caller's workspace may use it. Its secrets must be stored for the origin of `base_url`.",
        },
      ),
    ),
    include: operations(
      'Operations that become tools: operation ids or `METHOD /path`, with `*` for any text. Default: all.',
    ),
    exclude: operations('Operations that do not, in the same form.'),
    max_tools: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        default: 1000,
        description: 'Further operations are left out, and the log says so.',
      }),
    ),
  },
  { ...strict, description: 'An HTTP API whose operations become tools, in place of an MCP server.' },
);

const OauthSchema = Type.Object(
  {
    grant: Type.Optional(
      Type.Union([Type.Literal('authorization_code'), Type.Literal('client_credentials')], {
        description:
          '`authorization_code` (default): each user connects their own account. `client_credentials`: the gateway has a client of its own.',
      }),
    ),
    ...oauthProperties,
  },
  { ...strict, description: 'OAuth towards a server with a `url`.' },
);

const ServerSchema = Type.Object(
  {
    url: Type.Optional(
      Type.String({ pattern: '^https?://', maxLength: 2048, description: 'URL of the server.' }),
    ),
    transport: Type.Optional(
      Type.Union([Type.Literal('http'), Type.Literal('sse')], {
        // Without a default in the schema: it would be filled in for servers with a command, too.
        description: '`http` (default): Streamable HTTP. `sse`: the older transport of two endpoints.',
      }),
    ),
    command: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'Program that speaks MCP over its standard input and output.',
      }),
    ),
    args: Type.Optional(Type.Array(Type.String(), { maxItems: 256 })),
    env: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'Environment variables of the program; those of the gateway are withheld.',
      }),
    ),
    cwd: Type.Optional(Type.String({ minLength: 1, description: 'Its working folder.' })),
    max_processes: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 256,
        default: 16,
        description: 'Most processes of the program at once: each session has one, unless they share it.',
      }),
    ),
    shared: Type.Optional(
      Type.Boolean({
        description:
          'One process for all sessions of all callers, for programs that keep no state for a caller. Default: one for each session.',
      }),
    ),
    openapi: Type.Optional(OpenapiSchema),
    headers,
    identity_headers: Type.Optional(IdentityHeadersSchema),
    oauth: Type.Optional(OauthSchema),
    workspaces: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        maxItems: 1000,
        description: 'Ids or slugs of the workspaces that may use it. Default: all.',
      }),
    ),
    tools: Type.Optional(
      Type.Record(Type.String({ minLength: 1, maxLength: 128 }), ToolSchema, {
        description: 'Settings of tools by their names.',
      }),
    ),
    new_tools: Type.Optional(
      Type.Union([Type.Literal('allow'), Type.Literal('hold')], {
        default: 'allow',
        description:
          '`hold`: tools that neither `tools` nor `allow` names are held back, which the log tells.',
      }),
    ),
    allow: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 128 }), {
        maxItems: 1000,
        description:
          'Tools that may be used; a name that ends in `*` is a prefix. Default: all that are not switched off.',
      }),
    ),
    max_result_bytes: Type.Optional(
      Type.Integer({
        minimum: 64,
        maximum: 67_108_864,
        description: 'Longest text of a result of each tool; the rest is cut, and the result says so.',
      }),
    ),
    input_guardrails: GuardrailList('Guardrails of the arguments of calls'),
    output_guardrails: GuardrailList('Guardrails of the results of calls'),
    call_timeout_ms: Type.Optional(
      Type.Integer({
        minimum: 100,
        maximum: 86_400_000,
        default: 120_000,
        description: 'Longest wait for the head of an answer, and longest pause within one.',
      }),
    ),
  },
  strict,
);

const VirtualSchema = Type.Object(
  {
    servers: Type.Optional(virtualServerFields.servers),
    tools: Type.Optional(virtualServerFields.tools),
    mode: Type.Optional(virtualServerFields.mode),
    instructions: Type.Optional(virtualServerFields.instructions),
    workspaces: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        maxItems: 1000,
        description: 'Ids or slugs of the workspaces that may use it. Default: all.',
      }),
    ),
  },
  strict,
);

/** A scope of OAuth: visible characters without quotes and backslashes (RFC 6749, 3.3). */
const ScopeName = Type.String({ pattern: '^[!#-\\[\\]-~]{1,255}$' });

const Audience = Type.String({ minLength: 1, maxLength: 255 });

/** A redirect URI, or the beginning of some. */
const RedirectPattern = Type.String({ pattern: '^[a-z][a-z0-9+.-]*:[^\\s*#]+(?:/\\*)?$', maxLength: 1024 });

const { client_secret, private_key, token_endpoint_auth_method } = oauthProperties;

const AuthorizationClientSchema = Type.Object(
  {
    client_id: Type.String({ minLength: 1, maxLength: 1024, description: 'Its id at the provider.' }),
    ...{ client_secret, private_key, token_endpoint_auth_method },
    scopes: Type.Optional(
      Type.Array(ScopeName, {
        maxItems: 20,
        description: 'Further scopes that the provider is asked for, such as `offline_access`.',
      }),
    ),
    parameters: Type.Optional(
      Type.Record(Type.String({ pattern: '^[\\w.-]{1,64}$' }), Type.String({ maxLength: 1024 }), {
        maxProperties: 20,
        description:
          'Further parameters of the authorization request: `{ audience: "https://…" }`. Those of the gateway itself stay.',
      }),
    ),
    resource_parameter: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'Passes `resource` (RFC 8707) on to the provider. Off: for providers that refuse it; `audience` names theirs then.',
      }),
    ),
    redirect_uris: Type.Optional(
      Type.Array(RedirectPattern, {
        minItems: 1,
        maxItems: 200,
        description:
          'Redirect URIs that applications may have; one that ends in `/*` stands for all below. Default: https, loopback, and schemes of applications.',
      }),
    ),
    document_hosts: Type.Optional(
      Type.Array(Type.String({ pattern: '^(?:\\*|[a-z0-9.-]+(?::\\d{1,5})?)$' }), {
        maxItems: 200,
        description:
          'Hosts whose client-id metadata documents are accepted instead of a registration; `*` for all. Default: none.',
      }),
    ),
  },
  {
    ...strict,
    description:
      'The one client that all applications are at the provider, for providers that let none register. The gateway is an authorization server in front of it then; the redirect URI of this client is `/mcp/oauth/callback` below `server.public_url`.',
  },
);

/** Option `authorization`: MCP clients get their tokens from an identity provider. */
const AuthorizationSchema = Type.Object(
  {
    issuer: Type.String({
      pattern: '^https?://[^\\s?#@]+$',
      maxLength: 2048,
      description:
        'Issuer of the identity provider, exactly as its metadata has it. `jwt` of the plugin `auth` verifies its tokens.',
    }),
    scopes: Type.Optional(
      Type.Array(ScopeName, {
        default: ['mcp.invoke'],
        minItems: 1,
        maxItems: 20,
        description:
          'OAuth scopes that clients are told to ask for. `jwt.scope_map` of the plugin `auth` says which of them stand for `mcp.invoke`.',
      }),
    ),
    audience: Type.Optional(
      Type.Union([Audience, Type.Array(Audience, { minItems: 1, maxItems: 20 })], {
        description:
          'Accepted `aud` of tokens, besides the URL of the MCP server that is called and `server.public_url`: for providers that name audiences themselves.',
      }),
    ),
    resource_name: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        default: 'MCP servers',
        description: 'Name of these servers that clients show.',
      }),
    ),
    client: Type.Optional(AuthorizationClientSchema),
  },
  {
    ...strict,
    description:
      'OAuth for MCP clients: the metadata of a protected resource (RFC 9728) names the identity provider, refusals point there, and tokens must be meant for the MCP server that is called. Needs `server.public_url`, except on loopback.',
  },
);

export type AuthorizationClientOptions = Static<typeof AuthorizationClientSchema>;
export type AuthorizationOptions = Static<typeof AuthorizationSchema>;

/** Options of `mcp`. */
export const OptionsSchema = Type.Object(
  {
    servers: Type.Optional(
      Type.Record(Type.String({ pattern: Slug }), ServerSchema, {
        description:
          'MCP servers by slug, in addition to those of the administration API. Each has a `url`, a `command` or an `openapi`.',
      }),
    ),
    virtual_servers: Type.Optional(
      Type.Record(Type.String({ pattern: Slug }), VirtualSchema, {
        description: 'Servers made of servers, or of single tools of them, by slug.',
      }),
    ),
    allowed_origins: Type.Optional(
      Type.Array(Type.String({ pattern: '^https?://[^/]+$' }), {
        maxItems: 100,
        description:
          'Origins of web pages that may call MCP servers. A request with another `Origin` is refused (DNS rebinding). Default: that of `server.public_url`.',
      }),
    ),
    authorization: Type.Optional(AuthorizationSchema),
    session_hours: seconds('Longest life of a session, in hours.', 24, 720),
    max_message_bytes: Type.Optional(
      Type.Integer({
        minimum: 1024,
        maximum: 67_108_864,
        default: 4_194_304,
        description:
          'Largest message of a server that the gateway has to read as a whole: lists, and results that it judges.',
      }),
    ),
  },
  strict,
);

export type McpOptions = Static<typeof OptionsSchema>;
export type ServerOptions = Static<typeof ServerSchema>;
export type ToolOptions = Static<typeof ToolSchema>;
