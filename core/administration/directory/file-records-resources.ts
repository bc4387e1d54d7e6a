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
import { recordsReader, recordsWriter } from './file-stored-records.ts';
import { listed, ownedBy, refuseOwned, refuseTwin } from './owned-guard.ts';
import { readerWithoutStore } from '../../organisation/directory-without-store.ts';

/**
 * The store with what the configuration owns: its workspaces, keys and records stand before those of the store in every
 * list, and are refused (`resource_conflict`) where something would change them. What would be their twin is refused with
 * `already_exists`. While the store is away, what needs only the file is still read.
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

/** The reader with what the configuration owns. */
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
      const own = ofOrganisation(records.workspaces, organisationId, (one) => isWanted(one, filter));
      return listed(own, page, (rest) => stored.list(organisationId, filter, rest));
    },
  };
}

function isWanted(record: WorkspaceRecord, { name, exactName, statuses }: WorkspaceFilter): boolean {
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
      const own = ofOrganisation(records.apiKeys, organisationId, (one) => isWantedKey(one, filter));
      return listed(own, page, (rest) => stored.list(organisationId, filter, rest));
    },
    all: (afterId) => stored.all(afterId),
    changedSince: (organisationId, afterChange, afterId) =>
      stored.changedSince(organisationId, afterChange, afterId),
    removedSince: (organisationId, afterChange) => stored.removedSince(organisationId, afterChange),
  };
}

function isWantedKey(record: ApiKeyRecord, filter: ApiKeyFilter): boolean {
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
        throw ownedBy(records.defaultsOwner, 'What requests begin with');
      // What the file says is not copied into the store: what was there before holds again without it.
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
