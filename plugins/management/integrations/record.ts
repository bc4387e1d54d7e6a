import {
  type GivenConfigurations,
  showOptions,
} from '../../../core/organisation/integration-configurations.ts';
import { type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { SecretMapping } from '../../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { headersOf } from '../../../core/organisation/mcp-address.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import { Name, nearest, refusedBody, strict } from '../shared/fields.ts';
import {
  changedContent,
  type IntegrationContent,
  integrationFields as fields,
  mappableFields,
  type MappableFields,
  newIntegrationFields,
  PricingAdjustments,
  SecretMappings,
  SecretMappingSchema,
  Slug,
} from '../../../core/organisation/integrations.ts';
import {
  type ProviderRow,
  allOrigins,
  maySend,
  originsOf,
  originsOfField,
  type SecretOrigin,
} from '../../../core/providers/provider-row.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { isAllowedIn } from '../../../core/ports/secret-managers.ts';
import { sharedAccess } from '../shared/workspace-access.ts';
import type { Mistake } from '../../../core/base/json.ts';

/** Changes and shows the record of an integration. */
export const integrationRecord = {
  readMappings,
  showMapping,
  providerRow,
  changed: changedIntegration,
  shownConfigurations,
  movedSecrets,
  unboundReferences,
};

const access = sharedAccess('integration', { noun: 'integration', resource: 'integrations' });

/** Scopes for an action on integrations; the caller needs one of them. */
const integrationScopes = access.scopes;

/** Throws `scope_missing` when the key may not do this with integrations of the workspace, or of the organisation. */
const requireIntegrationScope = access.require;

/** The integration of a path. Throws `resource_not_found` when out of reach, `scope_missing` without the scope. */
const visibleIntegration = access.visible;

/** A page of the integrations that a key sees. */
const seenIntegrations = access.seen;

/** The integration named by a body. Throws `invalid_request` for one that the workspace may not use. */
const usableIntegration = access.usable;

/** Says which integrations a caller may see and change. */
export const integrationAccess = {
  scopes: integrationScopes,
  requireScope: requireIntegrationScope,
  visible: visibleIntegration,
  seen: seenIntegrations,
  usable: usableIntegration,
};

export { SecretMappings, SecretMappingSchema, type MappableFields };

/** Owner of secret mappings, and the fields that they may target. */
interface MappedRecord {
  readonly organisationId: string;
  readonly workspaceId: string | undefined;
  readonly fields: MappableFields;
}

/** The mappings of a body; unknown fields and references out of reach are added to `mistakes`. */
async function readMappings(
  { records }: Pick<ResourcesReader, 'records'>,
  given: readonly Static<typeof SecretMappingSchema>[],
  { organisationId, workspaceId, fields }: MappedRecord,
  mistakes: Mistake[],
): Promise<readonly SecretMapping[]> {
  const mappings: SecretMapping[] = [];
  for (const [index, one] of given.entries()) {
    const path = `/secret_mappings/${index}`;
    const targetField = fields.canonical(one.target_field);
    const place = { organisationId, workspaceId };
    const found = await records.find('secret_reference', place, one.secret_reference_id);
    const isAllowed =
      found?.status === 'active' && (workspaceId === undefined || isAllowedIn(found.data, workspaceId));
    const refusal = fields.refusal(targetField);
    if (refusal !== undefined) mistakes.push({ path: `${path}/target_field`, message: refusal });
    if (mappings.some((other) => other.targetField === targetField))
      mistakes.push({ path: `${path}/target_field`, message: 'is mapped already; keep one' });
    if (!isAllowed || found === undefined) {
      const message = 'names no secret reference that may be used here; check its id and its workspaces';
      mistakes.push({ path: `${path}/secret_reference_id`, message });
      continue;
    }
    mappings.push({
      targetField,
      secretReferenceId: found.id,
      secretKey: one.secret_key ?? '',
      valueFormat: one.value_format ?? 'string',
    });
  }
  return mappings;
}

/** Converts a mapping to the API's shape. */
function showMapping(mapping: SecretMapping): Static<typeof SecretMappingSchema> {
  return {
    target_field: mapping.targetField,
    secret_reference_id: mapping.secretReferenceId,
    secret_key: mapping.secretKey,
    value_format: mapping.valueFormat,
  };
}

export { PricingAdjustments };

/** Slug in a body. */
const GivenSlug = Slug('Default: made of the name.');

/** Body that creates an integration. */
const CreateIntegration = Type.Object(
  {
    ...newIntegrationFields,
    slug: Type.Optional(GivenSlug),
    workspace_id: Type.Optional(
      Name('Owning workspace: id or slug. Default: the organisation, or the workspace of the key.'),
    ),
    ...fields,
  },
  strict,
);

/** Body that changes one; absent members stay, `configurations` and `secret_mappings` are replaced as a whole. */
const UpdateIntegration = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    workspace_id: Type.Optional(Name('Its workspace, for keys of the organisation that name it by slug.')),
    ...fields,
  },
  strict,
);

/** Bodies of integrations. */
export const integrationSchemas = { GivenSlug, Create: CreateIntegration, Update: UpdateIntegration };

/** Members of a body that describe an integration. */
type IntegrationBody = Omit<Static<typeof UpdateIntegration>, 'workspace_id'>;

/** Owner of an integration. */
export interface IntegrationOwner {
  readonly organisationId: string;
  readonly workspaceId: string | undefined;
}

/** The row of a built-in provider. Throws `invalid_request` at `path` for an unknown name. */
function providerRow(
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

/** The integration after the change by the body. Throws `invalid_request` with every mistake and its place. */
async function changedIntegration(
  reader: Pick<ResourcesReader, 'records'>,
  body: IntegrationBody,
  before: IntegrationContent,
  { owner, row }: { readonly owner: IntegrationOwner; readonly row: ProviderRow },
): Promise<IntegrationContent> {
  const { aiProviderId } = before.data;
  const mistakes: Mistake[] = [];
  const given = body.secret_mappings;
  const secretMappings =
    given === undefined
      ? before.data.secretMappings
      : await readMappings(reader, given ?? [], { ...owner, fields: mappableFields(aiProviderId) }, mistakes);
  const key = changedKey(body.key, before.plain['key'], mistakes);
  // Absent configurations stay unchanged, but are validated again: the body may have removed the key.
  const settings = body.configurations ?? asGivenConfigurations(before);
  const { content, issues } = changedContent(body, before, {
    key,
    secretMappings,
    row,
    machineIdentity: owner.workspaceId === undefined,
    configurations: sealedSecrets.unmaskedConfigurations(settings, before.plain, mistakes),
  });
  mistakes.push(...issues);
  mistakes.push(...movedSecrets({ before, after: content, row, given: givenSecrets(body, content.plain) }));
  const origins = allOrigins(originsOf(content.data, row));
  mistakes.push(...(await unboundReferences(reader, secretMappings, () => origins, owner)));
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return content;
}

/** Fields of secrets that the body gives unmasked. */
function givenSecrets(
  { key, configurations = {} }: IntegrationBody,
  plain: PlainSecrets,
): ReadonlySet<string> {
  const said = new Map<string, unknown>([['key', key]]);
  for (const [name, value] of Object.entries(configurations))
    said.set(`configurations.${name === 'custom_headers' ? 'headers' : name}`, value);
  return new Set(
    Object.entries(plain)
      .filter(([field, text]) => equalsStored(said.get(field), text))
      .map(([field]) => field),
  );
}

function equalsStored(value: unknown, text: string): boolean {
  return value !== undefined && (typeof value === 'string' ? value : JSON.stringify(value)) === text;
}

function changedKey(
  given: string | null | undefined,
  before: string | undefined,
  mistakes: Mistake[],
): string | undefined {
  if (given === undefined) return before;
  return given === null ? undefined : sealedSecrets.unmasked(given, before, mistakes, '/key');
}

/** The settings of an integration in the form of a body. */
function asGivenConfigurations({ data, plain }: IntegrationContent): GivenConfigurations {
  const given: Record<string, unknown> = showOptions(data.configurations);
  for (const [field, text] of Object.entries(plain)) {
    if (field === 'configurations.headers') given['custom_headers'] = JSON.parse(text);
    else if (field.startsWith('configurations.')) given[field.slice('configurations.'.length)] = text;
  }
  return given;
}

/** The settings of an integration with masked secrets. */
function shownConfigurations(
  { data }: StoredRecord<'integration'>,
  plain: PlainSecrets,
): Record<string, unknown> {
  const shown = showOptions(data.configurations);
  for (const [field, text] of Object.entries(plain)) {
    if (field === 'configurations.headers')
      shown['custom_headers'] = sealedSecrets.maskedHeaders(headersOf(text));
    else if (field.startsWith('configurations.'))
      shown[field.slice('configurations.'.length)] = sealedSecrets.mask(text);
  }
  return shown;
}

/** A change of an integration, with the secrets that the body gives unmasked. */
interface SecretsChange {
  readonly before: IntegrationContent;
  readonly after: IntegrationContent;
  readonly row: ProviderRow;
  /** Fields whose secrets the body gives, neither masked nor left out. */
  readonly given: ReadonlySet<string>;
}

/**
 * Mistakes for secrets that a change would send to a new origin, unless the body gives them again: a caller who may
 * change an address need not know the secrets, and must not learn them through the change.
 */
function movedSecrets({ before, after, row, given }: SecretsChange): readonly Mistake[] {
  const [was, is] = [originsOf(before.data, row), originsOf(after.data, row)];
  const mistakes: Mistake[] = [];
  for (const field of Object.keys(after.plain)) {
    if (before.plain[field] === undefined || given.has(field)) continue;
    const known = new Set(originsOfField(field, was).map(({ origin }) => origin));
    const moved = originsOfField(field, is).find(({ origin }) => !known.has(origin));
    if (moved !== undefined) mistakes.push(movedMistake(field, moved));
  }
  return mistakes;
}

function movedMistake(field: string, { origin }: SecretOrigin): Mistake {
  const reason = `the stored secret would go to ${origin}, for which it was not stored`;
  if (field.startsWith('models.')) {
    const model = JSON.stringify(field.slice('models.'.length, -'.headers'.length));
    return {
      path: '/models',
      message: `has stored custom_headers for ${model}: ${reason}; give them again with that model, or an empty custom_headers`,
    };
  }
  const name = field === 'configurations.headers' ? 'configurations.custom_headers' : field;
  return {
    path: `/${name.replace('.', '/')}`,
    message: `is missing: ${reason}; give it again, or remove it first`,
  };
}

/** Mistakes for mappings to secrets that may not be sent to all of these origins. */
async function unboundReferences(
  { records }: Pick<ResourcesReader, 'records'>,
  mappings: readonly SecretMapping[],
  originsOf: (mapping: SecretMapping) => readonly SecretOrigin[],
  { organisationId, workspaceId }: IntegrationOwner,
): Promise<readonly Mistake[]> {
  const mistakes: Mistake[] = [];
  for (const [index, mapping] of mappings.entries()) {
    const { secretReferenceId: id } = mapping;
    const reference = await records.find('secret_reference', { organisationId, workspaceId }, id);
    const refused = reference && originsOf(mapping).find((origin) => !maySend(reference.data, origin));
    if (refused === undefined) continue;
    mistakes.push({
      path: `/secret_mappings/${index}/secret_reference_id`,
      message: `names a secret that may not be sent to ${refused.origin}; add its host to allowed_hosts of the reference`,
    });
  }
  return mistakes;
}
