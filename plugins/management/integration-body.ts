import { showOptions, type GivenConfigurations } from '../../core/organisation/integration-configurations.ts';
import { changedContent, type IntegrationContent } from '../../core/organisation/integration-content.ts';
import {
  integrationFields as fields,
  mappableFields,
  newIntegrationFields,
  PricingAdjustments,
  Slug,
} from '../../core/organisation/integration-schema.ts';
import { allOrigins, originsOf } from '../../core/providers/secret-origins.ts';
import { Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { ProviderRow } from '../../core/providers/provider-row.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { movedSecrets, unboundReferences } from './bound-secrets.ts';
import { readMappings } from './integration-mappings.ts';
import { unmasked, unmaskedConfigurations, type PlainSecrets } from './integration-secrets.ts';
import { nearest } from './nearest.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';
import { Name, strict } from './text-schema.ts';

export { PricingAdjustments };

/** A slug that a body gives. */
export const GivenSlug = Slug('Default: made of the name.');

/** What makes an integration. */
export const CreateIntegration = Type.Object(
  {
    ...newIntegrationFields,
    slug: Type.Optional(GivenSlug),
    workspace_id: Type.Optional(
      Name('Whose it is: id or slug. Default: the organisation, or the workspace of the key.'),
    ),
    ...fields,
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

/** Whose an integration is. */
export interface IntegrationOwner {
  readonly organisationId: string;
  readonly workspaceId: string | undefined;
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
      : await readMappings(reader, given ?? [], { ...owner, fields: mappableFields(aiProviderId) }, mistakes);
  const key = changedKey(body.key, before.plain['key'], mistakes);
  // Without a word about them they are what they are; they are judged again, for the key may have gone.
  const settings = body.configurations ?? givenAgain(before);
  const { content, issues } = changedContent(body, before, {
    ...{ key, secretMappings, row, machineIdentity: owner.workspaceId === undefined },
    configurations: unmaskedConfigurations(settings, before.plain, mistakes),
  });
  mistakes.push(...issues);
  mistakes.push(...movedSecrets({ before, after: content, row, given: givenSecrets(body, content.plain) }));
  const origins = allOrigins(originsOf(content.data, row));
  mistakes.push(...(await unboundReferences(reader, secretMappings, origins, owner)));
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return content;
}

/** The secrets that the body says in clear. */
function givenSecrets(
  { key, configurations = {} }: IntegrationBody,
  plain: PlainSecrets,
): ReadonlySet<string> {
  const said = new Map<string, unknown>([['key', key]]);
  for (const [name, value] of Object.entries(configurations))
    said.set(`configurations.${name === 'custom_headers' ? 'headers' : name}`, value);
  return new Set(
    Object.entries(plain)
      .filter(([field, text]) => isSaid(said.get(field), text))
      .map(([field]) => field),
  );
}

function isSaid(value: unknown, text: string): boolean {
  return value !== undefined && (typeof value === 'string' ? value : JSON.stringify(value)) === text;
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
