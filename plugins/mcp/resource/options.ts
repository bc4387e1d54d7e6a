import { type Static, Type } from '../../../core/pipeline/plugin.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 255 });

/** A scope of OAuth: visible characters without quotes and backslashes (RFC 6749, 3.3). */
const ScopeName = Type.String({ pattern: '^[!#-\\[\\]-~]{1,255}$' });

/** Option `authorization`: MCP clients get their tokens from an identity provider. */
export const AuthorizationSchema = Type.Object(
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
      Type.Union([Text, Type.Array(Text, { minItems: 1, maxItems: 20 })], {
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
  },
  {
    ...strict,
    description:
      'OAuth for MCP clients: the metadata of a protected resource (RFC 9728) names the identity provider, refusals point there, and tokens must be meant for the MCP server that is called. Needs `server.public_url`, except on loopback.',
  },
);

export type AuthorizationOptions = Static<typeof AuthorizationSchema>;
