import { Type } from '../../core/pipeline/plugin.ts';
import { orNull, strict } from './text-schema.ts';

const flag = (description: string) => Type.Boolean({ description });
/** More than any key needs, and less than a calendar can hold. */
const mostDays = 36_500;

const dataVisibility = {
  membersViewAllData: flag('When false, members see only logs and analytics that their own keys generated.'),
  managersViewAllData: flag(
    'When false, managers see only logs and analytics that their own keys generated.',
  ),
  membersViewAnalytics: flag('Members may view analytics.'),
  managersViewAnalytics: flag('Managers may view analytics.'),
};
const prompts = {
  membersViewPrompts: flag('Members may view prompts.'),
  membersWritePrompts: flag('Members may edit prompts.'),
  managersViewPrompts: flag('Managers may view prompts.'),
  managersWritePrompts: flag('Managers may edit prompts.'),
};
const configs = {
  membersViewConfigs: flag('Members may view configs.'),
  membersWriteConfigs: flag('Members may edit configs.'),
  managersViewConfigs: flag('Managers may view configs.'),
  managersWriteConfigs: flag('Managers may edit configs.'),
};

const MostKeys = Type.Integer({
  minimum: 0,
  maximum: 1_000_000,
  description: 'Keys of people in each workspace, those that have ended not counted; null for no bound.',
});
const DefaultDays = Type.Integer({
  minimum: 1,
  maximum: mostDays,
  description: 'Days after which a key ends whose maker said nothing about it; null for `max_days`.',
});
const MostDays = Type.Integer({
  minimum: 1,
  maximum: mostDays,
  description: 'The most days that a key may live, from its creation on; null for no bound.',
});
const userKeys = {
  max_per_workspace: orNull(MostKeys),
  default_days: orNull(DefaultDays),
  max_days: orNull(MostDays),
};

const logging = {
  mode: Type.Union([Type.Literal('full'), Type.Literal('metadata')], {
    description:
      '`full`: what was sent and answered is logged too, unless the request, its key or the configuration says otherwise. `metadata`: never.',
  }),
};

const all = { ...dataVisibility, ...prompts, ...configs };

/** The twelve settings of an organisation, by the names that they have there. */
export const Security = Type.Object(all);
/** Some of them. */
export const GivenSecurity = Type.Partial(Type.Object(all), strict);
/** The bounds of the keys of people. */
export const UserKeys = Type.Object(userKeys);
/** Some of them. */
export const GivenUserKeys = Type.Partial(Type.Object(userKeys), strict);

/** How much is logged of requests. */
export const Logging = Type.Object(logging);
/** A part of it. */
export const GivenLogging = Type.Partial(Type.Object(logging), strict);

/** Settings by category. */
export const Categories = {
  data_visibility: Type.Object(dataVisibility),
  prompts: Type.Object(prompts),
  configs: Type.Object(configs),
  user_api_keys: UserKeys,
  logging: Logging,
};
/** A part of the settings of some categories; null for none. */
export const GivenCategories = Type.Object(
  {
    data_visibility: Type.Optional(orNull(Type.Partial(Categories.data_visibility, strict))),
    prompts: Type.Optional(orNull(Type.Partial(Categories.prompts, strict))),
    configs: Type.Optional(orNull(Type.Partial(Categories.configs, strict))),
    user_api_keys: Type.Optional(orNull(GivenUserKeys)),
    logging: Type.Optional(orNull(GivenLogging)),
  },
  strict,
);

/** The categories that workspaces may override. */
export const Overridable = Type.Array(
  Type.Union([
    Type.Literal('data_visibility'),
    Type.Literal('prompts'),
    Type.Literal('configs'),
    Type.Literal('user_api_keys'),
    Type.Literal('logging'),
  ]),
  { maxItems: 5, uniqueItems: true, description: 'The categories that workspaces may override.' },
);
