import {
  ConfigurationsSchema,
  readConfigurations,
  showOptions,
  type GivenConfigurations,
} from '../../core/access/integration-configurations.ts';
import { Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { ProviderRow } from '../../core/ports/provider-row.ts';
import type { IntegrationData } from '../../core/ports/record-kinds.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { readMappings, SecretMappings } from './integration-mappings.ts';
import { unmasked, unmaskedConfigurations, type PlainSecrets } from './integration-secrets.ts';
import { nearest } from './nearest.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';
import { Description, Name, orNull, strict } from './text-schema.ts';

/** A slug that a body gives. */
export const GivenSlug = Type.String({
  ...{ minLength: 1, maxLength: 255, pattern: '^[a-zA-Z0-9_-]+$' },
  description: 'Default: made of the name.',
});

/** What prices are multiplied by. */
export const PricingAdjustments = Type.Object(
  {
    multiplier: Type.Optional(
      Type.Object(
        { default: Type.Number({ exclusiveMinimum: 0, maximum: 1000, description: '1.2 adds a fifth.' }) },
        strict,
      ),
    ),
  },
  strict,
);

/** The credential of a body. */
export const ProviderKey = Type.String({
  ...{ minLength: 1, maxLength: 16_384 },
  description: "The provider's API key. Answered masked.",
});

const fields = {
  key: Type.Optional(orNull(ProviderKey)),
  description: Type.Optional(orNull(Description)),
  configurations: Type.Optional(ConfigurationsSchema),
  secret_mappings: Type.Optional(orNull(SecretMappings)),
  pricing_adjustments: Type.Optional(orNull(PricingAdjustments)),
};

/** What makes an integration. */
export const CreateIntegration = Type.Object(
  {
    name: Name('For people.'),
    slug: Type.Optional(GivenSlug),
    ai_provider_id: Name('A provider of the provider table: `openai`, `bedrock` …'),
    workspace_id: Type.Optional(
      Name('Whose it is: id or slug. Default: the organisation, or the workspace of the key.'),
    ),
    ...fields,
    create_default_provider: Type.Optional(
      Type.Boolean({ description: 'Makes a provider in every workspace that may use it. Default true.' }),
    ),
    default_provider_slug: Type.Optional(GivenSlug),
  },
  strict,
);

/** What changes one; what is not given stays, `configurations` and `secret_mappings` are replaced as a whole. */
export const UpdateIntegration = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    workspace_id: Type.Optional(Name('Its workspace, for keys of the organisation that name it by slug.')),
    ...fields,
  },
  strict,
);

/** What a body says of an integration. */
export type IntegrationBody = Omit<Static<typeof UpdateIntegration>, 'workspace_id'>;

/** An integration with its secrets opened. */
export interface IntegrationContent {
  readonly name: string;
  readonly data: IntegrationData;
  readonly plain: PlainSecrets;
}

/** Whose an integration is. */
export interface IntegrationOwner {
  readonly organisationId: string;
  readonly workspaceId: string | undefined;
}

const none: IntegrationData['globalAccess'] = { enabled: false, usageLimits: [], rateLimits: [] };

/** An integration of which nothing has been said yet: all models, no workspaces. */
export function emptyIntegration(name: string, aiProviderId: string): IntegrationContent {
  return {
    ...{ name, plain: {} },
    data: {
      ...{ aiProviderId, description: '', configurations: {}, secretMappings: [], allowAllModels: true },
      ...{ models: [], globalAccess: none, workspaces: {}, priceMultiplier: 1 },
    },
  };
}

/** The row of a built-in provider. Throws `invalid_request` at `path` for a name that there is not. */
export function providerRow(
  { providers }: Pick<Scope['router'], 'providers'>,
  name: string,
  path: string,
): ProviderRow {
  const row = providers.get(name);
  if (row !== undefined) return row;
  const near = nearest(name.slice(0, 64), [...providers.keys()]);
  const remedy = near === undefined ? 'docs/providers.md lists them' : `did you mean "${near}"?`;
  throw refusedBody([{ path, message: `names no provider that this gateway knows; ${remedy}` }]);
}

/** What the body makes of an integration as it is. Throws `invalid_request` with every mistake and its place. */
export async function changedIntegration(
  reader: Pick<ResourcesReader, 'records'>,
  body: IntegrationBody,
  before: IntegrationContent,
  { owner, row }: { readonly owner: IntegrationOwner; readonly row: ProviderRow },
): Promise<IntegrationContent> {
  const { aiProviderId } = before.data;
  const mistakes: BodyMistake[] = [];
  const given = body.secret_mappings;
  const secretMappings =
    given === undefined
      ? before.data.secretMappings
      : await readMappings(reader, given ?? [], { ...owner, aiProviderId }, mistakes);
  const mapped = new Set(secretMappings.map(({ targetField }) => targetField.replace('configurations.', '')));
  const key = changedKey(body.key, before.plain['key'], mistakes);
  // Without a word about them they are what they are; they are judged again, for the key may have gone.
  const settings = unmaskedConfigurations(body.configurations ?? givenAgain(before), before.plain, mistakes);
  const { options, secrets, issues } = readConfigurations(settings, {
    ...{ name: aiProviderId, row, mapped },
    hasKey: key !== undefined || mapped.has('key'),
    machineIdentity: owner.workspaceId === undefined,
  });
  mistakes.push(...issues);
  if (mistakes.length > 0) throw refusedBody(mistakes);
  const { description, pricing_adjustments: pricing } = body;
  return {
    name: body.name ?? before.name,
    plain: {
      ...Object.fromEntries(Object.entries(before.plain).filter(([field]) => field.startsWith('models.'))),
      ...Object.fromEntries(Object.entries(secrets).map(([name, text]) => [`configurations.${name}`, text])),
      ...(key !== undefined && { key }),
    },
    data: {
      ...before.data,
      ...{ configurations: options, secretMappings },
      description: description === undefined ? before.data.description : (description ?? ''),
      priceMultiplier:
        pricing === undefined ? before.data.priceMultiplier : (pricing?.multiplier?.default ?? 1),
    },
  };
}

function changedKey(
  given: string | null | undefined,
  before: string | undefined,
  mistakes: BodyMistake[],
): string | undefined {
  if (given === undefined) return before;
  return given === null ? undefined : unmasked(given, before, mistakes, '/key');
}

/** The settings of an integration as a body would say them. */
function givenAgain({ data, plain }: IntegrationContent): GivenConfigurations {
  const given: Record<string, unknown> = showOptions(data.configurations);
  for (const [field, text] of Object.entries(plain)) {
    if (field === 'configurations.headers') given['custom_headers'] = JSON.parse(text);
    else if (field.startsWith('configurations.')) given[field.slice('configurations.'.length)] = text;
  }
  return given;
}
