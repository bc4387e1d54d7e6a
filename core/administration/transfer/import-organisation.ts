import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Resources, ResourcesWriter } from '../../ports/resources.ts';
import { exported } from './export-records.ts';
import type { ExportedOrganisationData } from './export-schema.ts';
import { RecordsImport, type ImportedRecords, type RecordsPlace } from './import-records.ts';
import { ImportTally, withoutDates, type ImportOptions, type ImportReport } from './import-tally.ts';
import { readOrganisation, type StoredOrganisation } from './stored-organisation.ts';

/** A membership of a user that neither the file nor the store has. `pointer` leads to it within the organisation. */
export class UnknownMember extends Error {
  readonly pointer: string;

  constructor(userId: string, index: number) {
    super(
      `there is no user "${userId}", neither in this file nor in the store; add one, or remove the member`,
    );
    this.name = 'UnknownMember';
    this.pointer = `/members/${index}/user_id`;
  }
}

/**
 * Imports an organisation of a file, in one transaction with its audit entry (plus one transaction per 2,000 further
 * lines of records). Missing records are added as they are; equal ones are left alone, whatever their dates; different
 * ones too, unless `replace`. `records` are those of the organisation; default: none. Rejects with `UnknownMember`,
 * `RecordMistake`, and like `Resources.write`; that transaction then imports nothing.
 */
export async function importOrganisation(
  resources: Pick<Resources, 'write'>,
  data: ExportedOrganisationData,
  options: ImportOptions,
  records?: ImportedRecords,
): Promise<ImportReport> {
  const { id, name } = data;
  const { total, organisation, workspaces, after } = await resources.write(id, async (writer) => {
    const found = await writer.organisations.byId(id);
    const organisation = found ?? { id, name, createdAt: Date.parse(data.created_at) };
    const tally = new ImportTally();
    if (found === undefined) await writer.organisations.ensure(organisation);
    tally.note('organisation', id, found === undefined ? 'added' : found.name === name ? 'equal' : 'kept');
    const stored = await readOrganisation(writer, organisation);
    await new OrganisationImport(writer, stored, options, tally).run(data);
    const workspaces = new Set([...data.workspaces, ...stored.workspaces].map((one) => one.id));
    const after =
      records &&
      (await new RecordsImport(writer, { ...records, workspaces, options }, tally).run({
        from: records.start,
        current: { isNew: false, isKept: true },
      }));
    if (tally.isChange) await writer.audit.append(auditEntry(id, options, tally.counts));
    return { total: tally, organisation, workspaces, after };
  });
  for (let next = after; records !== undefined && next !== undefined;) {
    const place: RecordsPlace = next;
    const batch = await resources.write(id, async (writer) => {
      const tally = new ImportTally();
      const setting = { ...records, workspaces, options };
      const rest = await new RecordsImport(writer, setting, tally).run(place);
      if (tally.isChange) await writer.audit.append(auditEntry(id, options, tally.counts));
      return { tally, rest };
    });
    total.add(batch.tally);
    next = batch.rest;
  }
  return total.report(organisation);
}

function auditEntry(organisationId: string, { now, file }: ImportOptions, counts: unknown) {
  return {
    id: randomUUID(),
    organisationId,
    workspaceId: '',
    at: now,
    ...({ actorType: 'system', actorId: 'weir import', actorName: 'weir import' } as const),
    action: 'import',
    resourceType: 'organisations',
    resourceId: organisationId,
    method: '',
    uri: file.slice(0, 2048),
    requestId: '',
    status: 200,
    clientIp: '',
    details: JSON.stringify(counts),
  };
}

interface Dated {
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly version: number;
}

/** Identity, comparison and storage of one kind of records. */
interface Kind<T> {
  readonly name: string;
  idOf(record: T): string;
  show(record: T): object;
  insert(record: T): Promise<void>;
  /** Replaces the stored record; false when that is impossible. */
  replace(record: T, stored: T): Promise<boolean>;
}

class OrganisationImport {
  readonly #writer: ResourcesWriter;
  readonly #stored: StoredOrganisation;
  readonly #options: ImportOptions;
  readonly #tally: ImportTally;

  constructor(
    writer: ResourcesWriter,
    stored: StoredOrganisation,
    options: ImportOptions,
    tally: ImportTally,
  ) {
    this.#writer = writer;
    this.#stored = stored;
    this.#options = options;
    this.#tally = tally;
  }

  async run(data: ExportedOrganisationData): Promise<void> {
    const { id } = data;
    const { workspaces, users, members, apiKeys, invites, groupMappings } = this.#writer;
    const stored = this.#stored;
    this.#requireUsers(data);
    await this.#putAll(
      data.workspaces.map((one) => exported.workspace.read(one, id)),
      stored.workspaces,
      {
        name: 'workspace',
        idOf: (one) => one.id,
        show: exported.workspace.show,
        insert: (one) => workspaces.insert(one),
        replace: (one, before) => workspaces.replace(this.#after(one, before)),
      },
    );
    await this.#putAll(
      data.users.map((one) => exported.user.read(one, id)),
      stored.users,
      {
        name: 'user',
        idOf: (one) => one.id,
        show: exported.user.show,
        insert: (one) => users.insert(one),
        replace: (one, before) => users.replace(this.#after(one, before)),
      },
    );
    await this.#putAll(
      data.members.map((one) => exported.member.read(one, id)),
      stored.members,
      {
        name: 'member',
        idOf: (one) => `${one.userId} in ${one.workspaceId}`,
        show: exported.member.show,
        insert: (one) => members.insert(one),
        replace: (one, before) => members.replace(this.#after(one, before)),
      },
    );
    await this.#putAll(
      data.keys.map((one) => exported.key.read(one, id)),
      stored.keys,
      {
        name: 'key',
        idOf: (one) => one.id,
        show: exported.key.show,
        insert: (one) => apiKeys.insert(one),
        replace: (one, before) => apiKeys.replace(this.#after(one, before)),
      },
    );
    await this.#putAll(
      data.invites.map((one) => exported.invite.read(one, id)),
      stored.invites,
      {
        name: 'invite',
        idOf: (one) => one.id,
        show: (one) => ({ ...exported.invite.show(one), status: one.status }),
        insert: (one) => invites.insert(one),
        // An invite that was accepted or cancelled meanwhile is not reopened.
        replace: async (one, before) =>
          before.status === 'pending' && invites.replace(this.#after(one, before)),
      },
    );
    await this.#putAll(
      data.group_mappings.map((one) => exported.mapping.read(one, id)),
      stored.mappings,
      {
        name: 'group mapping',
        idOf: (one) => one.id,
        show: exported.mapping.show,
        insert: (one) => groupMappings.insert(one),
        replace: async (one) => {
          await groupMappings.remove(id, one.id);
          await groupMappings.insert(one);
          return true;
        },
      },
    );
    await this.#putSettings(data);
  }

  #requireUsers({ members, users }: ExportedOrganisationData): void {
    const known = new Set([...users, ...this.#stored.users].map(({ id }) => id));
    const index = members.findIndex((one) => !known.has(one.user_id));
    const unknown = members[index];
    if (unknown !== undefined) throw new UnknownMember(unknown.user_id, index);
  }

  async #putAll<T>(records: readonly T[], stored: readonly T[], kind: Kind<T>): Promise<void> {
    const present = new Map(stored.map((one) => [kind.idOf(one), one]));
    for (const record of records) {
      const id = kind.idOf(record);
      const before = present.get(id);
      if (before === undefined) {
        await kind.insert(record);
        this.#tally.note(kind.name, id, 'added');
      } else if (isDeepStrictEqual(withoutDates(kind.show(record)), withoutDates(kind.show(before))))
        this.#tally.note(kind.name, id, 'equal');
      else {
        const isReplaced = this.#options.replace && (await kind.replace(record, before));
        this.#tally.note(kind.name, id, isReplaced ? 'replaced' : 'kept');
      }
    }
  }

  async #putSettings(data: ExportedOrganisationData): Promise<void> {
    const { id: organisationId } = data;
    const { settings: before } = this.#stored;
    const { settings } = this.#writer;
    const changed = { organisationId, updatedAt: this.#options.now };
    if (data.settings !== undefined) {
      const next = { ...exported.settings.read(data.settings), ...changed, version: before.version + 1 };
      await this.#put('settings', organisationId, {
        isNew: before.version === 0,
        isEqual: isDeepStrictEqual(data.settings, exported.settings.show(before)),
        store: () => settings.replaceOrganisation(next),
      });
    }
    for (const shown of data.workspace_settings) {
      const workspaceId = shown.workspace_id;
      const own = await settings.ofWorkspace(organisationId, workspaceId);
      const overrides = exported.overrides.read(shown);
      await this.#put('workspace settings', workspaceId, {
        isNew: own.version === 0,
        isEqual: isDeepStrictEqual(shown, exported.overrides.show(own)),
        store: () =>
          settings.replaceWorkspace({ ...changed, workspaceId, overrides, version: own.version + 1 }),
      });
    }
  }

  async #put(
    name: string,
    id: string,
    { isNew, isEqual, store }: { isNew: boolean; isEqual: boolean; store: () => Promise<boolean> },
  ): Promise<void> {
    if (isEqual) return this.#tally.note(name, id, 'equal');
    const isStored = (isNew || this.#options.replace) && (await store());
    this.#tally.note(name, id, !isStored ? 'kept' : isNew ? 'added' : 'replaced');
  }

  #after<T extends Dated>(record: T, { createdAt, version }: Dated): T {
    return { ...record, createdAt, updatedAt: this.#options.now, version: version + 1 };
  }
}
