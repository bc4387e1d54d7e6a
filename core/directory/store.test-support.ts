import type {
  ApiKeyRecord,
  ApiKeysReader,
  OrganisationRecord,
  Resources,
  ResourcesReader,
  ResourcesWriter,
  WorkspaceRecord,
} from '../ports/resources.ts';

/** A key of a store; override what the test is about. */
export function storedKey(overrides: Partial<ApiKeyRecord> = {}): ApiKeyRecord {
  const id = overrides.id ?? 'key-1';
  return {
    id,
    organisationId: 'org-1',
    workspaceId: 'ws-1',
    userId: '',
    name: `name of ${id}`,
    description: '',
    type: 'workspace-service',
    status: 'active',
    scopes: ['completions.write'],
    rateLimits: [],
    usageLimits: undefined,
    defaults: {},
    alertEmails: [],
    masked: 'wk_ab…yz',
    secrets: [{ hash: `hash of ${id}`, expiresAt: undefined }],
    creationMode: 'api',
    expiresAt: undefined,
    createdAt: 1,
    updatedAt: 1,
    version: 1,
    ...overrides,
  };
}

/** A store of keys and workspaces in memory that follows the port's rules for changes; nothing else of it is there. */
export class StoreInMemory implements Resources {
  readonly keys = new Map<string, ApiKeyRecord & { readonly change: number }>();
  readonly workspaces = new Map<string, WorkspaceRecord>();
  readonly organisations = new Map<string, OrganisationRecord>();
  readonly removed: { readonly organisationId: string; readonly id: string; readonly change: number }[] = [];
  readonly numbers = new Map<string, number>();
  readonly lookers = new Set<() => void>();
  /** What was asked, in order. */
  readonly calls: string[] = [];
  /** Thrown at every call while it is set. */
  away: Error | undefined;
  /** What `changes` waits for with its answer. */
  held: Promise<void> | undefined;
  /** What `read` waits for with its answer. */
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

  #writer(change: number): ResourcesWriter {
    const { keys, workspaces, organisations, removed } = this;
    const absent = (): never => {
      throw new Error('This part of the store is not there.');
    };
    const put = (record: ApiKeyRecord): void => void keys.set(record.id, { ...record, change });
    return {
      audit: { list: absent, chain: absent, append: absent },
      organisations: {
        byId: async (id) => organisations.get(id),
        list: async () => [...organisations.values()],
        ensure: async (record) => void organisations.set(record.id, record),
      },
      workspaces: {
        find: async (_, id) => workspaces.get(id),
        insert: async (record) => void workspaces.set(record.id, record),
        replace: async (record) => (workspaces.set(record.id, record), true),
        list: async (organisationId, filter, { offset, limit }) => {
          const all = [...workspaces.values()].filter(
            (one) =>
              one.organisationId === organisationId && (filter.statuses ?? [one.status]).includes(one.status),
          );
          return { total: all.length, data: all.slice(offset, offset + limit) };
        },
      },
      apiKeys: {
        ...this.#keys(),
        insert: async (record) => put(record),
        replace: async (record) => (put(record), true),
        remove: async (organisationId, id) => {
          removed.push({ organisationId, id, change });
          return keys.delete(id);
        },
      },
    };
  }

  #keys(): ApiKeysReader {
    const page = (wanted: (key: ApiKeyRecord & { readonly change: number }) => boolean) =>
      [...this.keys.values()]
        .filter(wanted)
        .sort((a, b) => (a.id < b.id ? -1 : 1))
        .slice(0, 1000);
    return {
      find: async (_, id) => this.keys.get(id),
      list: () => Promise.reject(new Error('The directory never pages through lists.')),
      all: async (after) => page(({ id }) => id > after),
      changedSince: async (organisationId, number, after) =>
        page((key) => key.organisationId === organisationId && key.change > number && key.id > after),
      removedSince: async (organisationId, number) =>
        this.removed
          .filter((one) => one.organisationId === organisationId && one.change > number)
          .map(({ id }) => id),
    };
  }
}
