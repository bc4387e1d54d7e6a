import { defaultSettings } from '../../ports/organisation-settings.ts';
import type {
  OrganisationSettings,
  SettingsReader,
  SettingsWriter,
  WorkspaceSettings,
} from '../../ports/organisation-settings.ts';
import type {
  MemberRecord,
  MembersReader,
  MembersWriter,
  UserRecord,
  UsersReader,
  UsersWriter,
} from '../../ports/people.ts';
import type { RecordsReader, RecordsWriter, StoredRecord } from '../../ports/records.ts';
import type {
  ApiKeyRecord,
  ApiKeysReader,
  ApiKeysWriter,
  ChangeMarks,
  OrganisationRecord,
  Resources,
  ResourcesReader,
  ResourcesWriter,
  WorkspaceRecord,
  WorkspacesReader,
  WorkspacesWriter,
} from '../../ports/resources.ts';

type Marks = { -readonly [K in keyof ChangeMarks]: number };

/** In-memory store for the directory's reads, with the port's rules for changes; the rest is absent. */
export class StoreInMemory implements Resources {
  readonly keys = new Map<string, ApiKeyRecord & { readonly change: number }>();
  readonly workspaces = new Map<string, WorkspaceRecord>();
  readonly organisations = new Map<string, OrganisationRecord>();
  readonly users = new Map<string, UserRecord>();
  /** By workspace and user, separated by a blank. */
  readonly members = new Map<string, MemberRecord>();
  readonly settings = new Map<string, OrganisationSettings>();
  /** By workspace. */
  readonly overrides = new Map<string, WorkspaceSettings>();
  readonly records = new Map<string, StoredRecord>();
  /** By record: the change that stored it. */
  readonly recordChanges = new Map<string, number>();
  readonly marks = new Map<string, Marks>();
  readonly removedRecords: Removal[] = [];
  readonly removed: Removal[] = [];
  /** Page size of `changedSince` for records. */
  recordsAPage = 1000;
  readonly numbers = new Map<string, number>();
  readonly lookers = new Set<() => void>();
  /** Calls, in order. */
  readonly calls: string[] = [];
  /** Tables read, in order. */
  readonly reads: string[] = [];
  /** Thrown at every call while set. */
  away: Error | undefined;
  /** `changes` answers only after this promise. */
  held: Promise<void> | undefined;
  /** `read` answers only after this promise. */
  heldReads: Promise<void> | undefined;

  async write<T>(organisationId: string, work: (writer: ResourcesWriter) => Promise<T>): Promise<T> {
    this.#ask('write');
    const change = (this.numbers.get(organisationId) ?? 0) + 1;
    const result = await work(this.#writer(change));
    this.numbers.set(organisationId, change);
    return result;
  }

  async read<T>(work: (reader: ResourcesReader) => Promise<T>): Promise<T> {
    this.#ask('read');
    const result = await work(this.#writer(0));
    await this.heldReads;
    return result;
  }

  async changes(): Promise<ReadonlyMap<string, number>> {
    this.#ask('changes');
    const numbers = new Map(this.numbers);
    await this.held;
    return numbers;
  }

  onChange(look: () => void): () => void {
    this.lookers.add(look);
    return () => void this.lookers.delete(look);
  }

  ping = (): Promise<void> => Promise.resolve();
  close = (): Promise<void> => Promise.resolve();

  #ask(what: string): void {
    this.calls.push(what);
    if (this.away !== undefined) throw this.away;
  }

  #writer(change: number): ResourcesReader & ResourcesWriter {
    const { organisations } = this;
    return {
      audit: {
        list: absent,
        chain: absent,
        verify: absent,
        head: absent,
        append: async () => undefined,
        appendRefused: async () => undefined,
        removeRefused: async () => 0,
      },
      invites: {
        find: absent,
        byTokenHash: absent,
        list: absent,
        insert: absent,
        replace: absent,
        expireDue: absent,
      },
      groupMappings: { find: absent, list: absent, insert: absent, remove: absent },
      organisations: {
        byId: async (id) => organisations.get(id),
        list: async () => [...organisations.values()],
        ensure: async (record) => void organisations.set(record.id, record),
      },
      workspaces: this.#workspaces(change),
      apiKeys: this.#keys(change),
      users: this.#users(change),
      members: this.#members(change),
      settings: this.#settings(change),
      records: this.#records(change),
      marks: async (id) => ({ ...this.#marksOf(id) }),
    };
  }

  #marksOf(organisationId: string): Marks {
    const known = this.marks.get(organisationId) ?? { workspaces: 0, people: 0, settings: 0, records: 0 };
    this.marks.set(organisationId, known);
    return known;
  }

  #workspaces(change: number): WorkspacesReader & WorkspacesWriter {
    const put = (record: WorkspaceRecord): void => {
      this.workspaces.set(record.id, record);
      this.#marksOf(record.organisationId).workspaces = change;
    };
    return {
      find: async (_, id) => this.workspaces.get(id),
      insert: async (record) => put(record),
      replace: async (record) => (put(record), true),
      list: async (organisationId, filter, { offset, limit }) => {
        this.reads.push('workspaces');
        const wanted = filter.statuses;
        const all = ofOrganisation(this.workspaces, organisationId).filter(
          ({ status }) => wanted === undefined || wanted.includes(status),
        );
        return { total: all.length, data: all.slice(offset, offset + limit) };
      },
    };
  }

  #users(change: number): UsersReader & UsersWriter {
    const put = (record: UserRecord): void => {
      this.users.set(record.id, record);
      this.#marksOf(record.organisationId).people = change;
    };
    return {
      find: absent,
      byEmail: absent,
      workspaceIds: absent,
      list: async (organisationId) => ({
        total: ofOrganisation(this.users, organisationId).length,
        data: [],
      }),
      all: async (organisationId, afterId) => {
        this.reads.push('users');
        return ofOrganisation(this.users, organisationId)
          .filter(({ id }) => id > afterId)
          .sort((a, b) => (a.id < b.id ? -1 : 1))
          .slice(0, 1000);
      },
      insert: async (record) => put(record),
      replace: async (record) => (put(record), true),
      remove: async (organisationId, id) => {
        this.#marksOf(organisationId).people = change;
        for (const [place, { userId }] of this.members) if (userId === id) this.members.delete(place);
        return this.users.delete(id);
      },
    };
  }

  #members(change: number): MembersReader & MembersWriter {
    const place = ({ workspaceId, userId }: Pick<MemberRecord, 'workspaceId' | 'userId'>): string =>
      `${workspaceId} ${userId}`;
    const put = (record: MemberRecord): void => {
      this.members.set(place(record), record);
      this.#marksOf(record.organisationId).people = change;
    };
    return {
      find: absent,
      list: absent,
      all: async (organisationId, after) => {
        this.reads.push('members');
        return ofOrganisation(this.members, organisationId)
          .filter((one) => place(one) > place(after))
          .sort((a, b) => (place(a) < place(b) ? -1 : 1))
          .slice(0, 1000);
      },
      insert: async (record) => put(record),
      replace: async (record) => (put(record), true),
      remove: async (organisationId, workspaceId, userId) => {
        this.#marksOf(organisationId).people = change;
        return this.members.delete(place({ workspaceId, userId }));
      },
    };
  }

  #settings(change: number): SettingsReader & SettingsWriter {
    return {
      ofOrganisation: async (id) => {
        this.reads.push('settings');
        return this.settings.get(id) ?? defaultSettings(id);
      },
      ofWorkspace: absent,
      ofWorkspaces: async (id) => ofOrganisation(this.overrides, id),
      replaceOrganisation: async (settings) => {
        this.settings.set(settings.organisationId, settings);
        this.#marksOf(settings.organisationId).settings = change;
        return true;
      },
      replaceWorkspace: async (settings) => {
        this.overrides.set(settings.workspaceId, settings);
        this.#marksOf(settings.organisationId).settings = change;
        return true;
      },
    };
  }

  #records(change: number): RecordsReader & RecordsWriter {
    const put = (record: StoredRecord): void => {
      this.records.set(record.id, record);
      this.recordChanges.set(record.id, change);
      this.#marksOf(record.organisationId).records = change;
    };
    return {
      find: absent,
      list: absent,
      versions: absent,
      version: absent,
      withSecrets: absent,
      addVersion: absent,
      label: absent,
      changedSince: async (organisationId, after, kinds, afterId) => {
        this.reads.push('records');
        return ofOrganisation(this.records, organisationId)
          .filter(({ id, kind }) => id > afterId && kinds.includes(kind))
          .filter(({ id }) => (this.recordChanges.get(id) ?? 0) > after)
          .sort((a, b) => (a.id < b.id ? -1 : 1))
          .slice(0, this.recordsAPage);
      },
      removedSince: async (organisationId, after) => removedAfter(this.removedRecords, organisationId, after),
      insert: async (record) => put(record),
      replace: async (record) => (put(record), true),
      remove: async (_, organisationId, id) => {
        this.removedRecords.push({ organisationId, id, change });
        this.#marksOf(organisationId).records = change;
        return this.records.delete(id);
      },
    };
  }

  #keys(change: number): ApiKeysReader & ApiKeysWriter {
    const page = (wanted: (key: ApiKeyRecord & { readonly change: number }) => boolean) =>
      [...this.keys.values()]
        .filter(wanted)
        .sort((a, b) => (a.id < b.id ? -1 : 1))
        .slice(0, 1000);
    const put = (record: ApiKeyRecord): void => void this.keys.set(record.id, { ...record, change });
    return {
      find: async (_, id) => this.keys.get(id),
      list: () => Promise.reject(new Error('The directory never pages through lists.')),
      all: async (after) => {
        this.reads.push('keys');
        return page(({ id }) => id > after);
      },
      changedSince: async (organisationId, number, after) =>
        page((key) => key.organisationId === organisationId && key.change > number && key.id > after),
      removedSince: async (organisationId, number) => removedAfter(this.removed, organisationId, number),
      insert: async (record) => put(record),
      replace: async (record) => (put(record), true),
      remove: async (organisationId, id) => {
        this.removed.push({ organisationId, id, change });
        return this.keys.delete(id);
      },
      removeOfUser: absent,
      expireDue: absent,
      rotationsDue: absent,
      untold: absent,
      noteTold: absent,
    };
  }
}

interface Removal {
  readonly organisationId: string;
  readonly id: string;
  readonly change: number;
}

const absent = (): never => {
  throw new Error('This part of the store is not there.');
};

function ofOrganisation<T extends { readonly organisationId: string }>(
  records: ReadonlyMap<string, T>,
  organisationId: string,
): T[] {
  return [...records.values()].filter((one) => one.organisationId === organisationId);
}

function removedAfter(removed: readonly Removal[], organisationId: string, after: number): readonly string[] {
  return removed
    .filter((one) => one.organisationId === organisationId && one.change > after)
    .map(({ id }) => id);
}
