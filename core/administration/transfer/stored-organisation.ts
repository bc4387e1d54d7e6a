import type { OrganisationSettings, WorkspaceSettings } from '../../ports/organisation-settings.ts';
import type { GroupMappingRecord, InviteRecord, MemberRecord, UserRecord } from '../../ports/people.ts';
import type {
  ApiKeyRecord,
  OrganisationRecord,
  ResourcesReader,
  WorkspaceRecord,
} from '../../ports/resources.ts';
import type { Page, Paged } from '../../ports/page.ts';
import { stringify } from 'yaml';
import { exported, isoOf } from './export-records.ts';
import { type ExportedOrganisationData, exportFormat } from './export-schema.ts';

const introduction = `# What a store of Weir holds, without its audit trails: \`weir import FILE\` puts it into another one.
# Of keys there are only hashes; secrets of records are sealed, for gateways that have the same key (WEIR_SECRET_KEY).
# Names and e-mail addresses are readable: keep it like a backup.
`;

/**
 * The organisations as a file for `weir import`, with its number of values: of every key, every item, every list and
 * object. Equal records give equal text.
 */
export function exportText(stored: readonly StoredOrganisation[]): {
  readonly text: string;
  readonly values: number;
} {
  const organisations = stored.map(showOrganisation);
  const content = { format: exportFormat, organisations };
  const text = introduction + stringify(content, { lineWidth: 0, aliasDuplicateObjects: false });
  return { text, values: countValues(organisations) };
}

function countValues(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  let count = 1;
  for (const member of Object.values(value)) count += countValues(member);
  return count;
}

/** An organisation in the file's form. */
function showOrganisation(stored: StoredOrganisation): ExportedOrganisationData {
  const settings = exported.settings.show(stored.settings);
  const { id, name, createdAt } = stored.organisation;
  return {
    id,
    name,
    created_at: isoOf(createdAt),
    ...(settings !== undefined && { settings }),
    workspaces: stored.workspaces.map(exported.workspace.show),
    workspace_settings: stored.overrides.map(exported.overrides.show),
    users: stored.users.map(exported.user.show),
    members: stored.members.map(exported.member.show),
    keys: stored.keys.map(exported.key.show),
    invites: stored.invites.filter(({ status }) => status === 'pending').map(exported.invite.show),
    group_mappings: stored.mappings.map(exported.mapping.show),
  };
}

const recordsAPage = 100;

/** Everything that the store holds of an organisation except its audit trail, in the store's order. */
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

/** Reads a whole organisation, on the view of `reader`. */
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
