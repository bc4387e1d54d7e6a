import type { Clock } from '../ports/clock.ts';
import type { Directory } from '../ports/directory.ts';
import type { Resources, WorkspaceRecord } from '../ports/resources.ts';

/**
 * Puts the default organisation and workspace into the store, once: everything administered hangs below them. Does
 * nothing when they are there. Rejects like `Resources.write`.
 */
export async function ensureDefaultRecords(
  resources: Pick<Resources, 'read' | 'write'>,
  { defaultOrganisationId: organisationId, defaultWorkspaceId: workspaceId }: Directory,
  clock: Clock,
): Promise<void> {
  const known = await resources.read((reader) => reader.workspaces.find(organisationId, workspaceId));
  if (known !== undefined) return;
  const now = clock.now();
  await resources.write(organisationId, async ({ organisations, workspaces }) => {
    await organisations.ensure({ id: organisationId, name: 'Default organisation', createdAt: now });
    // Another replica may have been first.
    if ((await workspaces.find(organisationId, workspaceId)) === undefined)
      await workspaces.insert(defaultWorkspace(organisationId, workspaceId, now));
  });
}

function defaultWorkspace(organisationId: string, id: string, now: number): WorkspaceRecord {
  return {
    id,
    organisationId,
    slug: 'ws-default',
    name: 'Default workspace',
    description: 'Requests without a workspace of their own belong here.',
    icon: '',
    status: 'active',
    isDefault: true,
    defaults: {},
    usageLimits: [],
    rateLimits: [],
    createdAt: now,
    updatedAt: now,
    version: 1,
  };
}
