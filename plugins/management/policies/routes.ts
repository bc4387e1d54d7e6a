import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { PolicyCondition } from '../../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { places, storedRecords } from '../shared/records.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { Identifier, ManagedBy, Name, orNull, strict } from '../shared/fields.ts';

/** The kinds of records that are policies. */
export type PolicyRecordKind = 'rate_limit_policy' | 'usage_limit_policy';

type Schema = ReturnType<typeof Type.Object>;

/** Differences between the two kinds of policies. */
export interface PolicyKind<K extends PolicyRecordKind> {
  readonly kind: K;
  /** The first part of the operation ids. */
  readonly routes: string;
  readonly path: string;
  /** The name of the path's parameter. */
  readonly parameter: string;
  /** For messages: `rate-limit policy`. */
  readonly words: string;
  /** Filters of the list that the store does not support: fields of the record's data. */
  readonly filters: Parameters<typeof Type.Object>[0];
  /** Query parameters of `GET` of one policy, beside `status`. */
  readonly readQuery: Parameters<typeof Type.Object>[0];
  readonly reply: Schema;
  /** Converts a stored policy to the shape of `reply`. */
  show(record: StoredRecord<K>, query?: Readonly<Record<string, unknown>>): Record<string, unknown>;
}

/** Members of an answer about a policy of either kind. */
const policyReplyFields = {
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  workspace_id: orNull(Type.String({ description: 'Null for a policy of the whole organisation.' })),
  organisation_id: Type.String(),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  managed_by: ManagedBy,
};

/** What policies of every kind have in common. */
export const policyRecords = {
  replyFields: policyReplyFields,
  showCondition,
  show: showPolicy,
  routes: policyRoutes,
  params: policyParams,
  id: policyId,
  visible: visiblePolicy,
  changeable: changeablePolicy,
};

/** Converts a condition to its shape in answers. */
function showCondition(condition: PolicyCondition) {
  const list = (said: PolicyCondition['value']) => (typeof said === 'string' ? said : [...said]);
  const { key, value, excludes } = condition;
  return { key, value: list(value), ...(excludes !== undefined && { excludes: list(excludes) }) };
}

/** Values of `policyReplyFields`. */
function showPolicy(record: StoredRecord<PolicyRecordKind>) {
  return {
    status: record.status,
    workspace_id: record.workspaceId ?? null,
    organisation_id: record.organisationId,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    managed_by: record.managedBy ?? ('api' as const),
  };
}

const Status = Type.Optional(
  Type.Union([Type.Literal('active'), Type.Literal('archived')], { description: 'Only those.' }),
);
/** The routes that both kinds of policies share: list, get, archive. */
function policyRoutes<K extends PolicyRecordKind>(
  kind: PolicyKind<K>,
  scope: Scope,
): readonly RouteDefinition[] {
  return [listRoute(kind), getRoute(kind), archiveRoute(kind, scope)];
}

function listRoute<K extends PolicyRecordKind>(kind: PolicyKind<K>): RouteDefinition {
  return defineRoute({
    id: `${kind.routes}.list`,
    method: 'GET',
    path: kind.path,
    summary: `The ${kind.words}s that the key may see, oldest first`,
    scope: 'policies.list',
    feature: 'policies',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...paging.query,
        workspace_id: Type.Optional(Name('Only those of this workspace: its id or slug.')),
        status: Type.Optional(
          Type.Union([Type.Literal('active'), Type.Literal('archived')], { default: 'active' }),
        ),
        ...kind.filters,
      },
      strict,
    ),
    reply: Type.Object({ ...listReplies.of, data: Type.Array(kind.reply) }),
    async handle({ query, key, read }) {
      const page = paging.of(query);
      const wanted: Readonly<Record<string, unknown>> = query;
      const { total, data } = await read(async (reader) => {
        const { organisationId, workspaceId } = await places.ofList(reader, key, query.workspace_id);
        const filter = {
          status: query.status ?? 'active',
          ...(workspaceId !== undefined && { workspaceId }),
        };
        const fields = Object.keys(kind.filters).filter((name) => wanted[name] !== undefined);
        if (fields.length === 0) return reader.records.list(kind.kind, organisationId, filter, page);
        // The store cannot filter by the fields of a kind.
        const found = (await storedRecords.every(reader, kind.kind, organisationId, filter)).filter(
          ({ data }) => {
            const whole = { target: 'llm', ...data };
            return fields.every((name) => Reflect.get(whole, name) === wanted[name]);
          },
        );
        return { total: found.length, data: found.slice(page.offset, page.offset + page.limit) };
      });
      return { object: 'list' as const, total, data: data.map((record) => kind.show(record)) };
    },
  });
}

function getRoute<K extends PolicyRecordKind>(kind: PolicyKind<K>): RouteDefinition {
  return defineRoute({
    id: `${kind.routes}.get`,
    method: 'GET',
    path: `${kind.path}/{${kind.parameter}}`,
    summary: `One ${kind.words}`,
    scope: 'policies.read',
    feature: 'policies',
    // Reads only.
    audit: null,
    params: policyParams(kind),
    query: Type.Object({ status: Status, ...kind.readQuery }, strict),
    reply: kind.reply,
    async handle({ params, query, key, read, sendVersion }) {
      const id = policyId(kind, params);
      const record = await read((reader) => visiblePolicy(reader, key, kind, id));
      if (query.status !== undefined && record.status !== query.status)
        throw storedRecords.noSuch(kind.words, id);
      sendVersion(record.version);
      return kind.show(record, query);
    },
  });
}

function archiveRoute<K extends PolicyRecordKind>(kind: PolicyKind<K>, { clock }: Scope): RouteDefinition {
  return defineRoute({
    id: `${kind.routes}.delete`,
    method: 'DELETE',
    path: `${kind.path}/{${kind.parameter}}`,
    summary: `Archives a ${kind.words}: it limits no requests from then on`,
    scope: 'policies.delete',
    feature: 'policies',
    audit: 'delete',
    params: policyParams(kind),
    reply: Type.Object({}),
    async handle({ params, key, write, requireVersion }) {
      await write(async (writer) => {
        const before = await visiblePolicy(writer, key, kind, policyId(kind, params));
        places.requireOwn(key, before, kind.words);
        requireVersion(before.version);
        const { id, workspaceId } = before;
        if (before.status === 'archived') return { id, workspaceId, result: undefined };
        await storedRecords.change(writer, before, { status: 'archived' }, key, clock.now());
        return { id, workspaceId, result: undefined };
      });
      return {};
    },
  });
}

/** Schema of the path's only parameter. */
function policyParams({ parameter }: Pick<PolicyKind<PolicyRecordKind>, 'parameter'>) {
  return Type.Object({ [parameter]: Identifier });
}

/** The id in the path. */
function policyId(
  { parameter }: Pick<PolicyKind<PolicyRecordKind>, 'parameter'>,
  params: Readonly<Record<string, string>>,
): string {
  return params[parameter] ?? '';
}

/** The policy with this id. Throws `resource_not_found` when there is none within the key's reach. */
function visiblePolicy<K extends PolicyRecordKind>(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  { kind, words: noun }: PolicyKind<K>,
  id: string,
): Promise<StoredRecord<K>> {
  return storedRecords.visible(reader, key, { kind, noun, idOrSlug: id });
}

/** The same, for a change. Throws `resource_conflict` when archived, `scope_missing` when the key does not own it. */
async function changeablePolicy<K extends PolicyRecordKind>(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  kind: PolicyKind<K>,
  id: string,
): Promise<StoredRecord<K>> {
  const found = await visiblePolicy(reader, key, kind, id);
  places.requireOwn(key, found, kind.words);
  if (found.status === 'active') return found;
  throw new GatewayError(
    'resource_conflict',
    `The ${kind.words} "${found.name}" is archived and cannot be changed any more. Create another one.`,
  );
}
