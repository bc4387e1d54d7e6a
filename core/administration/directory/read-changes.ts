import type { StoredRecord, RecordKind } from '../../ports/records.ts';
import type { ChangeMarks, DirectoryKey, Resources } from '../../ports/resources.ts';
import type { KeyTable } from './key-table.ts';
import type { DirectoryWorkspace, KnownMember, KnownUser, OrganisationTable } from './organisation-table.ts';

/** The only kinds in the directory: those that serve requests. */
const directoryKinds: readonly RecordKind[] = [
  'config',
  'integration',
  'provider',
  'secret_reference',
  'rate_limit_policy',
  'usage_limit_policy',
  'guardrail',
  'deployment',
  'prompt',
  'prompt_partial',
  'label',
  'mcp_integration',
  'mcp_server',
  'mcp_virtual_server',
];

/** Page size of `all` and `changedSince`. */
const rowsAPage = 1000;

const workspacesAPage = 100;

/** Data that the directory reads from the store. */
export interface Known {
  readonly keys: KeyTable;
  readonly organisations: OrganisationTable;
}

/** Part of the store that reading needs. */
export type StoreReader = Pick<Resources, 'read'>;

/** Calls `add` with every key of the store, page by page. May miss concurrent changes: read those afterwards. */
export async function readAllKeys(store: StoreReader, add: (key: DirectoryKey) => void): Promise<void> {
  await readPages(
    (after: string) => store.read(({ apiKeys }) => apiKeys.all(after)),
    '',
    ({ id }) => id,
    add,
  );
}

/** Scope and destination of `readChanged`. */
interface ChangedPart {
  readonly organisationId: string;
  /** Change of the organisation up to which its keys are known. */
  readonly after: number;
  readonly known: Known;
  /** False once the result is abandoned: `known` stays unchanged from then on. */
  readonly isWanted: () => boolean;
}

/**
 * Reads the changes of an organisation: its changed keys, and those parts of its workspaces, settings and people that
 * have changed since they were read. A part that changes during the read is read again, because its mark was taken
 * first. All changes apply at the same moment: a request never meets a key without its config.
 */
export async function readChanged(store: StoreReader, part: ChangedPart): Promise<void> {
  const { organisationId, known, isWanted } = part;
  const { stored, removed, marks } = await readKeyChanges(store, part);
  const { organisations } = known;
  const seen = organisations.view(organisationId);
  const changed = <T>(name: keyof ChangeMarks, read: () => Promise<T>): Promise<T> | undefined =>
    marks[name] === seen.marks[name] ? undefined : read();

  const workspaces = await changed('workspaces', () => readWorkspaces(store, organisationId));
  const settings = await changed('settings', () => readSettings(store, organisationId));
  const people = await changed('people', () => readPeople(store, organisationId));
  const records = await changed('records', () =>
    readRecordChanges(store, organisationId, seen.marks.records),
  );
  if (!isWanted()) return;

  for (const id of removed) known.keys.remove(id);
  for (const key of stored) known.keys.put(key);
  if (workspaces !== undefined) organisations.putWorkspaces(organisationId, workspaces);
  if (settings !== undefined) seen.putSettings(settings.own, settings.overriding);
  if (people !== undefined) organisations.putPeople(organisationId, people.users, people.members);
  for (const id of records?.removed ?? []) seen.records.remove(id);
  for (const record of records?.stored ?? []) seen.records.put(record);
  Object.assign(seen.marks, marks);
}

interface KeyChanges {
  readonly stored: readonly DirectoryKey[];
  readonly removed: readonly string[];
  readonly marks: ChangeMarks;
}

/** Reads on one consistent view. */
function readKeyChanges(store: StoreReader, { organisationId, after }: ChangedPart): Promise<KeyChanges> {
  return store.read(async ({ apiKeys, marks }) => {
    const removed = await apiKeys.removedSince(organisationId, after);
    const stored: DirectoryKey[] = [];
    await readPages(
      (afterId: string) => apiKeys.changedSince(organisationId, after, afterId),
      '',
      ({ id }) => id,
      (key) => stored.push(key),
    );
    return { stored, removed, marks: await marks(organisationId) };
  });
}

interface RecordChanges {
  readonly stored: readonly StoredRecord[];
  readonly removed: readonly string[];
}

/** Records stored and removed by changes after `after`. A removal during the read appears at the next look. */
async function readRecordChanges(
  store: StoreReader,
  organisationId: string,
  after: number,
): Promise<RecordChanges> {
  const removed = await store.read(({ records }) => records.removedSince(organisationId, after));
  const stored: StoredRecord[] = [];
  for (let page: readonly StoredRecord[]; ; stored.push(...page)) {
    const afterId = stored.at(-1)?.id ?? '';
    page = await store.read(({ records }) =>
      records.changedSince(organisationId, after, directoryKinds, afterId),
    );
    // Pages are bounded in bytes too: a short one need not be the last.
    if (page.length === 0) return { stored, removed };
  }
}

async function readWorkspaces(
  store: StoreReader,
  organisationId: string,
): Promise<readonly DirectoryWorkspace[]> {
  return store.read(async ({ workspaces }) => {
    const found: DirectoryWorkspace[] = [];
    for (let more = true; more;) {
      const page = { offset: found.length, limit: workspacesAPage };
      const { data, total } = await workspaces.list(organisationId, {}, page);
      for (const { id, slug, status, defaults, rateLimits, usageLimits, createdAt } of data)
        found.push({ id, slug, status, defaults, rateLimits, usageLimits, createdAt });
      more = data.length > 0 && found.length < total;
    }
    return found;
  });
}

async function readSettings(store: StoreReader, organisationId: string) {
  return store.read(async ({ settings }) => ({
    own: await settings.ofOrganisation(organisationId),
    overriding: await settings.ofWorkspaces(organisationId),
  }));
}

async function readPeople(store: StoreReader, organisationId: string) {
  const users = await readUsers(store, organisationId);
  return { users, members: await readMembers(store, organisationId) };
}

async function readUsers(store: StoreReader, organisationId: string): Promise<readonly KnownUser[]> {
  const found: KnownUser[] = [];
  await readPages(
    (after: string) => store.read(({ users }) => users.all(organisationId, after)),
    '',
    ({ id }) => id,
    ({ id, email, role }) => found.push({ id, email, role }),
  );
  return found;
}

async function readMembers(store: StoreReader, organisationId: string): Promise<readonly KnownMember[]> {
  const found: KnownMember[] = [];
  await readPages(
    (after: { readonly workspaceId: string; readonly userId: string }) =>
      store.read(({ members }) => members.all(organisationId, after)),
    { workspaceId: '', userId: '' },
    (last) => last,
    ({ workspaceId, userId, role }) => found.push({ workspaceId, userId, role }),
  );
  return found;
}

/** Reads pages, each after the last row of the previous one. */
async function readPages<T, A>(
  pageAfter: (after: A) => Promise<readonly T[]>,
  from: A,
  placeOf: (row: T) => A,
  add: (row: T) => void,
): Promise<void> {
  let next = pageAfter(from);
  for (;;) {
    const page = await next;
    const last = page.at(-1);
    const behind = last === undefined || page.length < rowsAPage ? undefined : placeOf(last);
    // The store prepares the next page while this one is added.
    if (behind !== undefined) next = pageAfter(behind);
    next.catch(() => undefined);
    for (const row of page) add(row);
    if (behind === undefined) return;
  }
}
