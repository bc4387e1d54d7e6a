import type { Directory } from '../../ports/directory.ts';
import type { Resources, ResourcesReader } from '../../ports/resources.ts';
import type { Page, Paged } from '../../ports/page.ts';
import { defaultWorkspace } from './default-records.ts';
import { readerWithFile } from './file-records-resources.ts';
import type { FileRecords } from './file-records.ts';
import { noStore, readerWithoutStore } from '../../organisation/directory-without-store.ts';

/**
 * What the configuration owns, where there is no store: for reading. There are no people then; settings, invites and
 * the audit trail reject with `not_supported`.
 */
export function ownedAlone(
  current: () => FileRecords,
  place: Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'>,
): Pick<Resources, 'read'> {
  const reader = emptyReader(place);
  return { read: async (work) => work(readerWithFile(reader, current())) };
}

const nothing = () => Promise.resolve(undefined);
const noList = <T>(): Promise<Paged<T>> => Promise.resolve({ total: 0, data: [] });

function emptyReader({
  defaultOrganisationId: organisationId,
  defaultWorkspaceId,
}: Pick<Directory, 'defaultOrganisationId' | 'defaultWorkspaceId'>): ResourcesReader {
  const absent = readerWithoutStore(noStore());
  const organisation = { id: organisationId, name: 'Default organisation', createdAt: 0 };
  const workspace = defaultWorkspace(organisationId, defaultWorkspaceId, 0);
  return {
    ...absent,
    organisations: {
      byId: (id) => Promise.resolve(id === organisationId ? organisation : undefined),
      list: () => Promise.resolve([organisation]),
    },
    workspaces: {
      find(ofOrganisation, idOrSlug) {
        const isMeant = idOrSlug === workspace.id || idOrSlug === workspace.slug;
        return Promise.resolve(ofOrganisation === organisationId && isMeant ? workspace : undefined);
      },
      list(ofOrganisation, { name, exactName, statuses }, { offset, limit }: Page) {
        const isWanted =
          ofOrganisation === organisationId &&
          (statuses === undefined || statuses.includes('active')) &&
          (exactName === undefined || exactName === workspace.name) &&
          (name === undefined || workspace.name.toLowerCase().includes(name.toLowerCase()));
        const data = isWanted ? [workspace] : [];
        return Promise.resolve({ total: data.length, data: data.slice(offset, offset + limit) });
      },
    },
    apiKeys: { ...absent.apiKeys, find: nothing, list: noList },
    users: { ...absent.users, find: nothing, byEmail: nothing, list: noList },
    members: { ...absent.members, find: nothing, list: noList },
    records: { ...absent.records, find: nothing, list: noList, versions: noList, version: nothing },
  };
}
