import type { Clock } from '../../ports/clock.ts';
import type { Directory } from '../../ports/directory.ts';
import type { Log } from '../../ports/log.ts';
import type { UserRecord } from '../../ports/people.ts';
import type { Resources, WorkspaceRecord } from '../../ports/resources.ts';
import { defaultWorkspaceSlug } from '../../organisation/organisation-block.ts';

/** The first user of the default organisation. */
export interface DefaultOwner {
  readonly id: string;
  /** Lower-case. */
  readonly email: string;
}

/** Content of the records that `ensureDefaultRecords` makes. */
interface DefaultRecords {
  readonly base: Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'>;
  readonly owner: DefaultOwner;
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn'>;
}

/**
 * Puts the default organisation and workspace into the store, once, since every administered record belongs to them;
 * adds the owner while the organisation has no users. Does nothing when they exist. Warns when the store has other
 * organisations and this one is new: the configured id is probably wrong. Rejects like `Resources.write`.
 */
export async function ensureDefaultRecords(
  resources: Pick<Resources, 'read' | 'write'>,
  { base, owner, clock, log }: DefaultRecords,
): Promise<void> {
  const { defaultOrganisationId: organisationId, defaultWorkspaceId: workspaceId } = base;
  const isThere = await resources.read(
    async ({ workspaces, users }) =>
      (await workspaces.find(organisationId, workspaceId)) !== undefined &&
      (await users.list(organisationId, {}, { offset: 0, limit: 0 })).total > 0,
  );
  if (isThere) return;
  const there = await resources.read(({ organisations }) => organisations.list());
  const now = clock.now();
  await resources.write(organisationId, async ({ organisations, workspaces, users }) => {
    await organisations.ensure({ id: organisationId, name: 'Default organisation', createdAt: now });
    // Another replica may have been first.
    if ((await workspaces.find(organisationId, workspaceId)) === undefined)
      await workspaces.insert(defaultWorkspace(organisationId, workspaceId, now));
    if ((await users.list(organisationId, {}, { offset: 0, limit: 0 })).total === 0)
      await users.insert(ownerOf(organisationId, owner, now));
  });
  if (there.length === 0 || there.some(({ id }) => id === organisationId)) return;
  log.warn(
    'The store has organisations already, and this gateway has made another one: its own data folder names it. Gateways that are to administer the same organisation need the same identity.json in their data folders; stop this one and copy it.',
    { organisation_id: organisationId, others: there.length },
  );
}

function ownerOf(organisationId: string, { id, email }: DefaultOwner, now: number): UserRecord {
  return {
    id,
    organisationId,
    email,
    firstName: '',
    lastName: '',
    role: 'owner',
    createdAt: now,
    updatedAt: now,
    version: 1,
  };
}

/** Default workspace, made by the gateway itself. */
export function defaultWorkspace(organisationId: string, id: string, now: number): WorkspaceRecord {
  return {
    id,
    organisationId,
    slug: defaultWorkspaceSlug,
    name: 'Default workspace',
    description: 'Workspace of requests that have no other workspace.',
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
