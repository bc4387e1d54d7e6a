import { randomUUID } from 'node:crypto';
import { type Static, type TObject, type TProperties, type TSchema, Type } from 'typebox';
import type { Feature } from '../../../core/access/features.ts';
import {
  defineRoute,
  type RouteData,
  type RouteDefinition,
  type RouteExamples,
  type RouteInput,
} from '../../../core/pipeline/define-route.ts';
import type { Scope } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import type { RecordKind, StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter } from '../../../core/ports/resources.ts';
import { Identifier, strict } from './fields.ts';
import { type RecordChange, storedRecords } from './records.ts';
import { listReplies, paging } from './replies.ts';

/** Action of a route; the second part of its scope. */
export type RecordAction = 'create' | 'list' | 'read' | 'update' | 'delete';

/** True for actions that change nothing. */
export function isReading(action: RecordAction): boolean {
  return action === 'list' || action === 'read';
}

/** A record named in a path, and the workspace from the body or the query. */
interface NamedInPath {
  readonly idOrSlug: string;
  readonly workspace: string | undefined;
}

type Call<Q, B> = RouteInput<unknown, Q, B>;
type Promised<T> = T | Promise<T>;
type PathParams = TObject<Record<string, typeof Identifier>>;

/** Common parameters of all routes of one kind of record. */
interface ResourceHead<K extends RecordKind> {
  readonly kind: K;
  /** Noun in messages: `secret reference`. */
  readonly noun: string;
  /** First part of the operation ids: `secret_references`. */
  readonly operations: string;
  /** `/secret-references` */
  readonly path: string;
  /** Name of the parameter in the path of one record: `secretReferenceId`. */
  readonly parameter: string;
  readonly scopes: (action: RecordAction) => string | readonly string[];
  readonly feature?: Feature;
  /** Throws when the caller may not perform the action at all. Runs before any read. */
  admit?(caller: Pick<RouteInput<unknown, unknown, unknown>, 'key' | 'role'>, action: RecordAction): void;
  /** Default: `visibleRecord`. Throws `resource_not_found`. */
  find?(
    reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
    key: KeyRecord,
    named: NamedInPath,
    action: RecordAction,
  ): Promise<StoredRecord<K>>;
  /** Throws when the caller may not perform the action on the record. */
  allow?(key: KeyRecord, record: StoredRecord<K>, action: RecordAction): void;
}

/** Common metadata of a route. */
interface Said {
  readonly summary: string;
  readonly examples?: RouteExamples;
}

/** Members of a new record that depend on its kind. */
interface MadeRecord<K extends RecordKind> extends Pick<StoredRecord<K>, 'slug' | 'name' | 'data'> {
  /** Undefined for a record of the organisation. */
  readonly workspaceId: string | undefined;
  /** Default: none. */
  readonly parentId?: string;
  /** Sealed. Default: none. */
  readonly secrets?: StoredRecord<K>['secrets'];
}

/** `prepare` of a route runs before the transaction: its errors take precedence over `resource_not_found`. */
interface Prepared<C, T> {
  prepare?(call: C): T;
}

/**
 * The routes that most kinds of records have: each method declares one of them, with the differences of the kind. They
 * find the record, check the caller's rights, compare versions (`If-Match`), store, and write the audit trail.
 */
export class RecordResource<K extends RecordKind> {
  readonly #head: ResourceHead<K>;
  readonly #clock: Scope['clock'];
  readonly #params: PathParams;

  constructor({ clock }: Pick<Scope, 'clock'>, head: ResourceHead<K>) {
    this.#head = head;
    this.#clock = clock;
    this.#params = Type.Object({ [head.parameter]: Identifier });
  }

  /** `POST /labels`: `make` returns the record for its new id; `show` runs after it is stored. */
  create<B extends TSchema, R extends TSchema, T>(
    route: Said &
      Prepared<Call<unknown, Static<B>>, T> & {
        readonly body: B;
        readonly reply: R;
        make(
          writer: ResourcesWriter,
          call: Call<unknown, Static<B>> & { readonly id: string; readonly prepared: T },
        ): Promised<MadeRecord<K>>;
        show(
          record: StoredRecord<K>,
          writer: ResourcesWriter,
          call: Call<unknown, Static<B>>,
        ): Promised<Static<R>>;
      },
  ): RouteDefinition {
    const { kind, path } = this.#head;
    return defineRoute<R, undefined, undefined, B>({
      ...this.#declared(route, 'create'),
      method: 'POST',
      path,
      audit: 'create',
      body: route.body,
      reply: route.reply,
      handle: async (input) => {
        const call = input as Call<unknown, Static<B>>;
        const { key, write, sendVersion } = call;
        this.#head.admit?.(call, 'create');
        const prepared = route.prepare?.(call) as T;
        const id = randomUUID();
        const by = key.userId || key.id;
        const now = this.#clock.now();
        const reply = await write(async (writer) => {
          const made = await route.make(writer, { ...call, id, prepared });
          const record = storedRecords.create(
            { kind, id, organisationId: key.organisationId, ...made },
            by,
            now,
          );
          await writer.records.insert(record);
          return { id, workspaceId: made.workspaceId, result: await route.show(record, writer, call) };
        });
        sendVersion(1);
        return reply;
      },
    });
  }

  /** `GET /labels`: `rows` reads the page, `show` converts an entry. `query` has the parameters beside the page. */
  list<Q extends TProperties, E extends TSchema>(
    route: Said &
      Prepared<Call<Static<TObject<Q>>, unknown>, void> & {
        readonly query: Q;
        readonly entry: E;
        rows(
          reader: ResourcesReader,
          call: Call<Static<TObject<Q>>, unknown>,
          page: Page,
        ): Promise<Paged<StoredRecord<K>>>;
        show(record: StoredRecord<K>, reader: ResourcesReader): Promised<Static<E>>;
      },
  ): RouteDefinition {
    return {
      ...this.#declared(route, 'list'),
      method: 'GET',
      path: this.#head.path,
      // Reads only.
      audit: null,
      query: Type.Object({ ...paging.query, ...route.query }, strict),
      reply: Type.Object({ ...listReplies.of, data: Type.Array(route.entry) }),
      handle: async (input) => {
        const call = input as Call<Static<TObject<Q>>, unknown>;
        this.#head.admit?.(call, 'list');
        route.prepare?.(call);
        const page = paging.of(call.query);
        return call.read(async (reader) => {
          const { total, data } = await route.rows(reader, call, page);
          const shown = [];
          for (const record of data) shown.push(await route.show(record, reader));
          return { object: 'list' as const, total, data: shown };
        });
      },
    };
  }

  /** `GET /labels/{labelId}` */
  get<R extends TSchema, Q extends TSchema | undefined = undefined>(
    route: Said &
      Prepared<Call<RouteData<Q>, unknown>, void> & {
        readonly query?: Q;
        readonly reply: R;
        show(record: StoredRecord<K>, reader: ResourcesReader): Promised<Static<R>>;
      },
  ): RouteDefinition {
    return defineRoute<R, PathParams, Q>({
      ...this.#declared(route, 'read'),
      method: 'GET',
      path: this.#onePath(),
      // Reads only.
      audit: null,
      params: this.#params,
      ...(route.query !== undefined && { query: route.query }),
      reply: route.reply,
      handle: async (call) => {
        this.#head.admit?.(call, 'read');
        route.prepare?.(call);
        const { record, reply } = await call.read(async (reader) => {
          const record = await this.#found(reader, call, 'read');
          return { record, reply: await route.show(record, reader) };
        });
        call.sendVersion(record.version);
        return reply;
      },
    });
  }

  /** `PUT /labels/{labelId}`: `change` returns the change of the record; `show` runs after it is stored. */
  update<B extends TSchema, R extends TSchema, T, Q extends TSchema | undefined = undefined>(
    route: Said &
      Prepared<Call<RouteData<Q>, RouteData<B>>, T> & {
        readonly query?: Q;
        readonly body: B;
        readonly reply: R;
        change(
          before: StoredRecord<K>,
          writer: ResourcesWriter,
          call: Call<RouteData<Q>, RouteData<B>> & { readonly prepared: T },
        ): Promised<RecordChange<K>>;
        show(record: StoredRecord<K>, writer: ResourcesWriter): Promised<Static<R>>;
        /** Runs after the change is stored. */
        afterwards?(record: StoredRecord<K>, call: Call<RouteData<Q>, RouteData<B>>): Promised<void>;
      },
  ): RouteDefinition {
    return defineRoute<R, PathParams, Q, B>({
      ...this.#declared(route, 'update'),
      method: 'PUT',
      path: this.#onePath(),
      audit: 'update',
      params: this.#params,
      ...(route.query !== undefined && { query: route.query }),
      body: route.body,
      reply: route.reply,
      handle: async (call) => {
        this.#head.admit?.(call, 'update');
        const prepared = route.prepare?.(call) as T;
        const { record, reply } = await call.write(async (writer) => {
          const before = await this.#found(writer, call, 'update');
          call.requireVersion(before.version);
          const change = await route.change(before, writer, { ...call, prepared });
          const record = await storedRecords.change(writer, before, change, call.key, this.#clock.now());
          const result = { record, reply: await route.show(record, writer) };
          return { id: record.id, workspaceId: record.workspaceId, result };
        });
        await route.afterwards?.(record, call);
        call.sendVersion(record.version);
        return reply;
      },
    });
  }

  /** `DELETE /labels/{labelId}`: removes the record with its versions. `requireUnused` throws `resource_conflict`. */
  remove<Q extends TSchema | undefined = undefined>(
    route: Said & {
      readonly query?: Q;
      requireUnused?(writer: ResourcesWriter, record: StoredRecord<K>): Promise<void>;
    },
  ): RouteDefinition {
    return defineRoute<TObject<Record<never, never>>, PathParams, Q>({
      ...this.#declared(route, 'delete'),
      method: 'DELETE',
      path: this.#onePath(),
      audit: 'delete',
      params: this.#params,
      ...(route.query !== undefined && { query: route.query }),
      reply: Type.Object({}),
      handle: async (call) => {
        this.#head.admit?.(call, 'delete');
        await call.write(async (writer) => {
          const record = await this.#found(writer, call, 'delete');
          call.requireVersion(record.version);
          await route.requireUnused?.(writer, record);
          const removed = await writer.records.remove(this.#head.kind, record.organisationId, record.id);
          if (!removed) throw storedRecords.stale();
          return { id: record.id, workspaceId: record.workspaceId, result: undefined };
        });
        return {};
      },
    });
  }

  /** The record of the path, checked for this action. */
  async #found(
    reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
    { params, query, body, key }: RouteInput<Readonly<Record<string, string>>, unknown, unknown>,
    action: RecordAction,
  ): Promise<StoredRecord<K>> {
    const head = this.#head;
    const { kind, noun, parameter } = head;
    const named = {
      idOrSlug: params[parameter] ?? '',
      workspace: workspaceIn(body) ?? workspaceIn(query),
    };
    const record =
      head.find === undefined
        ? await storedRecords.visible(reader, key, { kind, noun, ...named })
        : await head.find(reader, key, named, action);
    head.allow?.(key, record, action);
    return record;
  }

  #declared({ summary, examples }: Said, action: RecordAction) {
    const { operations, scopes, feature } = this.#head;
    return {
      id: `${operations}.${action === 'read' ? 'get' : action}`,
      summary,
      scope: scopes(action),
      ...(feature !== undefined && { feature }),
      ...(examples !== undefined && { examples }),
    };
  }

  #onePath(): string {
    const { path, parameter } = this.#head;
    return `${path}/{${parameter}}`;
  }
}

/** `workspace_id` (id or slug) of a validated body or query. */
function workspaceIn(said: unknown): string | undefined {
  if (typeof said !== 'object' || said === null || !('workspace_id' in said)) return undefined;
  return typeof said.workspace_id === 'string' ? said.workspace_id : undefined;
}
