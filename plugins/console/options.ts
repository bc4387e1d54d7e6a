import { type Static, Type } from '../../core/pipeline/plugin.ts';

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

export type SignInOptions = Static<typeof SignInSchema>;
