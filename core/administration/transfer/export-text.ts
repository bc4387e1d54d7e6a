import { stringify } from 'yaml';
import {
  isoOf,
  showInvite,
  showKey,
  showMapping,
  showMember,
  showUser,
  showWorkspace,
} from './export-records.ts';
import { exportFormat, type ExportedOrganisationData } from './export-schema.ts';
import { showOverrides, showSettings } from './export-settings.ts';
import type { StoredOrganisation } from './stored-organisation.ts';

const introduction = `# What a store of Weir holds, without its audit trails: \`weir import FILE\` puts it into another one.
# Of keys there are only hashes; secrets of records are sealed, for gateways that have the same key (WEIR_SECRET_KEY).
# Names and e-mail addresses are readable: keep it like a backup.
`;

/** The organisations as the file that `weir import` reads; the same text for the same records. */
export function exportText(organisations: readonly StoredOrganisation[]): string {
  const content = { format: exportFormat, organisations: organisations.map(showOrganisation) };
  return introduction + stringify(content, { lineWidth: 0, aliasDuplicateObjects: false });
}

/** How many values the text of this content holds: every key's value, every item, every list and object. */
export function countValues(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  let count = 1;
  for (const member of Object.values(value)) count += countValues(member);
  return count;
}

/** An organisation as it stands in the file. */
export function showOrganisation(stored: StoredOrganisation): ExportedOrganisationData {
  const settings = showSettings(stored.settings);
  const { id, name, createdAt } = stored.organisation;
  return {
    ...{ id, name, created_at: isoOf(createdAt) },
    ...(settings !== undefined && { settings }),
    workspaces: stored.workspaces.map(showWorkspace),
    workspace_settings: stored.overrides.map(showOverrides),
    users: stored.users.map(showUser),
    members: stored.members.map(showMember),
    keys: stored.keys.map(showKey),
    invites: stored.invites.filter(({ status }) => status === 'pending').map(showInvite),
    group_mappings: stored.mappings.map(showMapping),
  };
}
