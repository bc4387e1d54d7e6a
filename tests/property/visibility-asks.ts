/** Everything that can be asked of a route of logs or analytics, by whomever, and what the model says of it. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { settingsIn } from '../../core/organisation/settings-in.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { groupColumns, groupings } from '../../core/ports/analytics.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import { defaultSecurity } from '../../core/ports/organisation-settings.ts';
import { dayStart } from '../conformance/analytics-rows.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { archived, keys, pools, spanMs, users, workspaces, type PlantedLogs } from './planted-logs.ts';
import { viewOf, type Rules, type Switches, type View, type Viewer } from './visibility-model.ts';

const dayMs = 86_400_000;

const list = (values: readonly (string | number)[]) =>
  fc.subarray([...values], { minLength: 1 }).map((some) => JSON.stringify(some.map(String)));
const number = (min: number, max: number) => fc.integer({ min, max }).map(String);
const choice = (...values: readonly string[]) => fc.constantFrom(...values);
const flag = choice('true', 'false');

/** Values of every parameter that these routes take; the window comes apart. */
const parameters: Readonly<Record<string, fc.Arbitrary<string>>> = {
  ai_service: list(pools.ai_service),
  ai_model: list(pools.model),
  model: list(pools.model),
  provider: list(pools.provider),
  virtual_keys: list(pools.virtual_key),
  configs: list(pools.config),
  prompt_slug: list(pools.prompt),
  api_key_ids: list(keys),
  user: list(['', 'ann', 'bob', 'zoe']),
  endpoint: list(pools.endpoint),
  mcp_server: list(pools.mcp_server),
  mcp_tool: list(pools.mcp_tool),
  cache_status: list(pools.cache_status),
  trace_id: list(pools.trace),
  span_id: list(pools.span),
  status_code: list(pools.status),
  ai_org_model: choice('openai__gpt', 'anthropic__claude', 'openai__gpt,anthropic__gpt'),
  metadata: choice('{"team":"search"}', '{"_user":"ann"}', '{"team":"shop","_user":"zoe"}'),
  success: flag,
  search: fc.constantFrom(...pools.word),
  total_units_min: number(0, 40),
  total_units_max: number(40, 100),
  prompt_token_min: number(0, 25),
  prompt_token_max: number(25, 50),
  completion_token_min: number(0, 25),
  completion_token_max: number(25, 50),
  cost_min: number(0, 150),
  cost_max: number(150, 300),
  response_time_min: number(0, 2500),
  response_time_max: number(2500, 5000),
  weighted_feedback_min: number(-10, 0),
  weighted_feedback_max: number(0, 10),
  granularity: choice('5m', 'hour', 'day', 'week', 'month'),
  time_zone: choice('UTC', 'Asia/Kolkata', 'America/New_York'),
  columns: fc.subarray([...groupColumns]).map((some) => some.join(',')),
  include_total: flag,
  include: choice('bodies', 'preview'),
  order: choice('newest', 'oldest'),
  // Exact figures: averages of the same rows may differ in their last digit, and so in their order.
  order_by: choice('requests', 'cost', 'total_tokens', 'error_count', 'last_seen', 'first_seen'),
  page_size: number(1, 50),
  current_page: number(0, 2),
};
/** Groups go up or down. */
const ofGroups: typeof parameters = { ...parameters, order: choice('desc', 'asc') };
const ofTime = ['time_of_generation_min', 'time_of_generation_max'];
const ofPlace = ['workspace_slug', 'workspace_id'];
/** Said by the answers of their own pages. */
const ofPages = ['cursor', 'currentPage', 'pageSize'];
const apart = new Set([...ofTime, ...ofPlace, ...ofPages]);

/** The questions to one route. */
export interface Ask {
  readonly viewer: Omit<Viewer, 'organisation'> & { readonly place: number };
  readonly rules: Rules;
  /** How a workspace is named, and which: beyond the last for one that is not there. */
  readonly named: { readonly by: string; readonly index: number } | undefined;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

const switches: fc.Arbitrary<Switches> = fc.record({
  membersViewAllData: fc.constantFrom(false, false, true),
  managersViewAllData: fc.constantFrom(false, false, true),
  // Mostly on: off, nothing is asked of the store.
  membersViewAnalytics: fc.constantFrom(true, true, true, true, false),
  managersViewAnalytics: fc.constantFrom(true, true, true, true, false),
});

const naming = fc.oneof(
  { arbitrary: fc.constant(undefined), weight: 3 },
  fc.record({ by: fc.constantFrom(...ofPlace), index: fc.nat({ max: workspaces.length }) }),
);

function propertiesOf(schema: object | undefined): object {
  return schema !== undefined && 'properties' in schema ? (schema.properties as object) : {};
}

/** Only a user's key has a user, who has roles. */
function asPerson(viewer: Ask['viewer']): Ask['viewer'] {
  const user = viewer.kind === 'workspace-user' ? viewer.user : '';
  return user === '' ? { ...viewer, user, inOrganisation: undefined, inWorkspace: undefined } : viewer;
}

/** Everything that can be asked of the route. Throws for a parameter that is not known here. */
export function asks(
  route: RouteDefinition,
  planted: Pick<PlantedLogs, 'organisations' | 'ids'>,
): fc.Arbitrary<Ask> {
  const known = Object.keys(propertiesOf(route.query));
  const names = known.filter((name) => !apart.has(name));
  const values = known.includes('order_by') ? ofGroups : parameters;
  for (const name of names)
    assert.ok(name in parameters, `Say in this test what "${name}" of ${route.path} can be.`);
  const filters = fc
    .subarray(names, { maxLength: Math.min(4, names.length) })
    .filter((some) => !(some.includes('model') && some.includes('ai_model')))
    .filter((some) => !(some.includes('include') && some.includes('current_page')))
    .chain((some) => fc.record(Object.fromEntries(some.map((name) => [name, values[name] as never]))));
  const window = fc.tuple(number(0, spanMs / 2), number(spanMs / 2 + 1, spanMs)).map(([from, to]) => ({
    time_of_generation_min: new Date(dayStart + Number(from)).toISOString(),
    time_of_generation_max: new Date(dayStart + Number(to)).toISOString(),
  }));
  const whole = {
    time_of_generation_min: new Date(dayStart).toISOString(),
    time_of_generation_max: new Date(dayStart + dayMs).toISOString(),
  };
  const times = known.includes('time_of_generation_min')
    ? fc.oneof({ arbitrary: fc.constant(whole), weight: 2 }, window)
    : fc.constant({});
  return fc.record({
    viewer: fc
      .record({
        place: fc.nat({ max: planted.organisations.length - 1 }),
        kind: fc.constantFrom(
          ...(['owner', 'organisation-service', 'workspace-service'] as const),
          ...(['workspace-user', 'workspace-user', 'workspace-user', 'workspace-user'] as const),
        ),
        workspace: fc.constantFrom(...workspaces, ...workspaces.slice(0, 2), ...workspaces.slice(0, 2)),
        keyId: fc.constantFrom(...keys),
        user: fc.constantFrom(...users),
        inOrganisation: fc.constantFrom('owner', 'admin', 'member', 'member', 'member', undefined),
        inWorkspace: fc.constantFrom('manager', 'member', undefined),
      })
      .map(asPerson),
    rules: fc.record({
      organisation: switches,
      mayOverride: fc.boolean(),
      workspace: fc.option(switches, { nil: undefined }),
    }),
    named: known.includes('workspace_slug') ? naming : fc.constant(undefined),
    path: pathOf(route.path, planted),
    query: fc.tuple(times, filters).map(([time, filter]) => ({ ...time, ...filter })),
  });
}

function pathOf(path: string, { ids }: Pick<PlantedLogs, 'ids'>): fc.Arbitrary<string> {
  const values: Readonly<Record<string, readonly string[]>> = {
    groupBy: groupings,
    metadataKey: ['team', '_user'],
    id:
      path.startsWith('/traces') || path.includes('/traces/') ? pools.trace.filter((one) => one !== '') : ids,
    traceId: pools.trace.filter((one) => one !== ''),
  };
  const name = /\{(\w+)\}/.exec(path)?.[1];
  if (name === undefined) return fc.constant(path);
  const found = values[name];
  assert.ok(found, `Say in this test what "${name}" of ${path} can be.`);
  return fc.constantFrom(...found).map((value) => path.replace(`{${name}}`, encodeURIComponent(value)));
}

/** What the gateway knows of the organisations while something is asked. */
export function directoryOf(current: () => Ask, organisations: readonly string[]): Partial<Directory> {
  const isOurs = (organisationId: string) => organisations.includes(organisationId);
  return {
    isArchived: (workspaceId) => workspaceId === archived,
    workspaceId: (organisationId, named) =>
      isOurs(organisationId) ? workspaces.find((one) => named === one || named === `slug-${one}`) : undefined,
    settingsIn(organisationId, workspaceId) {
      const { viewer, rules } = current();
      if (!isOurs(organisationId)) return defaultSecurity;
      const security = { ...defaultSecurity, data_visibility: rules.organisation };
      const own = workspaceId === viewer.workspace ? rules.workspace : undefined;
      return settingsIn(
        { security, overridable: rules.mayOverride ? ['data_visibility'] : [] },
        own === undefined ? {} : { data_visibility: own },
      );
    },
    user(organisationId, id) {
      const { viewer } = current();
      if (organisationId !== organisations[viewer.place] || id !== viewer.user) return undefined;
      return viewer.inOrganisation === undefined ? undefined : { id, role: viewer.inOrganisation };
    },
    memberRole(workspaceId, id) {
      const { viewer } = current();
      if (viewer.inOrganisation === undefined || id !== viewer.user) return undefined;
      return workspaceId === viewer.workspace ? viewer.inWorkspace : undefined;
    },
  };
}

/** What the model allows, or the status with which it refuses. */
export function viewed(ask: Ask, organisations: readonly string[], route: RouteDefinition): View | 403 | 404 {
  const { place, ...of } = ask.viewer;
  const viewer: Viewer = { ...of, organisation: organisations[place] as string };
  const isAnalytics = route.scope === 'analytics.view';
  return viewOf(viewer, ask.rules, { isAnalytics, named: namedBy(ask), archived });
}

/** The query as it is sent, with the workspace that it names. */
export function sentWith(ask: Ask): Readonly<Record<string, string>> {
  const named = namedBy(ask);
  if (ask.named === undefined) return ask.query;
  const slug = ask.named.by === 'workspace_slug' && named ? `slug-${named}` : named;
  return { ...ask.query, [ask.named.by]: slug ?? 'nowhere' };
}

function namedBy({ named }: Ask): string | null | undefined {
  return named && (workspaces[named.index] ?? null);
}

/** The key with which it is asked. */
export function keyOf({ viewer }: Ask, organisations: readonly string[]): KeyRecord {
  return testKey({
    id: viewer.keyId,
    kind: viewer.kind,
    organisationId: organisations[viewer.place] as string,
    workspaceId: viewer.workspace,
    userId: viewer.user,
  });
}
