import { keySecretProperties, oneKeySecret } from '../../core/organisation/key-secret.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import { TokenSchema } from './token-options.ts';

const strict = { additionalProperties: false };

const Identifier = (description: string) => Type.String({ minLength: 1, maxLength: 255, description });

const KeySchema = Type.Object(
  {
    name: Identifier('What people call the key; shown in messages.'),
    id: Type.Optional(Identifier('What logs, analytics and rate limits know it by. Default: its name.')),
    ...keySecretProperties,
    kind: Type.Optional(
      Type.Union(
        [
          Type.Literal('owner'),
          Type.Literal('organisation-service'),
          Type.Literal('workspace-service'),
          Type.Literal('workspace-user'),
        ],
        {
          default: 'workspace-service',
          description: 'How far it reaches: owner and organisation-service see every workspace.',
        },
      ),
    ),
    organisation_id: Type.Optional(
      Identifier('Organisation that it belongs to. Default: the default organisation.'),
    ),
    workspace_id: Type.Optional(
      Identifier('Workspace that its requests are logged in. Default: the default workspace.'),
    ),
    scopes: Type.Optional(
      Type.Array(Type.String({ pattern: '^(\\*|[a-z_]+\\.[a-z_]+)$' }), {
        maxItems: 200,
        description:
          'What it may do (`logs.view`, `analytics.view`, `*` for everything). Default: `completions.write`; an owner key `*`.',
      }),
    ),
    expires_at: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'From when on it is refused, ISO 8601 with a time zone. Default: never.',
      }),
    ),
  },
  { ...strict, ...oneKeySecret },
);

/** Options of `auth`. */
export const AuthSchema = Type.Object(
  {
    keys: Type.Optional(
      Type.Array(KeySchema, {
        default: [],
        maxItems: 10000,
        description: 'Service keys that this file defines, beside those that the gateway holds itself.',
      }),
    ),
    jwt: Type.Optional(TokenSchema),
  },
  strict,
);

/** One key as written in YAML. */
export type KeyOptions = Static<typeof KeySchema>;
