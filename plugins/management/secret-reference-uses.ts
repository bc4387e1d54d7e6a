import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { eachRecord } from './visible-record.ts';

const maxNamed = 10;

/** Throws `resource_conflict`, with the names of up to 10 of them, while integrations take secrets from the reference. */
export async function requireUnreferenced(
  reader: Pick<ResourcesReader, 'records'>,
  { id, organisationId, slug, name }: StoredRecord<'secret_reference'>,
): Promise<void> {
  const users: string[] = [];
  let total = 0;
  for await (const { data, slug: user } of eachRecord(reader, 'integration', organisationId, {})) {
    const isUser = data.secretMappings.some(({ secretReferenceId: one }) => one === id || one === slug);
    if (!isUser) continue;
    total += 1;
    if (users.length < maxNamed) users.push(`"${user}"`);
  }
  if (total === 0) return;
  const more = total > users.length ? ` and ${total - users.length} more` : '';
  throw new GatewayError(
    'resource_conflict',
    `The secret reference "${name}" is in use by the integrations ${users.join(', ')}${more}. Change their secret_mappings first.`,
  );
}
