import type { OrganisationSettings, WorkspaceSettings } from '../../ports/organisation-settings.ts';
import type { GroupMappingRecord, InviteRecord, MemberRecord, UserRecord } from '../../ports/people.ts';
import type {
  ApiKeyRecord,
  OrganisationRecord,
  ResourcesReader,
  WorkspaceRecord,
} from '../../ports/resources.ts';
import type { Page, Paged } from '../../ports/page.ts';

const recordsAPage = 100;

/** Everything that the store holds of an organisation but its audit trail, each list in the store's own order. */
export interface StoredOrganisation {
  readonly organisation: OrganisationRecord;
  readonly settings: OrganisationSettings;
  readonly overrides: readonly WorkspaceSettings[];
  readonly workspaces: readonly WorkspaceRecord[];
  readonly users: readonly UserRecord[];
  readonly members: readonly MemberRecord[];
  readonly keys: readonly ApiKeyRecord[];
  /** In any state. */
  readonly invites: readonly InviteRecord[];
  readonly mappings: readonly GroupMappingRecord[];
}

/** Reads an organisation as a whole, on the view of `reader`. */
export async function readOrganisation(
  reader: Omit<ResourcesReader, 'marks'>,
  organisation: OrganisationRecord,
): Promise<StoredOrganisation> {
  const { id } = organisation;
  const { settings } = reader;
  return {
    organisation,
    settings: await settings.ofOrganisation(id),
    overrides: await settings.ofWorkspaces(id),
    workspaces: await wholeList((page) => reader.workspaces.list(id, {}, page)),
    users: await everyUser(reader, id),
    members: await everyMember(reader, id),
    keys: await wholeList((page) => reader.apiKeys.list(id, {}, page)),
    invites: await wholeList((page) => reader.invites.list(id, {}, page)),
    mappings: await wholeList((page) => reader.groupMappings.list(id, {}, page)),
  };
}

async function wholeList<T>(list: (page: Page) => Promise<Paged<T>>): Promise<readonly T[]> {
  const found: T[] = [];
  for (;;) {
    const { total, data } = await list({ offset: found.length, limit: recordsAPage });
    for (const record of data) found.push(record);
    if (data.length === 0 || found.length >= total) return found;
  }
}

async function everyUser(
  { users }: Pick<ResourcesReader, 'users'>,
  organisationId: string,
): Promise<readonly UserRecord[]> {
  const found: UserRecord[] = [];
  for (;;) {
    const page = await users.all(organisationId, found.at(-1)?.id ?? '');
    if (page.length === 0) return found;
    for (const user of page) found.push(user);
  }
}

async function everyMember(
  { members }: Pick<ResourcesReader, 'members'>,
  organisationId: string,
): Promise<readonly MemberRecord[]> {
  const found: MemberRecord[] = [];
  for (;;) {
    const { workspaceId, userId } = found.at(-1) ?? { workspaceId: '', userId: '' };
    const page = await members.all(organisationId, { workspaceId, userId });
    if (page.length === 0) return found;
    for (const member of page) found.push(member);
  }
}
