import type { DirectoryDefaults } from '../../ports/directory.ts';
import type { OrganisationDefaults } from '../../ports/organisation-settings.ts';

/** What requests begin with where `own` stands before `below`: metadata name by name, the config as a whole. */
export function mergeDefaults(own: OrganisationDefaults, below: OrganisationDefaults): DirectoryDefaults {
  const metadata = { ...below.metadata, ...own.metadata };
  const configId = own.configId ?? below.configId;
  return {
    ...(Object.keys(metadata).length > 0 && { metadata }),
    ...(configId !== undefined && { configId }),
    ...(own.configId !== undefined && { hasOwnConfig: true }),
  };
}
