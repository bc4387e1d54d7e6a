import type { IntegrationContent } from '../../core/organisation/integration-content.ts';
import {
  maySend,
  originsOf,
  originsOfField,
  type SecretOrigin,
} from '../../core/providers/secret-origins.ts';
import type { ProviderRow } from '../../core/providers/provider-row.ts';
import type { SecretMapping } from '../../core/ports/record-kinds.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import type { IntegrationOwner } from './integration-body.ts';
import type { BodyMistake } from './refused-body.ts';

/** A change of an integration, and what of its secrets the body says in clear. */
export interface SecretsChange {
  readonly before: IntegrationContent;
  readonly after: IntegrationContent;
  readonly row: ProviderRow;
  /** Fields whose secrets came with the body, neither masked nor left out. */
  readonly given: ReadonlySet<string>;
}

/**
 * Secrets that a change would send to an origin that was not there when they were stored, unless they come with it: a
 * caller who may change an address need not know them, and must not learn them by it.
 */
export function movedSecrets({ before, after, row, given }: SecretsChange): readonly BodyMistake[] {
  const [was, is] = [originsOf(before.data, row), originsOf(after.data, row)];
  const mistakes: BodyMistake[] = [];
  for (const field of Object.keys(after.plain)) {
    if (before.plain[field] === undefined || given.has(field)) continue;
    const known = new Set(originsOfField(field, was).map(({ origin }) => origin));
    const moved = originsOfField(field, is).find(({ origin }) => !known.has(origin));
    if (moved !== undefined) mistakes.push(movedMistake(field, moved));
  }
  return mistakes;
}

function movedMistake(field: string, { origin }: SecretOrigin): BodyMistake {
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

/** Mappings to secrets that may not be sent to all of these origins. */
export async function unboundReferences(
  { records }: Pick<ResourcesReader, 'records'>,
  mappings: readonly SecretMapping[],
  origins: readonly SecretOrigin[],
  { organisationId, workspaceId }: IntegrationOwner,
): Promise<readonly BodyMistake[]> {
  const mistakes: BodyMistake[] = [];
  for (const [index, { secretReferenceId: id }] of mappings.entries()) {
    const reference = await records.find('secret_reference', { organisationId, workspaceId }, id);
    const refused = reference && origins.find((origin) => !maySend(reference.data, origin));
    if (refused === undefined) continue;
    mistakes.push({
      path: `/secret_mappings/${index}/secret_reference_id`,
      message: `names a secret that may not be sent to ${refused.origin}; add its host to allowed_hosts of the reference`,
    });
  }
  return mistakes;
}
