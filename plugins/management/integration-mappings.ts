import {
  SecretMappings,
  SecretMappingSchema,
  type MappableFields,
} from '../../core/organisation/integration-schema.ts';
import type { Static } from '../../core/pipeline/plugin.ts';
import type { SecretMapping } from '../../core/ports/record-kinds.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { isAllowedIn } from '../../core/ports/secret-managers.ts';
import type { BodyMistake } from './refused-body.ts';

export { SecretMappings, SecretMappingSchema, type MappableFields };

/** Whose mappings they are, and what they can be for. */
export interface MappedRecord {
  readonly organisationId: string;
  readonly workspaceId: string | undefined;
  readonly fields: MappableFields;
}

/** The mappings that a body says; `mistakes` gets fields that there are not, and references that are out of reach. */
export async function readMappings(
  { records }: Pick<ResourcesReader, 'records'>,
  given: readonly Static<typeof SecretMappingSchema>[],
  { organisationId, workspaceId, fields }: MappedRecord,
  mistakes: BodyMistake[],
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
