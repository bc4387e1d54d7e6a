import { configurationNames } from '../../core/access/integration-configurations.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { SecretMapping } from '../../core/ports/record-kinds.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { nearest } from './nearest.ts';
import type { BodyMistake } from './refused-body.ts';
import { strict } from './text-schema.ts';

/** Where the value of a field comes from instead of standing in the record. */
export const SecretMappingSchema = Type.Object(
  {
    target_field: Type.String({
      ...{ minLength: 1, maxLength: 255 },
      description: '`key`, or `configurations.<field>`.',
    }),
    secret_reference_id: Type.String({
      ...{ minLength: 1, maxLength: 255 },
      description: 'Id or slug of a secret reference.',
    }),
    secret_key: Type.Optional(
      Type.Union([Type.String({ maxLength: 255 }), Type.Null()], {
        description: "Member of the secret's JSON. Default: the whole secret.",
      }),
    ),
    value_format: Type.Optional(Type.Union([Type.Literal('string'), Type.Literal('json')])),
  },
  strict,
);

/** The mappings of a record. */
export const SecretMappings = Type.Array(SecretMappingSchema, { maxItems: 50 });

/** Settings that no single secret can be. */
const unmappable: ReadonlySet<string> = new Set([
  'azure_deployment_config',
  'custom_host',
  'vertex_auth_type',
]);

function mappableNames(provider: string): readonly string[] {
  return configurationNames(provider)
    .filter((name) => !unmappable.has(name))
    .map((name) => (name === 'custom_headers' ? 'headers' : name));
}

/** Whose mappings they are. */
export interface MappedIntegration {
  readonly organisationId: string;
  readonly workspaceId: string | undefined;
  readonly aiProviderId: string;
}

/** The mappings that a body says; `mistakes` gets fields that there are not, and references that are out of reach. */
export async function readMappings(
  { records }: Pick<ResourcesReader, 'records'>,
  given: readonly Static<typeof SecretMappingSchema>[],
  { organisationId, workspaceId, aiProviderId }: MappedIntegration,
  mistakes: BodyMistake[],
): Promise<readonly SecretMapping[]> {
  const fields = ['key', ...mappableNames(aiProviderId).map((name) => `configurations.${name}`)];
  const mappings: SecretMapping[] = [];
  for (const [index, one] of given.entries()) {
    const path = `/secret_mappings/${index}`;
    const targetField = one.target_field
      .replace(/^model_config\./, 'configurations.')
      .replace(/\.custom_headers$/, '.headers');
    const place = { organisationId, workspaceId };
    const found = await records.find('secret_reference', place, one.secret_reference_id);
    const isAllowed =
      found?.status === 'active' &&
      (workspaceId === undefined ||
        found.data.allowAllWorkspaces ||
        found.data.allowedWorkspaces.includes(workspaceId));
    if (!fields.includes(targetField)) {
      const near = nearest(targetField, fields);
      const message = `is no field of ${aiProviderId}${near === undefined ? '' : `; did you mean ${near}?`}`;
      mistakes.push({ path: `${path}/target_field`, message });
    }
    if (mappings.some((other) => other.targetField === targetField))
      mistakes.push({ path: `${path}/target_field`, message: 'is mapped already; keep one' });
    if (!isAllowed || found === undefined) {
      const message = 'names no secret reference that may be used here; check its id and its workspaces';
      mistakes.push({ path: `${path}/secret_reference_id`, message });
      continue;
    }
    mappings.push({
      ...{ targetField, secretReferenceId: found.id, secretKey: one.secret_key ?? '' },
      valueFormat: one.value_format ?? 'string',
    });
  }
  return mappings;
}

/** Mappings as the API shows them. */
export function showMapping(mapping: SecretMapping): Static<typeof SecretMappingSchema> {
  return {
    target_field: mapping.targetField,
    secret_reference_id: mapping.secretReferenceId,
    secret_key: mapping.secretKey,
    value_format: mapping.valueFormat,
  };
}
