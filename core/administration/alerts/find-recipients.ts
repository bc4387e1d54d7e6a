import type { UsageCrossing } from '../../ports/budgets.ts';
import type { ResourcesReader } from '../../ports/resources.ts';
import type { MailOccasion, RecipientReason } from './alert-message.ts';

/** So many are told of one crossing at the most. */
const mostRecipients = 100;
const firstPage = { offset: 0, limit: mostRecipients };

/** Somebody who is told by mail. */
export interface Recipient {
  readonly address: string;
  readonly reason: RecipientReason;
}

/** Who is told of a crossing, and the names of where it happened. */
export interface Recipients extends Pick<MailOccasion, 'organisation' | 'workspace'> {
  readonly recipients: readonly Recipient[];
  /** How many more there would be. */
  readonly leftOut: number;
}

/**
 * Those whom the key names, the managers of the workspace, and the owners and admins of the organisation, in that order,
 * each address once. What belongs to the organisation has no managers.
 */
export async function findRecipients(reader: ResourcesReader, crossing: UsageCrossing): Promise<Recipients> {
  const { organisationId } = crossing;
  const organisation = await reader.organisations.byId(organisationId);
  const workspaceId = await workspaceOf(reader, crossing);
  const workspace =
    workspaceId === undefined ? undefined : await reader.workspaces.find(organisationId, workspaceId);
  const found = new Map<string, Recipient>();
  const add = (address: string, reason: RecipientReason): void => {
    const key = address.toLowerCase();
    // The first user of a gateway that was given no address for them.
    if (key.endsWith('@localhost')) return;
    if (!found.has(key)) found.set(key, { address, reason });
  };
  for (const address of crossing.emails ?? []) add(address, 'named');
  if (workspace !== undefined) {
    const filter = { role: 'manager' } as const;
    const managers = await reader.members.list(organisationId, workspace.id, filter, firstPage);
    for (const { user } of managers.data) add(user.email, 'manager');
  }
  for (const role of ['owner', 'admin'] as const) {
    const users = await reader.users.list(organisationId, { role }, firstPage);
    for (const { email } of users.data) add(email, 'administrator');
  }
  return {
    recipients: [...found.values()].slice(0, mostRecipients),
    leftOut: Math.max(0, found.size - mostRecipients),
    organisation: organisation?.name || organisationId,
    workspace: workspace?.name ?? workspaceId,
  };
}

/** Keys of the organisation ask in its default workspace, and are none of its managers' business. */
async function workspaceOf(
  { apiKeys }: Pick<ResourcesReader, 'apiKeys'>,
  { organisationId, workspaceId, subject }: UsageCrossing,
): Promise<string | undefined> {
  if (subject.type !== 'api_key') return workspaceId;
  const key = await apiKeys.find(organisationId, subject.id);
  return key?.type === 'organisation-service' ? undefined : workspaceId;
}
