import { Type, type Static } from '../../core/pipeline/plugin.ts';
import { tokenAlgorithms, type TokenAlgorithm } from '../../core/ports/oauth.ts';
import { needs } from '../../core/organisation/fields.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 255 });

/** Several names of a claim; the first one that a token has counts. */
const Names = (names: readonly string[], description: string) =>
  Type.Optional(Type.Array(Text, { default: [...names], minItems: 1, maxItems: 10, description }));

const OneOrMore = (description: string) =>
  Type.Optional(Type.Union([Text, Type.Array(Text, { minItems: 1, maxItems: 20 })], { description }));

/** Default names of claims. */
export const defaultClaims = {
  organisation: ['organisation_id', 'service_oid', 'portkey_oid'],
  workspace: ['workspace_slug', 'service_workspace', 'portkey_workspace'],
  scopes: ['scope', 'scopes'],
  user: ['email_id', 'sub', 'uid'],
  defaults: ['defaults'],
} as const;

const Claims = Type.Object(
  {
    organisation: Names(defaultClaims.organisation, 'The id of the organisation.'),
    workspace: Names(defaultClaims.workspace, 'The id or slug of the workspace.'),
    scopes: Names(defaultClaims.scopes, 'Scopes, separated by spaces or as a list.'),
    user: Names(defaultClaims.user, 'User: an e-mail address, or an id.'),
    defaults: Names(defaultClaims.defaults, 'An object with `config_id` and `metadata`.'),
  },
  { ...strict, description: 'Names of the claims; the first one present in a token counts.' },
);

/** Default algorithms: RSA, elliptic curves and Ed25519, as issuers use them. */
export const defaultAlgorithms: readonly TokenAlgorithm[] = [
  ...(['RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'EdDSA'] as const),
];

/** Option `jwt`: JSON Web Tokens in the place of service keys. */
export const TokenSchema = Type.Object(
  {
    jwks_url: Type.Optional(
      Type.String({
        maxLength: 2048,
        pattern: '^https?://[^\\s@]+$',
        description:
          "Address of the issuer's JSON Web Key Set. A private host has to be listed in `security.trusted_hosts`.",
      }),
    ),
    jwks: Type.Optional(
      Type.Object(
        {
          keys: Type.Array(Type.Record(Type.String(), Type.Unknown()), {
            minItems: 1,
            maxItems: 100,
            description: 'Keys as RFC 7517 writes them.',
          }),
        },
        { ...strict, description: 'The key set itself instead of `jwks_url`; public keys only.' },
      ),
    ),
    issuer: OneOrMore('The `iss` that tokens must have, or several. Without it every one is accepted.'),
    audience: OneOrMore(
      'Required `aud` of tokens, or a list of which one has to match. An entry that ends in `/*` stands for the URL before it and all below. Without it every `aud` is accepted.',
    ),
    algorithms: Type.Optional(
      Type.Array(Type.Union(tokenAlgorithms.map((name) => Type.Literal(name))), {
        default: [...defaultAlgorithms],
        minItems: 1,
        maxItems: tokenAlgorithms.length,
        description: 'Accepted signature algorithms. Unsigned tokens and shared secrets are never accepted.',
      }),
    ),
    clock_tolerance_s: Type.Optional(
      Type.Number({
        default: 5,
        minimum: 0,
        maximum: 300,
        description: 'Allowed clock difference in seconds.',
      }),
    ),
    claims: Type.Optional(Claims),
    scope_prefixes: Type.Optional(
      Type.Array(Type.String({ pattern: '^[A-Za-z0-9_-]+$', maxLength: 64 }), {
        default: ['service', 'portkey'],
        maxItems: 10,
        description: 'Product names allowed as prefix of a scope: `service.logs.view` is `logs.view`.',
      }),
    ),
    default_scopes: Type.Optional(
      Type.Array(Type.String({ pattern: '^[a-z_]+[.:][a-z_]+$' }), {
        default: ['completions.write'],
        maxItems: 200,
        description: 'Scopes of tokens without a claim of scopes.',
      }),
    ),
    scope_map: Type.Optional(
      Type.Record(
        Type.String({ minLength: 1, maxLength: 255 }),
        Type.Array(Type.String({ pattern: '^[a-z_]+[.:][a-z_]+$' }), { minItems: 1, maxItems: 200 }),
        {
          maxProperties: 200,
          description:
            'Scopes that a scope of the issuer stands for: `{ "api://weir/tools": [mcp.invoke] }`. Scopes of the same name need no entry.',
        },
      ),
    ),
    cache_max: Type.Optional(
      Type.Integer({
        default: 10000,
        minimum: 1,
        maximum: 1000000,
        description: 'Most verified tokens in the cache; the least recently used one is evicted.',
      }),
    ),
    jwks_max_age_s: Type.Optional(
      Type.Integer({
        default: 600,
        minimum: 30,
        maximum: 86400,
        description: 'Seconds until the set at `jwks_url` is read again, in the background.',
      }),
    ),
    jwks_timeout_ms: Type.Optional(
      Type.Integer({
        default: 5000,
        minimum: 100,
        maximum: 25000,
        description: 'Timeout of one fetch of the key set.',
      }),
    ),
  },
  {
    ...strict,
    oneOf: [needs('jwks_url'), needs('jwks')],
    description: 'Accept JSON Web Tokens of an identity provider instead of service keys.',
  },
);

/** The option as written in YAML. */
export type TokenOptions = Static<typeof TokenSchema>;
