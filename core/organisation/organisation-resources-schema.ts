import { Type, type Static } from 'typebox';
import { guardrailFields } from './guardrail-schema.ts';
import { GivenModel, maxModels } from './integration-model-schema.ts';
import { integrationFields, newIntegrationFields, Slug } from './integration-schema.ts';
import { changeableUsage } from './policy-content.ts';
import {
  rateLimitPolicyFields,
  RateLimitType,
  usageLimitPolicyFields,
  UsagePolicyType,
} from './policy-schema.ts';
import { accessLimits, providerFields } from './provider-schema.ts';
import { Name, strict } from './text-schema.ts';
import type { RouteConfigInput } from './route-config.ts';

const maxRecords = 1000;

const slug = Slug('What requests, keys and addresses name it by.');
const own = {
  slug,
  workspace: Type.Optional(
    Type.String({
      ...{ pattern: '^ws-[a-z0-9]+(-[a-z0-9]+)*$', maxLength: 255 },
      'x-expected': 'a slug such as "ws-laboratory": "ws-", then lower-case letters, digits and hyphens',
      description:
        'Whose it is: the slug of a workspace of this file, or `ws-default`. Default: the organisation.',
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
          'Makes a provider where it belongs, so that requests can name it: `@slug`. Default true.',
      }),
    ),
    default_provider_slug: Type.Optional(Slug('Default: the slug of the integration.')),
    ...integrationFields,
    allow_all_models: Type.Optional(
      Type.Boolean({ description: 'Models that are not listed may be asked for as well. Default true.' }),
    ),
    models: Type.Optional(Type.Array(GivenModel, { maxItems: maxModels })),
    global_workspace_access: Type.Optional(
      Type.Object(access, {
        ...strict,
        description: 'What workspaces may that are not named. Default: nothing. Not for one of a workspace.',
      }),
    ),
    workspaces: Type.Optional(
      Type.Array(workspaceAccess, {
        maxItems: maxRecords,
        description: 'What these workspaces may. Not for one of a workspace.',
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
    // The definition stands below `configs`, and a schema has each of them once.
    config: Type.Unsafe<RouteConfigInput>(
      Type.Ref('RouteConfig', { description: 'What `configs.<name>` takes.' }),
    ),
    is_default: Type.Optional(
      Type.Boolean({
        description:
          'Requests of its workspace begin with it when nothing else says otherwise. Default false. Only for one of a workspace.',
      }),
    ),
  },
  strict,
);

const Guardrail = Type.Object({ ...own, ...guardrailFields }, strict);

const RateLimitPolicy = Type.Object(
  {
    ...own,
    ...rateLimitPolicyFields,
    name: Type.Optional(rateLimitPolicyFields.name),
    type: RateLimitType,
  },
  strict,
);

const UsageLimitPolicy = Type.Object(
  {
    ...own,
    ...changeableUsage,
    conditions: usageLimitPolicyFields.conditions,
    group_by: usageLimitPolicyFields.group_by,
    type: UsagePolicyType,
    credit_limit: usageLimitPolicyFields.credit_limit,
  },
  strict,
);

const list = <S extends Parameters<typeof Type.Array>[0]>(schema: S, description: string) =>
  Type.Optional(Type.Array(schema, { maxItems: maxRecords, description }));

/** What requests can be configured with, as the section `organisation` owns it: the API's bodies, with a slug. */
export const organisationResources = {
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

/** An integration of the section. */
export type IntegrationBlock = Static<typeof Integration>;
/** A provider of the section. */
export type ProviderBlock = Static<typeof Provider>;
/** A config of the section. */
export type ConfigBlock = Static<typeof Config>;
/** A guardrail of the section. */
export type GuardrailBlock = Static<typeof Guardrail>;
/** A rate-limit policy of the section. */
export type RateLimitPolicyBlock = Static<typeof RateLimitPolicy>;
/** A usage-limit policy of the section. */
export type UsageLimitPolicyBlock = Static<typeof UsageLimitPolicy>;
