import type { RecordKind, RecordPlace, StoredRecord } from '../../ports/records.ts';

/** The only kinds in the directory: those that serve requests. */
export const directoryKinds: readonly RecordKind[] = [
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

/** Key for records of the organisation itself; no workspace has an empty id. */
const ofOrganisation = '';
const none: readonly never[] = [];

/** Active records of one organisation, in a form whose look-ups allocate nothing. */
export class RecordTable {
  readonly #byId = new Map<string, StoredRecord>();
  readonly #kinds: { [K in RecordKind]?: RecordsOfKind<K> } = {};

  /** Active record of the workspace, or else of the organisation. */
  find<K extends RecordKind>(
    kind: K,
    workspaceId: string | undefined,
    idOrSlug: string,
  ): StoredRecord<K> | undefined {
    const known = this.#byId.get(idOrSlug);
    if (known !== undefined && isOfKind(kind, known) && isVisibleIn(known, workspaceId)) return known;
    return this.#kinds[kind]?.bySlug(workspaceId, idOrSlug);
  }

  /** Records of the workspace followed by those of the organisation; the same array until one changes. */
  list<K extends RecordKind>(kind: K, workspaceId: string | undefined): readonly StoredRecord<K>[] {
    return this.#kinds[kind]?.list(workspaceId ?? ofOrganisation) ?? none;
  }

  /** Every record, in no order. */
  all(): readonly StoredRecord[] {
    return [...this.#byId.values()];
  }

  /** Adds the record, or replaces the one with its id. An archived record is only removed. */
  put<K extends RecordKind>(record: StoredRecord<K>): void {
    this.remove(record.id);
    if (record.status !== 'active') return;
    this.#byId.set(record.id, record);
    this.#ofKind(record.kind).add(record);
  }

  /** Removes the record with this id, if present. */
  remove(id: string): void {
    const known = this.#byId.get(id);
    if (known === undefined) return;
    this.#byId.delete(id);
    this.#ofKind(known.kind).remove(known);
  }

  #ofKind<K extends RecordKind>(kind: K): RecordsOfKind<K> {
    const kinds: { [One in K]?: RecordsOfKind<One> } = this.#kinds;
    return (kinds[kind] ??= new RecordsOfKind());
  }
}

/** The records of one kind, by workspace. */
class RecordsOfKind<K extends RecordKind> {
  readonly #places = new Map<string, RecordsInPlace<K>>();
  /** Lists of workspaces that have records of their own, until one changes. */
  readonly #lists = new Map<string, readonly StoredRecord<K>[]>();

  bySlug(workspaceId: string | undefined, slug: string): StoredRecord<K> | undefined {
    const own = workspaceId === undefined ? undefined : this.#places.get(workspaceId)?.slugs.get(slug);
    return own ?? this.#places.get(ofOrganisation)?.slugs.get(slug);
  }

  list(place: string): readonly StoredRecord<K>[] {
    const shared = this.#places.get(ofOrganisation)?.inOrder() ?? none;
    const own = place === ofOrganisation ? undefined : this.#places.get(place)?.inOrder();
    if (own === undefined) return shared;
    if (shared.length === 0) return own;
    let list = this.#lists.get(place);
    if (list === undefined) this.#lists.set(place, (list = own.concat(shared)));
    return list;
  }

  add(record: StoredRecord<K>): void {
    const name = record.workspaceId ?? ofOrganisation;
    let place = this.#places.get(name);
    if (place === undefined) this.#places.set(name, (place = new RecordsInPlace<K>()));
    place.add(record);
    this.#forget(name);
  }

  remove(record: StoredRecord<K>): void {
    const name = record.workspaceId ?? ofOrganisation;
    const place = this.#places.get(name);
    place?.remove(record);
    if (place?.isEmpty === true) this.#places.delete(name);
    this.#forget(name);
  }

  #forget(place: string): void {
    if (place === ofOrganisation) this.#lists.clear();
    else this.#lists.delete(place);
  }
}

/** The records of one kind in one workspace, or in the organisation itself. */
class RecordsInPlace<K extends RecordKind> {
  readonly slugs = new Map<string, StoredRecord<K>>();
  readonly #records = new Set<StoredRecord<K>>();
  #order: readonly StoredRecord<K>[] | undefined;

  get isEmpty(): boolean {
    return this.#records.size === 0;
  }

  /** Oldest first. */
  inOrder(): readonly StoredRecord<K>[] {
    this.#order ??= [...this.#records].sort(byAge);
    return this.#order;
  }

  add(record: StoredRecord<K>): void {
    this.#records.add(record);
    this.slugs.set(record.slug, record);
    this.#order = undefined;
  }

  remove(record: StoredRecord<K>): void {
    this.#records.delete(record);
    // Another record takes over the slug when the changes arrive in that order.
    if (this.slugs.get(record.slug) === record) this.slugs.delete(record.slug);
    this.#order = undefined;
  }
}

function byAge(one: StoredRecord, other: StoredRecord): number {
  if (one.createdAt !== other.createdAt) return one.createdAt - other.createdAt;
  return one.id < other.id ? -1 : 1;
}

function isVisibleIn(record: StoredRecord, workspaceId: RecordPlace['workspaceId']): boolean {
  return workspaceId === undefined || record.workspaceId === undefined || record.workspaceId === workspaceId;
}

function isOfKind<K extends RecordKind>(kind: K, record: StoredRecord): record is StoredRecord<K> {
  return record.kind === kind;
}
