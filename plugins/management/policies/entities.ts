import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { type PolicyKind, type PolicyRecordKind, policyRecords } from './routes.ts';
import { Identifier, orNull, refusedBody, strict } from '../shared/fields.ts';
import type { BudgetUsage } from '../../../core/ports/budgets.ts';
import { storedRecords } from '../shared/records.ts';
import {
  conditionValues,
  type GivenRules,
  listOfValues,
  mapCondition,
  type PolicyKey,
  policyRulesOf,
} from '../../../core/organisation/policies.ts';
import type { PolicyCondition, PolicyRules } from '../../../core/ports/record-kinds.ts';

/** Rules of a policy for single entities. */
export const policyRules = {
  named: namedRules,
  changed: changedRules,
  routes: policyEntityRoutes,
  resetRoute: resetEntityRoute,
};

/** Owner of a policy; the organisation when it has no workspace. */
interface PolicyPlace {
  readonly organisationId: string;
  readonly workspaceId: string | undefined;
}

/** Sources for the look-up of names. */
interface NameSources extends PolicyPlace {
  readonly reader: Pick<ResourcesReader, 'records' | 'apiKeys' | 'workspaces'>;
  readonly router: Pick<Scope['router'], 'missingConfig'>;
}

/** The stored name, or undefined when the policy's workspace or organisation has none like it. */
type LookUp = (value: string, sources: NameSources) => Promise<string | undefined> | string | undefined;

/** Look-ups for keys whose values name records. Models and metadata are free text. */
const lookUps: Readonly<Partial<Record<PolicyKey, LookUp>>> = {
  async api_key(value, { reader, organisationId, workspaceId }) {
    const found = await reader.apiKeys.find(organisationId, value);
    return workspaceId === undefined || found?.workspaceId === workspaceId ? found?.id : undefined;
  },
  async workspace_id(value, { reader, organisationId, workspaceId }) {
    const found = await reader.workspaces.find(organisationId, value);
    return workspaceId === undefined || found?.id === workspaceId ? found?.id : undefined;
  },
  organisation_id: (value, { organisationId }) => (value === organisationId ? value : undefined),
  async config(value, sources) {
    const found = await sources.reader.records.find('config', sources, value);
    if (found !== undefined) return found.slug;
    return sources.router.missingConfig(value) === undefined ? value : undefined;
  },
  async prompt(value, sources) {
    return (await sources.reader.records.find('prompt', sources, value))?.slug;
  },
  virtual_key: providerName,
  provider: providerName,
  // An unknown name stays: it may be a server of the configuration file.
  async mcp_server(value, { reader, organisationId, workspaceId }) {
    const place = { organisationId, ...(workspaceId !== undefined && { workspaceId }) };
    return (await reader.records.find('mcp_server', place, value))?.slug ?? value;
  },
};

const words: Readonly<Partial<Record<PolicyKey, string>>> = {
  api_key: 'key',
  workspace_id: 'workspace',
  organisation_id: 'organisation',
  config: 'config',
  prompt: 'prompt',
};

/**
 * The rules with names in the form that requests are matched by: ids of keys and workspaces, slugs of the rest. Throws
 * `invalid_request`, with every mistake and its place, for names unknown in the policy's workspace or organisation.
 */
async function namedRules(rules: PolicyRules, sources: NameSources): Promise<PolicyRules> {
  const mistakes: { path: string; message: string }[] = [];
  const conditions: PolicyCondition[] = [];
  for (const [index, condition] of rules.conditions.entries()) {
    const { key } = condition;
    const names = new Map<string, string>();
    for (const { value, path } of conditionValues(condition, `/conditions/${index}`)) {
      const lookUp = value.endsWith('*') || !isNamed(key) ? undefined : lookUps[key];
      if (lookUp === undefined) continue;
      const found = await lookUp(value, sources);
      if (found !== undefined) names.set(value, found);
      else
        mistakes.push({
          path,
          message: `names "${value.slice(0, 64)}", and there is no such ${words[key as PolicyKey] ?? key} where the policy belongs`,
        });
    }
    conditions.push(mapCondition(condition, (value) => names.get(value) ?? value));
  }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return { conditions, groupBy: rules.groupBy };
}

/** The rules after a change; absent members stay unchanged. Throws like `namedRules`. */
async function changedRules(
  said: GivenRules,
  before: PolicyRules,
  sources: NameSources,
): Promise<PolicyRules> {
  const given = policyRulesOf({ conditions: said.conditions ?? [], group_by: said.group_by ?? [] });
  const named = said.conditions === undefined ? before : await namedRules(given, sources);
  return {
    conditions: named.conditions,
    groupBy: said.group_by === undefined ? before.groupBy : given.groupBy,
  };
}

function isNamed(key: string): key is PolicyKey {
  return Object.hasOwn(lookUps, key);
}

/** Slug of a stored provider. Unknown names stay: they may be providers of the configuration file. */
async function providerName(value: string, sources: NameSources): Promise<string> {
  const name = value.startsWith('@') ? value.slice(1) : value;
  return (await sources.reader.records.find('provider', sources, name))?.slug ?? name;
}

const kinds = ['api_key', 'workspace', 'user'] as const;
type EntityKind = (typeof kinds)[number];
const Kind = Type.Union([Type.Literal('api_key'), Type.Literal('workspace'), Type.Literal('user')]);

const Entity = Type.Object({
  id: Type.String(),
  type: Kind,
  name: Type.String({ description: 'Name; of a user, the e-mail address.' }),
  value_key: Type.String({ description: 'Group value under which a policy counts it.' }),
  current_usage: orNull(
    Type.Number({ description: 'Current usage; null if the policy does not count by this entity alone.' }),
  ),
  status: Type.Union([Type.Literal('active'), Type.Literal('exhausted')]),
  object: Type.Literal('policy-entity'),
});

type Shown = Static<typeof Entity>;

/** `GET …/{id}/entities`: the keys, workspaces and users to which a policy applies. */
function policyEntityRoutes<K extends PolicyRecordKind>(
  kind: PolicyKind<K>,
  usageOf: (policy: StoredRecord<K>, valueKey: string) => BudgetUsage | undefined = () => undefined,
): readonly RouteDefinition[] {
  return [
    defineRoute({
      id: `${kind.routes}.entities`,
      method: 'GET',
      path: `${kind.path}/{${kind.parameter}}/entities`,
      summary: `Keys, workspaces and users that a ${kind.words} applies to`,
      scope: 'policies.read',
      feature: 'policies',
      // Reads only.
      audit: null,
      params: policyRecords.params(kind),
      query: Type.Object(
        {
          ...paging.query,
          type: Type.Optional(Kind),
          search: Type.Optional(
            Type.String({
              ...{ minLength: 1, maxLength: 255 },
              description:
                'Part of the id, the name or the `value_key`, in any case, of the first 1,000 entities.',
            }),
          ),
          status: Type.Optional(
            Type.Union([Type.Literal('active'), Type.Literal('exhausted')], {
              description: 'Only entities with this status, of the first 1,000 entities.',
            }),
          ),
        },
        strict,
      ),
      reply: Type.Object({ ...listReplies.of, data: Type.Array(Entity) }),
      async handle({ params, query, key, read }) {
        const page = paging.of(query);
        const { total, data } = await read(async (reader) => {
          const policy = await policyRecords.visible(reader, key, kind, policyRecords.id(kind, params));
          const wanted = query.type === undefined ? kinds : [query.type];
          const scope = touchedBy(policy, reachedWorkspace(key, policy));
          const sources = wanted.map((one) => (part: Page) => lists[one](reader, scope, part));
          const shown = (found: Shown): Shown => {
            const usage = usageOf(policy, found.value_key);
            if (usage === undefined) return found;
            return {
              ...found,
              current_usage: usage.used,
              status: usage.isExhausted ? 'exhausted' : 'active',
            };
          };
          if (query.status === undefined && query.search === undefined) {
            const part = await concatenated(sources, page);
            return { total: part.total, data: part.data.map(shown) };
          }
          const all: Shown[] = [];
          for (let more = true; more && all.length < maxFiltered;) {
            const part = await concatenated(sources, { offset: all.length, limit: partSize });
            all.push(...part.data);
            more = part.data.length > 0 && all.length < part.total;
          }
          const part = query.search?.toLowerCase() ?? '';
          const found = all
            .map(shown)
            .filter(
              ({ id, name, value_key, status }) =>
                (query.status === undefined || status === query.status) &&
                `${id}\n${name}\n${value_key}`.toLowerCase().includes(part),
            );
          return { total: found.length, data: found.slice(page.offset, page.offset + page.limit) };
        });
        return { object: 'list' as const, total, data: [...data] };
      },
    }),
  ];
}

/** `PUT …/{id}/entities/{entityId}/reset`: resets the count of one entity. */
function resetEntityRoute<K extends PolicyRecordKind>(
  kind: PolicyKind<K>,
  reset: (policy: StoredRecord<K>, valueKey: string) => Promise<void>,
): RouteDefinition {
  return defineRoute({
    id: `${kind.routes}.reset`,
    method: 'PUT',
    path: `${kind.path}/{${kind.parameter}}/entities/{entityId}/reset`,
    summary: 'Resets the count of one entity, at once on this replica and within a second on others',
    scope: 'policies.update',
    feature: 'policies',
    audit: 'reset',
    params: Type.Object({ [kind.parameter]: Identifier, entityId: Identifier }),
    reply: Type.Object({}),
    async handle({ params, key, write }) {
      const { policy, valueKey } = await write(async (reader) => {
        const policy = await policyRecords.changeable(reader, key, kind, policyRecords.id(kind, params));
        const { entityId = '' } = params;
        const scope = { ...touchedBy(policy, policy.workspaceId), only: entityId };
        for (const list of Object.values(lists)) {
          const [found] = (await list(reader, scope, { offset: 0, limit: 1 })).data;
          if (found === undefined) continue;
          const result = { policy, valueKey: found.value_key };
          return { id: policy.id, workspaceId: policy.workspaceId, result };
        }
        throw storedRecords.noSuch(`entity of the ${kind.words}`, entityId);
      });
      await reset(policy, valueKey);
      return {};
    },
  });
}

/** Entities to which a policy applies; undefined members do not restrict. */
interface Touched {
  readonly organisationId: string;
  readonly workspaceId: string | undefined;
  readonly apiKeyId: string | undefined;
  /** Only the entity with this id. */
  readonly only?: string;
}

type Reader = Pick<ResourcesReader, 'apiKeys' | 'workspaces' | 'users' | 'members'>;
type List = (reader: Reader, touched: Touched, page: Page) => Promise<Paged<Shown>>;

const lists: Readonly<Record<EntityKind, List>> = {
  async api_key({ apiKeys }, { organisationId, workspaceId, apiKeyId, only }, page) {
    if (apiKeyId !== undefined && only !== undefined && apiKeyId !== only) return nobody;
    const id = apiKeyId ?? only;
    const filter = {
      ...(workspaceId !== undefined && { workspaceId }),
      ...(id !== undefined && { ids: [id] }),
    };
    const { total, data } = await apiKeys.list(organisationId, filter, page);
    return { total, data: data.map(({ id: one, name }) => entity('api_key', one, name)) };
  },
  async workspace(reader, touched, page) {
    const { organisationId, only } = touched;
    const single = (await workspaceOf(reader, touched)) ?? only;
    if (single === undefined) {
      const { total, data } = await reader.workspaces.list(organisationId, { statuses: ['active'] }, page);
      return { total, data: data.map(({ id, name }) => entity('workspace', id, name)) };
    }
    const found =
      only === undefined || only === single
        ? await reader.workspaces.find(organisationId, single)
        : undefined;
    return one(found && entity('workspace', found.id, found.name), page);
  },
  async user(reader, touched, page) {
    const { organisationId, workspaceId, apiKeyId, only } = touched;
    const key = apiKeyId === undefined ? undefined : await reader.apiKeys.find(organisationId, apiKeyId);
    if (apiKeyId !== undefined && (key?.userId ?? '') === '') return nobody;
    const single = key?.userId ?? only;
    if (single !== undefined) {
      if (only !== undefined && only !== single) return nobody;
      const user =
        workspaceId === undefined || key !== undefined
          ? await reader.users.find(organisationId, single)
          : (await reader.members.find(organisationId, workspaceId, single))?.user;
      return one(user && entity('user', user.id, user.email), page);
    }
    if (workspaceId === undefined) {
      const { total, data } = await reader.users.list(organisationId, {}, page);
      return { total, data: data.map(({ id, email }) => entity('user', id, email)) };
    }
    const { total, data } = await reader.members.list(organisationId, workspaceId, {}, page);
    return { total, data: data.map(({ user: { id, email } }) => entity('user', id, email)) };
  },
};

const maxFiltered = 1000;
/** Largest page of the stores. */
const partSize = 100;
const nobody: Paged<Shown> = { total: 0, data: [] };
const valueKeys = { api_key: 'api_key', workspace: 'workspace_id', user: 'metadata._user' };

function entity(type: EntityKind, id: string, name: string): Shown {
  return {
    ...{ id, type, name, value_key: `${valueKeys[type]}:${id}` },
    ...{ current_usage: null, status: 'active', object: 'policy-entity' },
  };
}

function one(found: Shown | undefined, { offset, limit }: Page): Paged<Shown> {
  if (found === undefined) return nobody;
  return { total: 1, data: [found].slice(offset, offset + limit) };
}

async function workspaceOf(
  { apiKeys }: Pick<ResourcesReader, 'apiKeys'>,
  { organisationId, workspaceId, apiKeyId }: Touched,
): Promise<string | undefined> {
  if (workspaceId !== undefined || apiKeyId === undefined) return workspaceId;
  return (await apiKeys.find(organisationId, apiKeyId))?.workspaceId;
}

function touchedBy(policy: StoredRecord<PolicyRecordKind>, workspaceId: string | undefined): Touched {
  // A condition with several values does not restrict the list.
  const exact = (wanted: string): string | undefined => {
    for (const { key, value } of policy.data.conditions) {
      const [only, ...others] = listOfValues(value);
      if (key === wanted && only?.endsWith('*') === false && others.length === 0) return only;
    }
    return undefined;
  };
  return {
    organisationId: policy.organisationId,
    workspaceId: workspaceId ?? exact('workspace_id'),
    apiKeyId: exact('api_key'),
  };
}

/** Workspace of the listed entities: in a policy of the organisation, a workspace's key sees only its workspace. */
function reachedWorkspace(key: KeyRecord, { workspaceId }: StoredRecord): string | undefined {
  return workspaceId ?? reachOf(key).workspaceId;
}

/** One page over the concatenation of several lists. */
async function concatenated(
  sources: readonly ((page: Page) => Promise<Paged<Shown>>)[],
  { offset, limit }: Page,
): Promise<Paged<Shown>> {
  const data: Shown[] = [];
  let before = 0;
  for (const list of sources) {
    const start = Math.max(0, offset - before);
    const found = await list({ offset: start, limit: limit - data.length });
    data.push(...found.data);
    before += found.total;
  }
  return { total: before, data };
}
