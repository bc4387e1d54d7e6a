import { isDeepStrictEqual } from 'node:util';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { SettingsReader, SettingsWriter } from '../../ports/organisation-settings.ts';
import type {
  ApiKeyFilter,
  ApiKeyRecord,
  ApiKeysReader,
  ApiKeysWriter,
  OrganisationRecord,
  OrganisationsReader,
  Resources,
  ResourcesReader,
  ResourcesWriter,
  WorkspaceFilter,
  WorkspaceRecord,
  WorkspacesReader,
  WorkspacesWriter,
} from '../../ports/resources.ts';
import type { FileRecords } from './file-records.ts';
import { readerWithoutStore } from '../../organisation/without-store.ts';
import type { Page, Paged } from '../../ports/page.ts';
import { accessTo } from '../../access/integration-access.ts';
import type {
  RecordFilter,
  RecordKind,
  RecordsReader,
  RecordsWriter,
  RecordVersion,
  StoredRecord,
} from '../../ports/records.ts';
import { fileId } from './owned-file.ts';

/** Nouns of the kinds that a file can own, for messages. */
const nouns: { readonly [K in RecordKind]?: string } = {
  rate_limit_policy: 'rate-limit policy',
  usage_limit_policy: 'usage-limit policy',
};

function named({ kind, name }: StoredRecord): string {
  return `${nouns[kind] ?? kind} "${name}"`;
}

/** Records reader that puts the file's records before the store's. */
function recordsReader(stored: RecordsReader, records: FileRecords): RecordsReader {
  const { organisationId, resources } = records;
  const owned = <K extends RecordKind>(kind: K, organisation: string, id: string) =>
    organisation === organisationId ? resources.shown.find(kind, undefined, id) : undefined;
  return {
    async find(kind, place, idOrSlug) {
      const own =
        place.organisationId === organisationId
          ? resources.shown.find(kind, place.workspaceId, idOrSlug)
          : undefined;
      return own ?? (await stored.find(kind, place, idOrSlug));
    },
    list(kind, organisation, filter, page) {
      const own = organisation === organisationId ? resources.list(kind) : [];
      const wanted = own.filter((one) => matchesRecordFilter(one, filter) && isUsable(one, filter, records));
      return listWithStore(wanted, page, (rest) => stored.list(kind, organisation, filter, rest));
    },
    async versions(kind, organisation, recordId, page) {
      const own = owned(kind, organisation, recordId);
      if (own === undefined) return stored.versions(kind, organisation, recordId, page);
      return { total: 1, data: [onlyVersion(own)].slice(page.offset, page.offset + page.limit) };
    },
    async version(kind, organisation, recordId, wanted) {
      const own = owned(kind, organisation, recordId);
      if (own === undefined) return stored.version(kind, organisation, recordId, wanted);
      const only = onlyVersion(own);
      const isMeant =
        'number' in wanted ? wanted.number === only.number : 'id' in wanted && wanted.id === only.id;
      return isMeant ? only : undefined;
    },
    changedSince: (organisation, afterChange, kinds, afterId) =>
      stored.changedSince(organisation, afterChange, kinds, afterId),
    removedSince: (organisation, afterChange) => stored.removedSince(organisation, afterChange),
    withSecrets: (afterId) => stored.withSecrets(afterId),
  };
}

/** The same for writes: refuses changes to the file's records and duplicates of them. */
function recordsWriter(
  stored: RecordsReader & RecordsWriter,
  records: FileRecords,
): RecordsReader & RecordsWriter {
  const refuse = (kind: RecordKind, id: string): void => {
    const own = records.resources.shown.find(kind, undefined, id);
    if (own !== undefined) refuseOwned(records, own.id, `The ${named(own)}`);
  };
  return {
    ...recordsReader(stored, records),
    async insert(record) {
      const { kind, organisationId, workspaceId, slug } = record;
      if (organisationId === records.organisationId) {
        const twin = records.resources.shown.find(kind, workspaceId, slug);
        refuseTwin(records, twin, `A ${nouns[kind] ?? kind} with the slug "${slug}"`);
      }
      return stored.insert(record);
    },
    async replace(record) {
      refuse(record.kind, record.id);
      return stored.replace(record);
    },
    async remove(kind, organisationId, id) {
      refuse(kind, id);
      return stored.remove(kind, organisationId, id);
    },
    async addVersion(kind, organisationId, version) {
      refuse(kind, version.recordId);
      return stored.addVersion(kind, organisationId, version);
    },
    label: (kind, organisationId, versionId, labelId) =>
      stored.label(kind, organisationId, versionId, labelId),
  };
}

function matchesRecordFilter(record: StoredRecord, filter: RecordFilter): boolean {
  const { workspaceId, ofOrganisation, status, parentId, search, exactName } = filter;
  if (workspaceId !== undefined && record.workspaceId !== workspaceId && !isShared(record)) return false;
  if (ofOrganisation === true && record.workspaceId !== undefined) return false;
  if (status !== undefined && record.status !== status) return false;
  if (parentId !== undefined && record.parentId !== parentId) return false;
  if (exactName !== undefined && record.name !== exactName) return false;
  if (search === undefined) return true;
  const part = search.toLowerCase();
  return record.name.toLowerCase().includes(part) || record.slug.toLowerCase().includes(part);
}

/** Such store records belong to one workspace each; the file's shared ones belong to every workspace. */
function isShared({ kind, workspaceId }: StoredRecord): boolean {
  return workspaceId === undefined && (kind === 'config' || kind === 'provider');
}

/** A shared provider belongs only to workspaces that may use its integration. */
function isUsable(record: StoredRecord, { workspaceId }: RecordFilter, { resources }: FileRecords): boolean {
  if (workspaceId === undefined || record.kind !== 'provider') return true;
  const integration = resources.table.find('integration', workspaceId, record.parentId);
  return integration === undefined || accessTo(integration, workspaceId) !== undefined;
}

/** File records have no history. */
function onlyVersion<K extends RecordKind>(record: StoredRecord<K>): RecordVersion<K> {
  const { id: recordId, organisationId, name, data, createdBy, createdAt } = record;
  return {
    id: fileId(organisationId, 'version', recordId),
    recordId,
    number: 1,
    name,
    data,
    description: '',
    labelId: '',
    createdBy,
    createdAt,
  };
}

/**
 * The store with the records that the configuration owns: its workspaces, keys and records come first in every list.
 * Changes to them reject with `resource_conflict`, duplicates of them with `already_exists`. While the store is away,
 * reads that need only the file still succeed.
 */
export function withFileRecords(resources: Resources, current: () => FileRecords): Resources {
  return {
    write: (organisationId, work) =>
      resources.write(organisationId, (writer) => work(writerWithFile(writer, current()))),
    async read(work) {
      const records = current();
      try {
        return await resources.read((reader) => work(readerWithFile(reader, records)));
      } catch (error) {
        if (!GatewayError.is(error) || error.code !== 'store_unavailable') throw error;
        return work(readerWithFile(readerWithoutStore(error), records));
      }
    },
    changes: () => resources.changes(),
    onChange: (look) => resources.onChange(look),
    ping: () => resources.ping(),
    close: () => resources.close(),
  };
}

/** The reader with the records that the configuration owns. */
export function readerWithFile(reader: ResourcesReader, records: FileRecords): ResourcesReader {
  return {
    organisations: organisationsReader(reader.organisations, records),
    workspaces: workspacesReader(reader.workspaces, records),
    apiKeys: apiKeysReader(reader.apiKeys, records),
    users: reader.users,
    members: reader.members,
    invites: reader.invites,
    groupMappings: reader.groupMappings,
    settings: settingsReader(reader.settings, records),
    records: recordsReader(reader.records, records),
    audit: reader.audit,
    marks: (organisationId) => reader.marks(organisationId),
  };
}

function writerWithFile(writer: ResourcesWriter, records: FileRecords): ResourcesWriter {
  return {
    organisations: {
      ...organisationsReader(writer.organisations, records),
      ensure: (record) => writer.organisations.ensure(record),
    },
    workspaces: {
      ...workspacesReader(writer.workspaces, records),
      ...workspacesWriter(writer.workspaces, records),
    },
    apiKeys: { ...apiKeysReader(writer.apiKeys, records), ...apiKeysWriter(writer.apiKeys, records) },
    users: writer.users,
    members: writer.members,
    invites: writer.invites,
    groupMappings: writer.groupMappings,
    settings: { ...settingsReader(writer.settings, records), ...settingsWriter(writer.settings, records) },
    records: recordsWriter(writer.records, records),
    audit: writer.audit,
  };
}

function organisationsReader(stored: OrganisationsReader, records: FileRecords): OrganisationsReader {
  const named = (record: OrganisationRecord): OrganisationRecord =>
    records.name === undefined || record.id !== records.organisationId
      ? record
      : { ...record, name: records.name };
  return {
    async byId(id) {
      const found = await stored.byId(id);
      return found && named(found);
    },
    list: async () => (await stored.list()).map(named),
  };
}

function workspacesReader(stored: WorkspacesReader, records: FileRecords): WorkspacesReader {
  return {
    async find(organisationId, idOrSlug) {
      return records.workspace(organisationId, idOrSlug) ?? (await stored.find(organisationId, idOrSlug));
    },
    list(organisationId, filter, page) {
      const own = ofOrganisation(records.workspaces, organisationId, (one) => matchesFilter(one, filter));
      return listWithStore(own, page, (rest) => stored.list(organisationId, filter, rest));
    },
  };
}

function matchesFilter(record: WorkspaceRecord, { name, exactName, statuses }: WorkspaceFilter): boolean {
  if (statuses !== undefined && !statuses.includes(record.status)) return false;
  if (exactName !== undefined && record.name !== exactName) return false;
  return name === undefined || record.name.toLowerCase().includes(name.toLowerCase());
}

function workspacesWriter(stored: WorkspacesWriter, records: FileRecords): WorkspacesWriter {
  const requireNew = ({ id, organisationId, slug, name }: WorkspaceRecord): void => {
    if (organisationId !== records.organisationId) return;
    const twin = records.workspaces.find((one) => one.id !== id && (one.slug === slug || one.name === name));
    refuseTwin(
      records,
      twin,
      `A workspace ${twin?.name === name ? `named "${name}"` : `with the slug "${slug}"`}`,
    );
  };
  return {
    async insert(record) {
      requireNew(record);
      return stored.insert(record);
    },
    async replace(record) {
      const own = records.workspace(record.organisationId, record.id);
      refuseOwned(records, record.id, `The workspace "${own?.name ?? record.name}"`);
      requireNew(record);
      return stored.replace(record);
    },
  };
}

function apiKeysReader(stored: ApiKeysReader, records: FileRecords): ApiKeysReader {
  return {
    async find(organisationId, id) {
      return records.key(organisationId, id) ?? (await stored.find(organisationId, id));
    },
    list(organisationId, filter, page) {
      const own = ofOrganisation(records.apiKeys, organisationId, (one) => matchesKeyFilter(one, filter));
      return listWithStore(own, page, (rest) => stored.list(organisationId, filter, rest));
    },
    all: (afterId) => stored.all(afterId),
    changedSince: (organisationId, afterChange, afterId) =>
      stored.changedSince(organisationId, afterChange, afterId),
    removedSince: (organisationId, afterChange) => stored.removedSince(organisationId, afterChange),
    rotationsDue: (organisationId, now) => stored.rotationsDue(organisationId, now),
    untold: (organisationId, now, until) => stored.untold(organisationId, now, until),
  };
}

function matchesKeyFilter(record: ApiKeyRecord, filter: ApiKeyFilter): boolean {
  const { workspaceId, ids, types, userId, aliveAt } = filter;
  if (workspaceId !== undefined && record.workspaceId !== workspaceId) return false;
  if (ids !== undefined && !ids.includes(record.id)) return false;
  if (types !== undefined && !types.includes(record.type)) return false;
  if (userId !== undefined && record.userId !== userId) return false;
  return aliveAt === undefined || record.expiresAt === undefined || record.expiresAt > aliveAt;
}

function apiKeysWriter(stored: ApiKeysWriter, records: FileRecords): ApiKeysWriter {
  const requireNew = ({ organisationId, name, type, workspaceId }: ApiKeyRecord): void => {
    if (organisationId !== records.organisationId) return;
    const twin = records.apiKeys.find(
      (one) => one.name === name && one.type === type && one.workspaceId === workspaceId,
    );
    refuseTwin(records, twin, `A key of type ${type} named "${name}"`);
  };
  return {
    async insert(record) {
      requireNew(record);
      return stored.insert(record);
    },
    async replace(record) {
      const own = records.key(record.organisationId, record.id);
      refuseOwned(records, record.id, `The key "${own?.name ?? record.name}"`);
      requireNew(record);
      return stored.replace(record);
    },
    async remove(organisationId, id) {
      refuseOwned(records, id, `The key "${records.key(organisationId, id)?.name ?? id}"`);
      return stored.remove(organisationId, id);
    },
    removeOfUser: (organisationId, userId, workspaceId) =>
      stored.removeOfUser(organisationId, userId, workspaceId),
    expireDue: (organisationId, now) => stored.expireDue(organisationId, now),
    noteTold: (organisationId, id, told) => stored.noteTold(organisationId, id, told),
  };
}

function settingsReader(stored: SettingsReader, records: FileRecords): SettingsReader {
  return {
    async ofOrganisation(organisationId) {
      const settings = await stored.ofOrganisation(organisationId);
      const { defaults } = records;
      return defaults === undefined || organisationId !== records.organisationId
        ? settings
        : { ...settings, defaults };
    },
    ofWorkspace: (organisationId, workspaceId) => stored.ofWorkspace(organisationId, workspaceId),
    ofWorkspaces: (organisationId) => stored.ofWorkspaces(organisationId),
  };
}

function settingsWriter(stored: SettingsReader & SettingsWriter, records: FileRecords): SettingsWriter {
  return {
    async replaceOrganisation(settings) {
      const { organisationId, defaults } = settings;
      if (records.defaults === undefined || organisationId !== records.organisationId)
        return stored.replaceOrganisation(settings);
      if (!isDeepStrictEqual(defaults, records.defaults))
        throw ownedError(records.defaultsOwner, 'What requests begin with');
      // The store keeps its own defaults, not a copy of the file's: they apply again once the file has none.
      const before = await stored.ofOrganisation(organisationId);
      return stored.replaceOrganisation({ ...settings, defaults: before.defaults });
    },
    replaceWorkspace: (settings) => stored.replaceWorkspace(settings),
  };
}

function ofOrganisation<T extends { readonly organisationId: string }>(
  records: readonly T[],
  organisationId: string,
  wanted: (record: T) => boolean,
): readonly T[] {
  return records.filter((one) => one.organisationId === organisationId && wanted(one));
}

/** A page of a list that begins with `own`; the store is asked only for the rest. */
async function listWithStore<T>(
  own: readonly T[],
  { offset, limit }: Page,
  store: (rest: Page) => Promise<Paged<T>>,
): Promise<Paged<T>> {
  const shown = own.slice(offset, offset + limit);
  const rest = await store({
    offset: Math.max(0, offset - own.length),
    limit: Math.max(0, limit - shown.length),
  });
  return { total: own.length + rest.total, data: [...shown, ...rest.data] };
}

/** Throws `resource_conflict` for a record that the file owns. `subject`: `The key "batch"`. */
function refuseOwned(records: FileRecords, id: string, subject: string): void {
  const owner = records.ownerOf(id);
  if (owner !== undefined) throw ownedError(owner, subject);
}

/** Error for a change to a record of the file. */
function ownedError(owner: string, subject: string): GatewayError {
  return new GatewayError('resource_conflict', `${subject} is owned by ${owner}; change it there.`);
}

/** Throws `already_exists` when the file owns such a record. `subject`: `A key named "batch"`. */
function refuseTwin(records: FileRecords, twin: { readonly id: string } | undefined, subject: string): void {
  if (twin === undefined) return;
  throw new GatewayError(
    'already_exists',
    `${subject} is owned by ${records.ownerOf(twin.id) ?? 'the configuration'}; choose another name.`,
  );
}
