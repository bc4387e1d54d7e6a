import { type Static, Type } from 'typebox';
import { keySecretProperties, oneKeySecret } from './key-secret.ts';
import { RateLimits, UsageLimitSchema } from './limits.ts';
import { AllowedModelNames, Description, Instant, Metadata, Name, strict } from './fields.ts';
import { DefaultGuardrailNames, guardrailFields } from './guardrails.ts';
import { GivenModel, integrationFields, maxModels, newIntegrationFields, Slug } from './integrations.ts';
import { PolicyTargetSchema, rateLimitPolicy, usageLimitPolicy } from './policies.ts';
import { accessLimits, providerFields } from './providers.ts';
import type { RouteConfigInput } from './route-config.ts';

const maxRecords = 1000;

const slug = Slug('Name in requests, keys and addresses.');
const own = {
  slug,
  workspace: Type.Optional(
    Type.String({
      pattern: '^ws-[a-z0-9]+(-[a-z0-9]+)*$',
      maxLength: 255,
      'x-expected': 'a slug such as "ws-laboratory": "ws-", then lower-case letters, digits and hyphens',
      description: 'Owner: the slug of a workspace of this file, or `ws-default`. Default: the organisation.',
    }),
  ),
};
const named = { ...own, name: Name('For people.') };

const access = { enabled: Type.Boolean(), ...accessLimits };
const workspaceAccess = Type.Object(
  {
    id: Name('Slug of a workspace of this file, `ws-default`, or the id of any workspace.'),
    ...access,
  },
  strict,
);

const Integration = Type.Object(
  {
    ...named,
    ...newIntegrationFields,
    create_default_provider: Type.Optional(
      Type.Boolean({
        description:
          'Create a provider for the owner, so that requests can name it as `@slug`. Default true.',
      }),
    ),
    default_provider_slug: Type.Optional(Slug('Default: the slug of the integration.')),
    ...integrationFields,
    allow_all_models: Type.Optional(
      Type.Boolean({ description: 'Requests may also use models that are not listed. Default true.' }),
    ),
    models: Type.Optional(Type.Array(GivenModel, { maxItems: maxModels })),
    global_workspace_access: Type.Optional(
      Type.Object(access, {
        ...strict,
        description:
          'Access of workspaces that are not listed. Default: none. Not allowed if a workspace owns the integration.',
      }),
    ),
    workspaces: Type.Optional(
      Type.Array(workspaceAccess, {
        maxItems: maxRecords,
        description: 'Access of single workspaces. Not allowed if a workspace owns the integration.',
      }),
    ),
  },
  strict,
);

const Provider = Type.Object(
  {
    ...named,
    integration_id: Name('Slug of an integration of this file, or id or slug of a stored one.'),
    ...providerFields,
  },
  strict,
);

const Config = Type.Object(
  {
    ...named,
    // The definition stands under `configs`; a schema may contain it once.
    config: Type.Unsafe<RouteConfigInput>(
      Type.Ref('RouteConfig', { description: 'The config, in the form of `configs.<name>`.' }),
    ),
    is_default: Type.Optional(
      Type.Boolean({
        description:
          'Default config for requests of its workspace that select no other. Default false. Only for a config that a workspace owns.',
      }),
    ),
  },
  strict,
);

const Guardrail = Type.Object({ ...own, ...guardrailFields }, strict);

const RateLimitPolicy = Type.Object(
  {
    ...own,
    ...rateLimitPolicy.fields,
    name: Type.Optional(rateLimitPolicy.fields.name),
    target: Type.Optional(PolicyTargetSchema),
    type: rateLimitPolicy.type,
  },
  strict,
);

const UsageLimitPolicy = Type.Object(
  {
    ...own,
    ...usageLimitPolicy.changeable,
    conditions: usageLimitPolicy.fields.conditions,
    group_by: usageLimitPolicy.fields.group_by,
    target: Type.Optional(PolicyTargetSchema),
    type: usageLimitPolicy.type,
    credit_limit: usageLimitPolicy.fields.credit_limit,
  },
  strict,
);

const list = <S extends Parameters<typeof Type.Array>[0]>(schema: S, description: string) =>
  Type.Optional(Type.Array(schema, { maxItems: maxRecords, description }));

/** Request configuration that the section `organisation` owns: the API's bodies, with a slug. */
const organisationResources = {
  integrations: list(Integration, 'Credentials at providers, of the organisation or of a workspace.'),
  providers: list(
    Provider,
    'Integrations as workspaces use them, named `@slug`. Without `workspace`: in every workspace that may use the integration.',
  ),
  configs: list(
    Config,
    'Configs of the organisation, or of a workspace. Like saved ones, they hold no credentials.',
  ),
  guardrails: list(Guardrail, 'Checks, and what happens when they have spoken.'),
  rate_limit_policies: list(RateLimitPolicy, 'Enforced by the plugin `policies`.'),
  usage_limit_policies: list(UsageLimitPolicy, 'Stored and listed; see administration.md.'),
};

/** Slug of the workspace that the gateway makes itself: requests without a workspace belong to it. */
export const defaultWorkspaceSlug = 'ws-default';

const workspaceSlug = {
  pattern: '^ws-[a-z0-9]+(-[a-z0-9]+)*$',
  maxLength: 255,
  'x-expected': 'a slug such as "ws-laboratory": "ws-", then lower-case letters, digits and hyphens',
};
const defaults = {
  metadata: Type.Optional(Metadata),
  config_id: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'Slug of a config of this file, or of a saved one.',
    }),
  ),
};
const guardrailDefaults = {
  input_guardrails: DefaultGuardrailNames(
    'Slugs of guardrails that judge every request, without being named.',
  ),
  output_guardrails: DefaultGuardrailNames(
    'Slugs of guardrails that judge every answer, without being named.',
  ),
};
const excludedWorkspaces = (of: string) =>
  list(
    Name('Slug of a workspace of this file, `ws-default`, or the id of any workspace.'),
    `Workspaces whose ${of} the organisation's guardrails do not judge.`,
  );
const rateLimits = Type.Optional(RateLimits);

const Workspace = Type.Object(
  {
    slug: Type.String({ ...workspaceSlug, description: 'Name in requests, keys and addresses.' }),
    name: Name('Unique in the organisation.'),
    description: Type.Optional(Description),
    icon: Type.Optional(Type.String({ maxLength: 255, description: 'Icon: an emoji, or an address.' })),
    defaults: Type.Optional(
      Type.Object(
        { ...defaults, ...guardrailDefaults, allowed_models: Type.Optional(AllowedModelNames) },
        { ...strict, description: 'Defaults of its requests.' },
      ),
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
      { description: 'For the whole organisation, for a workspace, or for a user in a workspace.' },
    ),
    workspace: Type.Optional(
      Type.String({
        ...workspaceSlug,
        description:
          'Slug of a workspace of this file, or `ws-default`, the workspace that the gateway makes itself (the default). Not for `organisation-service`.',
      }),
    ),
    user_id: Type.Optional(Name('User of the key, by id. Only for `workspace-user`.')),
    description: Type.Optional(Description),
    ...keySecretProperties,
    scopes: Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
      minItems: 1,
      maxItems: 300,
      description: 'Scopes of the key: `completions.write`, `logs.view` …',
    }),
    expires_at: Type.Optional(Instant('Expiry time, ISO 8601 with a time zone. Default: never.')),
    defaults: Type.Optional(
      Type.Object(
        {
          ...defaults,
          allowed_models: Type.Optional(AllowedModelNames),
          allow_config_override: Type.Optional(Type.Boolean({ description: 'Default true.' })),
          log_bodies: Type.Optional(
            Type.Boolean({
              description:
                'False: bodies of its requests and answers are never logged. True (the default): the settings of the workspace and of the `logger` plugin apply.',
            }),
          ),
        },
        { ...strict, description: 'Defaults of its requests.' },
      ),
    ),
    rate_limits: rateLimits,
    usage_limits: Type.Optional(UsageLimitSchema),
  },
  { ...strict, ...oneKeySecret },
);

/** Section `organisation`: records that are administered only in the file. */
export const Organisation = Type.Object(
  {
    name: Type.Optional(Name('Display name of the organisation.')),
    defaults: Type.Optional(
      Type.Object(
        {
          ...defaults,
          ...guardrailDefaults,
          workspace_exclusions: Type.Optional(
            Type.Object(
              {
                input_guardrails: excludedWorkspaces('requests'),
                output_guardrails: excludedWorkspaces('answers'),
              },
              strict,
            ),
          ),
        },
        {
          ...strict,
          description:
            'Defaults of all requests of the organisation, after those of key and workspace. Owned by the file if present.',
        },
      ),
    ),
    workspaces: Type.Optional(
      Type.Array(Workspace, { maxItems: 1000, description: 'Workspaces in addition to those of the store.' }),
    ),
    keys: Type.Optional(
      Type.Array(Key, { maxItems: 10_000, description: 'Service keys in addition to those of the store.' }),
    ),
    ...organisationResources,
  },
  {
    ...strict,
    description:
      'Records of the default organisation that this file owns: workspaces, service keys, and the records that configure requests. They work without a store, are listed together with the records of the store, and can be changed only here. See [administration.md](administration.md#owned-by-the-file).',
  },
);

/** The section as written. */
export type OrganisationBlock = Static<typeof Organisation>;

interface Blocks {
  integration: Static<typeof Integration>;
  provider: Static<typeof Provider>;
  config: Static<typeof Config>;
  guardrail: Static<typeof Guardrail>;
  rate_limit_policy: Static<typeof RateLimitPolicy>;
  usage_limit_policy: Static<typeof UsageLimitPolicy>;
  workspace: Static<typeof Workspace>;
  key: Static<typeof Key>;
}

/** One item of the section's lists, by its kind. */
export type Block<Kind extends keyof Blocks> = Blocks[Kind];
