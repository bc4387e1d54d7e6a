import { accessTo } from '../../access/integration-access.ts';
import type {
  RecordFilter,
  RecordKind,
  RecordsReader,
  RecordsWriter,
  RecordVersion,
  StoredRecord,
} from '../../ports/records.ts';
import { fileId } from './file-id.ts';
import type { FileRecords } from './file-records.ts';
import { listed, refuseOwned, refuseTwin } from './owned-guard.ts';

/** What messages call the kinds that a file can own. */
const nouns: { readonly [K in RecordKind]?: string } = {
  rate_limit_policy: 'rate-limit policy',
  usage_limit_policy: 'usage-limit policy',
};

function named({ kind, name }: StoredRecord): string {
  return `${nouns[kind] ?? kind} "${name}"`;
}

/** The records of the store behind those that the file owns. */
export function recordsReader(stored: RecordsReader, records: FileRecords): RecordsReader {
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
      const wanted = own.filter((one) => isWanted(one, filter) && isUsable(one, filter, records));
      return listed(wanted, page, (rest) => stored.list(kind, organisation, filter, rest));
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

/** The same for changes: what the file owns is refused, and so is what would be its twin. */
export function recordsWriter(
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

function isWanted(record: StoredRecord, filter: RecordFilter): boolean {
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

/** In the store these are of workspaces alone: those that the file has for all of them belong to each. */
function isShared({ kind, workspaceId }: StoredRecord): boolean {
  return workspaceId === undefined && (kind === 'config' || kind === 'provider');
}

/** A provider for all workspaces is one of those alone that may use its integration. */
function isUsable(record: StoredRecord, { workspaceId }: RecordFilter, { resources }: FileRecords): boolean {
  if (workspaceId === undefined || record.kind !== 'provider') return true;
  const integration = resources.table.find('integration', workspaceId, record.parentId);
  return integration === undefined || accessTo(integration, workspaceId) !== undefined;
}

/** What stands in the file has no history. */
function onlyVersion<K extends RecordKind>(record: StoredRecord<K>): RecordVersion<K> {
  const { id: recordId, organisationId, name, data, createdBy, createdAt } = record;
  return {
    ...{ id: fileId(organisationId, 'version', recordId), recordId, number: 1, name, data },
    ...{ description: '', labelId: '', createdBy, createdAt },
  };
}
