import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { requireNoUsers } from './in-use.ts';
import type { SharedKind } from './shared-access.ts';
import { eachRecord } from './visible-record.ts';

/** Throws `resource_conflict`, with the names of up to 10 of each kind, while integrations take secrets from the reference. */
export async function requireUnreferenced(
  reader: Pick<ResourcesReader, 'records'>,
  reference: StoredRecord<'secret_reference'>,
): Promise<void> {
  const users = {
    integrations: await usersOf(reader, 'integration', reference),
    'MCP integrations': await usersOf(reader, 'mcp_integration', reference),
  };
  requireNoUsers(`The secret reference "${reference.name}"`, users, 'Change their secret_mappings first.');
}

async function usersOf(
  reader: Pick<ResourcesReader, 'records'>,
  kind: SharedKind,
  { id, organisationId, slug }: StoredRecord<'secret_reference'>,
): Promise<readonly string[]> {
  const users: string[] = [];
  for await (const { data, slug: user } of eachRecord(reader, kind, organisationId, {})) {
    const isUser = data.secretMappings.some(({ secretReferenceId: one }) => one === id || one === slug);
    if (isUser) users.push(user);
  }
  return users;
}
