import type { DirectoryKey, Resources } from '../ports/resources.ts';

/** `ApiKeysReader.all` and `changedSince` give so many at once. */
const keysAPage = 1000;
const workspacesAPage = 100;

/** What changes of an organisation left behind, as the directory needs it. */
export interface OrganisationChanges {
  readonly stored: readonly DirectoryKey[];
  readonly removed: readonly string[];
  /** Ids of all archived workspaces, whenever they were archived. */
  readonly archived: readonly string[];
}

/** Calls `add` with every key of the store, a page at a time. Changes meanwhile may be missing: read those after. */
export async function readAllKeys(
  resources: Pick<Resources, 'read'>,
  add: (key: DirectoryKey) => void,
): Promise<void> {
  let after = '';
  for (;;) {
    const from = after;
    const page = await resources.read((reader) => reader.apiKeys.all(from));
    for (const key of page) add(key);
    const last = page.at(-1);
    if (last === undefined || page.length < keysAPage) return;
    after = last.id;
  }
}

/** Reads what the changes of an organisation after this number left behind, on one consistent view. */
export function readChanges(
  resources: Pick<Resources, 'read'>,
  organisationId: string,
  afterChange: number,
): Promise<OrganisationChanges> {
  return resources.read(async ({ apiKeys, workspaces }) => {
    const removed = await apiKeys.removedSince(organisationId, afterChange);
    const stored: DirectoryKey[] = [];
    for (let more = true; more;) {
      const page = await apiKeys.changedSince(organisationId, afterChange, stored.at(-1)?.id ?? '');
      for (const key of page) stored.push(key);
      more = page.length === keysAPage;
    }
    const archived: string[] = [];
    for (let more = true; more;) {
      const part = { offset: archived.length, limit: workspacesAPage };
      const { data, total } = await workspaces.list(organisationId, { statuses: ['archived'] }, part);
      for (const { id } of data) archived.push(id);
      more = data.length > 0 && archived.length < total;
    }
    return { stored, removed, archived };
  });
}
