import { settingsIn } from '../../core/organisation/settings-in.ts';
import type { SecuritySettings } from '../../core/ports/organisation-settings.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';

/** What holds in a workspace, as the store has it within a transaction; the directory may be a second behind. */
export async function settingsInForce(
  { settings }: Pick<ResourcesReader, 'settings'>,
  organisationId: string,
  workspaceId: string,
): Promise<SecuritySettings> {
  const organisation = await settings.ofOrganisation(organisationId);
  const { overrides } = await settings.ofWorkspace(organisationId, workspaceId);
  return settingsIn(organisation, overrides);
}
