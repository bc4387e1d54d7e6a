import { defaultSecurity } from './organisation-settings.ts';
import type { Directory } from './directory.ts';

/** What a directory knows of a store that there is none of, or that has not been read. */
export const withoutStore: Pick<
  Directory,
  | 'standing'
  | 'keyById'
  | 'isArchived'
  | 'workspaceId'
  | 'defaultsOf'
  | 'rateLimitsOf'
  | 'settingsIn'
  | 'user'
  | 'memberRole'
  | 'record'
  | 'records'
> = {
  standing: () => 'current',
  keyById: () => undefined,
  isArchived: () => false,
  workspaceId: () => undefined,
  defaultsOf: () => nothing,
  rateLimitsOf: () => undefined,
  settingsIn: () => defaultSecurity,
  user: () => undefined,
  memberRole: () => undefined,
  record: () => undefined,
  records: () => none,
};

const nothing = {};
const none: readonly never[] = [];
