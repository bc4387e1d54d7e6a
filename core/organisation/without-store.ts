import { defaultSecurity } from '../ports/organisation-settings.ts';
import type { Directory } from '../ports/directory.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { ResourcesReader } from '../ports/resources.ts';

/** The directory's data from a store. */
export type DirectoryOfStore = Pick<
  Directory,
  | 'standing'
  | 'keyById'
  | 'isArchived'
  | 'workspaceId'
  | 'defaultsOf'
  | 'rateLimitsOf'
  | 'usageLimitsOf'
  | 'settingsIn'
  | 'user'
  | 'memberRole'
  | 'record'
  | 'records'
>;

/** The same without a store, or before its first read. */
export const withoutStore: DirectoryOfStore = {
  standing: () => 'current',
  keyById: () => undefined,
  isArchived: () => false,
  workspaceId: () => undefined,
  defaultsOf: () => nothing,
  rateLimitsOf: () => undefined,
  usageLimitsOf: () => undefined,
  settingsIn: () => defaultSecurity,
  user: () => undefined,
  memberRole: () => undefined,
  record: () => undefined,
  records: () => none,
};

const nothing = {};
const none: readonly never[] = [];

/** Error for an action that needs a store, in a gateway without one. */
export function noStore(): GatewayError {
  return new GatewayError(
    'not_supported',
    'This gateway administers nothing: its storage.resources is "none:". Set storage.resources.url to "pglite:./data/resources" or to a PostgreSQL server (postgres://…), and restart it.',
  );
}

/** Stands in for the reader of an unavailable store: every call rejects with `error`. */
export function readerWithoutStore(error: GatewayError): ResourcesReader {
  const refuse = (): Promise<never> => Promise.reject(error);
  return {
    organisations: { byId: refuse, list: refuse },
    workspaces: { find: refuse, list: refuse },
    apiKeys: {
      find: refuse,
      list: refuse,
      all: refuse,
      changedSince: refuse,
      removedSince: refuse,
      rotationsDue: refuse,
      untold: refuse,
    },
    users: { find: refuse, byEmail: refuse, list: refuse, workspaceIds: refuse, all: refuse },
    members: { find: refuse, list: refuse, all: refuse },
    invites: { find: refuse, byTokenHash: refuse, list: refuse },
    groupMappings: { find: refuse, list: refuse },
    settings: { ofOrganisation: refuse, ofWorkspace: refuse, ofWorkspaces: refuse },
    records: {
      find: refuse,
      list: refuse,
      versions: refuse,
      version: refuse,
      changedSince: refuse,
      removedSince: refuse,
      withSecrets: refuse,
    },
    audit: { list: refuse, chain: refuse, verify: refuse, head: refuse },
    marks: refuse,
  };
}
