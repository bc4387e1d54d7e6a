import { Type, type Static } from 'typebox';
import { keySecretProperties, oneKeySecret } from './key-secret-schema.ts';
import { RateLimits, UsageLimitSchema } from './limits-schema.ts';
import { Description, Instant, Metadata, Name, strict } from './text-schema.ts';
import { organisationResources } from './organisation-resources-schema.ts';

const slug = {
  pattern: '^ws-[a-z0-9]+(-[a-z0-9]+)*$',
  maxLength: 255,
  'x-expected': 'a slug such as "ws-laboratory": "ws-", then lower-case letters, digits and hyphens',
};
const defaults = {
  metadata: Type.Optional(Metadata),
  config_id: Type.Optional(
    Type.String({ minLength: 1, maxLength: 255, description: 'A config: of this file, or a saved one.' }),
  ),
};
const rateLimits = Type.Optional(RateLimits);

const Workspace = Type.Object(
  {
    slug: Type.String({ ...slug, description: 'What requests, keys and addresses name it by.' }),
    name: Name('Unique in the organisation.'),
    description: Type.Optional(Description),
    icon: Type.Optional(Type.String({ maxLength: 255, description: 'For people: an emoji, or an address.' })),
    defaults: Type.Optional(
      Type.Object(defaults, { ...strict, description: 'What its requests begin with.' }),
    ),
    usage_limits: Type.Optional(Type.Array(UsageLimitSchema, { maxItems: 10 })),
    rate_limits: rateLimits,
  },
  strict,
);

const Key = Type.Object(
  {
    name: Name('Unique among the keys of its type in the workspace, or in the organisation.'),
    type: Type.Union(
      [
        Type.Literal('organisation-service'),
        Type.Literal('workspace-service'),
        Type.Literal('workspace-user'),
      ],
      { description: 'For the whole organisation, for a workspace, or for somebody in a workspace.' },
    ),
    workspace: Type.Optional(
      Type.String({
        ...slug,
        description:
          'Slug of a workspace of this file, or `ws-default`, the workspace that the gateway makes itself (the default). Not for `organisation-service`.',
      }),
    ),
    user_id: Type.Optional(Name('Whose it is: the id of a user. Only for `workspace-user`.')),
    description: Type.Optional(Description),
    ...keySecretProperties,
    scopes: Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
      minItems: 1,
      maxItems: 300,
      description: 'What it may do: `completions.write`, `logs.view` …',
    }),
    expires_at: Type.Optional(
      Instant('From when on it is refused, ISO 8601 with a time zone. Default: never.'),
    ),
    defaults: Type.Optional(
      Type.Object(
        {
          ...defaults,
          allow_config_override: Type.Optional(Type.Boolean({ description: 'Default true.' })),
          log_bodies: Type.Optional(
            Type.Boolean({
              description:
                'False: what its requests send and are answered is never logged. True, and by default: what the workspace and the `logger` plugin say.',
            }),
          ),
        },
        { ...strict, description: 'What its requests begin with.' },
      ),
    ),
    rate_limits: rateLimits,
    usage_limits: Type.Optional(UsageLimitSchema),
  },
  { ...strict, ...oneKeySecret },
);

/** Section `organisation`: what is administered here, and nowhere else. */
export const Organisation = Type.Object(
  {
    name: Type.Optional(Name('What people call the organisation.')),
    defaults: Type.Optional(
      Type.Object(defaults, {
        ...strict,
        description:
          "What the organisation's requests begin with, behind what their key and workspace say. Owned by the file when it is there.",
      }),
    ),
    workspaces: Type.Optional(
      Type.Array(Workspace, { maxItems: 1000, description: 'Workspaces beside those of the store.' }),
    ),
    keys: Type.Optional(
      Type.Array(Key, { maxItems: 10_000, description: 'Service keys beside those of the store.' }),
    ),
    ...organisationResources,
  },
  {
    ...strict,
    description:
      'What this file owns of the default organisation: workspaces, service keys, and what requests can be configured with. It works without any store, is listed beside what the store holds, and is changed here alone. See [administration.md](administration.md#owned-by-the-file).',
  },
);

/** The section as written. */
export type OrganisationBlock = Static<typeof Organisation>;
/** A workspace of the section. */
export type WorkspaceBlock = Static<typeof Workspace>;
/** A key of the section. */
export type KeyBlock = Static<typeof Key>;
