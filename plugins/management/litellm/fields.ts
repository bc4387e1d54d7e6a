// Members of keys and teams of LiteLLM, and what they are in records here.
import { isJsonObject, type JsonObject, type JsonValue } from '../../../core/base/json.ts';
import { type Static, Type } from '../../../core/pipeline/plugin.ts';
import { refusedBody, strict } from '../shared/fields.ts';

/** Members of the compatible routes, to and from records. */
export const litellmFields = {
  refuseForeign,
  content: contentOf,
  changedDefaults,
  period: periodOf,
  end: endOf,
  info: infoOf,
  team: teamOf,
  sent,
};

// Durations as LiteLLM writes them: `30s`, `24h`, `7d`, `1mo`, `monthly`.

const dayMs = 86_400_000;
const words: Readonly<Record<string, string>> = { hourly: '1h', daily: '24h', weekly: '7d', monthly: '30d' };
const millisecondsOf: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: dayMs,
  w: 7 * dayMs,
};

/** Every duration of LiteLLM. */
const liteLLMDuration = '^(?:\\d{1,6}(?:s|m|h|d|w|mo)|hourly|daily|weekly|monthly)$';

/** Durations as LiteLLM writes them. */
export const liteLLMDurations = {
  schema: liteLLMDuration,
  reset: liteLLMReset,
  period: liteLLMPeriod,
  end: liteLLMEnd,
};

/** Members of a usage limit that say when it begins anew. */
interface LiteLLMReset {
  readonly periodic_reset?: 'monthly' | 'weekly';
  readonly periodic_reset_days?: number;
}

/**
 * When a budget with this `budget_duration` begins anew. LiteLLM goes by the calendar, and so do these periods: `30d`, `1mo` and
 * `monthly` on the first of the month, `7d`, `1w` and `weekly` on Mondays. Undefined for a duration of other than whole days from
 * 1 to 365; months other than `1mo` have no period in LiteLLM either.
 */
function liteLLMReset(duration: string): LiteLLMReset | undefined {
  const read = readDuration(duration);
  if (read === undefined) return undefined;
  const days = (read.count * (millisecondsOf[read.unit] ?? NaN)) / dayMs;
  if ((read.unit === 'mo' && read.count === 1) || (read.unit === 'd' && days === 30))
    return { periodic_reset: 'monthly' };
  if (days === 7 && read.unit !== 'h') return { periodic_reset: 'weekly' };
  return Number.isInteger(days) && days >= 1 && days <= 365 ? { periodic_reset_days: days } : undefined;
}

/** The `budget_duration` of a usage limit, as its clients mostly write it; null without a period. */
function liteLLMPeriod(limit: JsonObject): string | null {
  const { periodic_reset: reset, periodic_reset_days: days } = limit;
  if (typeof days === 'number') return `${days}d`;
  return reset === 'monthly' ? '30d' : reset === 'weekly' ? '7d' : null;
}

/**
 * The time in milliseconds at which a `duration` that begins at `start` ends: months are those of the calendar, the last day of a
 * shorter month stands for one that it lacks. Undefined for what is no duration, or ends beyond the year 9999.
 */
function liteLLMEnd(duration: string, start: number): number | undefined {
  const read = readDuration(duration);
  if (read === undefined) return undefined;
  const end =
    read.unit === 'mo'
      ? monthsAfter(start, read.count)
      : start + read.count * (millisecondsOf[read.unit] ?? NaN);
  return end < Date.UTC(10_000, 0) ? end : undefined;
}

function readDuration(written: string): { readonly count: number; readonly unit: string } | undefined {
  const [, count, unit] = /^(\d{1,6})(s|m|h|d|w|mo)$/.exec(words[written] ?? written) ?? [];
  return count === undefined || unit === undefined ? undefined : { count: Number(count), unit };
}

function monthsAfter(start: number, count: number): number {
  const from = new Date(start);
  const [year, month] = [from.getUTCFullYear(), from.getUTCMonth() + count];
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(from.getUTCDate(), lastDay)) + (start % dayMs);
}

/** Name of a key's metadata that holds the id of its budget. */
export const budgetMetadata = 'budget_id';

const Duration = Type.String({
  pattern: liteLLMDuration,
  'x-expected': 'a time like 30d, 24h or 1mo',
});
const optional = <S extends Parameters<typeof Type.Optional>[0]>(schema: S) =>
  Type.Optional(Type.Union([schema, Type.Null()]));
const limits = {
  max_budget: optional(Type.Number({ minimum: 1, description: 'US dollars: `usage_limits` of a key here.' })),
  budget_duration: optional(Duration),
  rpm_limit: optional(Type.Integer({ minimum: 0, description: '`rate_limits` here.' })),
  tpm_limit: optional(Type.Integer({ minimum: 0, description: '`rate_limits` here.' })),
};
const models = optional(
  Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
    maxItems: 1000,
    description: '`defaults.allowed_models` here. Empty: all.',
  }),
);
const metadata = optional(
  Type.Object({}, { additionalProperties: true, description: 'Texts, numbers and booleans.' }),
);
const fields = {
  key_alias: optional(Type.String({ minLength: 1, maxLength: 255, description: '`name` of a key here.' })),
  duration: optional(Duration),
  ...limits,
  user_id: optional(Type.String({ maxLength: 128, description: 'Goes into the metadata of its requests.' })),
  budget_id: optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'A budget of `/budget/new`. Goes into the metadata of its requests.',
    }),
  ),
  models,
  metadata,
};

/** Members without a counterpart, and what to do instead. Clients send many of them empty, and these are taken. */
const keyRemedies = {
  aliases: 'are conditions of a config',
  config: 'is a config: defaults.config_id of PUT /api-keys/{id}',
  spend: 'is counted from the requests themselves',
  soft_budget: 'is alert_threshold of usage_limits: PUT /api-keys/{id}',
  budget_limits: 'is one budget here: several are usage limit policies (POST /policies/usage-limits)',
  budget_fallbacks: 'is a fallback of a config after 412',
  model_max_budget: 'is a usage limit policy with a condition over the model: POST /policies/usage-limits',
  model_rpm_limit: 'is a rate limit policy with a condition over the model: POST /policies/rate-limits',
  model_tpm_limit: 'is a rate limit policy with a condition over the model: POST /policies/rate-limits',
  tpd_limit: 'is rate_limits with the unit rpd: PUT /api-keys/{id}',
  max_parallel_requests: 'is not counted: the gateway bounds rates of requests, not how many run at a time',
  permissions: 'are scopes: PUT /api-keys/{id}',
  object_permission: 'are scopes, and workspaces of MCP servers',
  allowed_routes: 'are scopes: PUT /api-keys/{id}',
  allowed_cache_controls: 'are the cache of a config',
  guardrails: 'are input_guardrails and output_guardrails of a config or a workspace',
  policies: 'are guardrails of a config or a workspace',
  prompts: 'belong to a workspace, not to a key',
  tags: 'are metadata: give { "metadata": { "tags": "a,b" } }',
  blocked: 'is expires_at: PUT /api-keys/{id}',
  auto_rotate: 'is POST /api-keys/{id}/rotate',
  rotation_interval: 'is POST /api-keys/{id}/rotate',
  send_invite_email: 'is POST /admin/users/invites',
  organization_id: 'is that of the caller: each organisation is served by a gateway of its own',
  project_id: 'is a workspace: team_id',
  agent_id: 'has no counterpart: give it in metadata',
  enforced_params: 'are override_params of a config',
  router_settings: 'is a config: defaults.config_id of PUT /api-keys/{id}',
  key_type: 'are scopes: PUT /api-keys/{id}. A key made here may ask models and call tools',
} as const;
const newKeyRemedies = { ...keyRemedies, key: 'is made by the gateway: a secret cannot be chosen' };
const teamRemedies = {
  organization_id: keyRemedies.organization_id,
  admins: 'are invited: POST /admin/workspaces/{workspaceId}/users',
  members: 'are invited: POST /admin/workspaces/{workspaceId}/users',
  members_with_roles: 'are invited: POST /admin/workspaces/{workspaceId}/users',
  max_parallel_requests: keyRemedies.max_parallel_requests,
  model_aliases: keyRemedies.aliases,
  guardrails: 'are input_guardrails and output_guardrails: PUT /admin/workspaces/{workspaceId}',
  tags: keyRemedies.tags,
  blocked: 'has no counterpart: delete its keys',
  team_member_budget: 'is a usage limit policy with group_by api_key: POST /policies/usage-limits',
  object_permission: keyRemedies.object_permission,
  soft_budget: 'is alert_threshold of usage_limits: PUT /admin/workspaces/{workspaceId}',
} as const;

const budgetRemedies = {
  max_parallel_requests: keyRemedies.max_parallel_requests,
  tpm_limit: 'is a rate limit policy with the same condition: POST /policies/rate-limits',
  rpm_limit: 'is a rate limit policy with the same condition: POST /policies/rate-limits',
  tpd_limit: 'is a rate limit policy with the same condition: POST /policies/rate-limits',
  rpd_limit: 'is a rate limit policy with the same condition: POST /policies/rate-limits',
  model_max_budget: keyRemedies.model_max_budget,
} as const;
const newTeamRemedies = { ...teamRemedies, team_id: 'is made by the gateway: the answer has it' };

function without(names: object): Record<string, ReturnType<typeof Type.Optional>> {
  return Object.fromEntries(
    Object.entries(names).map(([name, remedy]) => [
      name,
      Type.Optional(Type.Unknown({ description: `Empty: ${name} ${String(remedy)}.` })),
    ]),
  );
}

const Secret = Type.String({ minLength: 1, maxLength: 512, description: 'Secret or id of the key.' });

const GenerateBody = Type.Object(
  {
    ...without(newKeyRemedies),
    ...fields,
    team_id: optional(Type.String({ maxLength: 255, description: 'Id or slug of a workspace.' })),
  },
  strict,
);
const UpdateBody = Type.Object(
  {
    ...without(keyRemedies),
    ...fields,
    key: Secret,
    team_id: optional(Type.String({ maxLength: 255, description: 'That of the key: it stays there.' })),
  },
  strict,
);
const DeleteBody = Type.Object(
  {
    keys: Type.Array(Secret, { minItems: 1, maxItems: 100 }),
    key_aliases: Type.Optional(Type.Null({ description: 'Names of keys may be the same: give `keys`.' })),
  },
  strict,
);
const TeamBody = Type.Object(
  {
    ...without(newTeamRemedies),
    team_alias: Type.String({ minLength: 1, maxLength: 255 }),
    ...limits,
    models,
    metadata,
  },
  strict,
);
const TeamUpdateBody = Type.Object(
  {
    ...without(teamRemedies),
    team_id: Type.String({ minLength: 1, maxLength: 255, description: 'Id or slug of a workspace.' }),
    team_alias: optional(Type.String({ minLength: 1, maxLength: 255 })),
    ...limits,
    models,
    metadata,
  },
  strict,
);

const RegenerateBody = Type.Object({ key: Secret }, strict);

const budget = {
  soft_budget: optional(Type.Number({ minimum: 0, description: '`alert_threshold` of the policy here.' })),
  budget_duration: limits.budget_duration,
  budget_reset_at: optional(Type.String({ format: 'date-time', description: 'End of the first period.' })),
};
const BudgetBody = Type.Object(
  {
    ...without(budgetRemedies),
    ...budget,
    budget_id: optional(
      Type.String({
        // In a condition of a policy it would stand for every id that begins so.
        pattern: '[^*]$',
        'x-expected': 'a text that does not end with "*"',
        ...{ minLength: 1, maxLength: 255, description: 'Default: made here.' },
      }),
    ),
    max_budget: Type.Number({ minimum: 0, description: 'US dollars for each key with this budget.' }),
  },
  strict,
);
const BudgetUpdateBody = Type.Object(
  {
    ...without(budgetRemedies),
    ...budget,
    budget_id: Type.String({ minLength: 1, maxLength: 255 }),
    max_budget: optional(Type.Number({ minimum: 0, description: 'US dollars.' })),
  },
  strict,
);
const Shown = Type.Object({}, { additionalProperties: true });

/** Bodies and replies of the compatible routes. */
export const litellmBodies = {
  Generate: GenerateBody,
  Update: UpdateBody,
  Delete: DeleteBody,
  Team: TeamBody,
  TeamUpdate: TeamUpdateBody,
  Regenerate: RegenerateBody,
  Budget: BudgetBody,
  BudgetUpdate: BudgetUpdateBody,
  Shown,
};

/** Members that a key and a team share. */
type Content = Partial<
  Pick<
    Static<typeof GenerateBody>,
    | 'duration'
    | 'max_budget'
    | 'budget_duration'
    | 'budget_id'
    | 'rpm_limit'
    | 'tpm_limit'
    | 'user_id'
    | 'metadata'
    | 'models'
  >
>;

/** Members without a counterpart, by what is written. */
export const foreign = {
  key: newKeyRemedies,
  keyUpdate: keyRemedies,
  team: newTeamRemedies,
  teamUpdate: teamRemedies,
  budget: budgetRemedies,
};

/** Throws `invalid_request` for each member without a counterpart that is not empty, with what to do instead. */
function refuseForeign(body: object, table: Readonly<Record<string, string>>): void {
  const mistakes = Object.entries(body).flatMap(([name, value]: [string, unknown]) => {
    const remedy = table[name];
    return remedy === undefined || isEmpty(value) ? [] : [{ path: `/${name}`, message: remedy }];
  });
  if (mistakes.length > 0) throw refusedBody(mistakes);
}

/** What clients send for a member that they say nothing about. */
function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  if (isJsonObject(value)) return Object.keys(value).length === 0;
  return [null, '', false, 0, 'default', 'llm_api'].some((one) => one === value);
}

/** Members of a key here. Throws `invalid_request` for a budget of less than a day. */
function contentOf(
  body: Content,
  now: number,
): {
  usage_limits?: JsonObject | null;
  rate_limits?: JsonObject[];
  defaults?: JsonObject;
  expires_at?: string;
} {
  const { max_budget: budget, budget_duration: period, rpm_limit: rpm, tpm_limit: tpm } = body;
  const expires = endOf(body.duration, now);
  const rates = [
    ...(typeof rpm === 'number' ? [{ type: 'requests', unit: 'rpm', value: rpm }] : []),
    ...(typeof tpm === 'number' ? [{ type: 'tokens', unit: 'rpm', value: tpm }] : []),
  ];
  const metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(body.metadata ?? {}))
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
      metadata[name] = String(value);
    else
      throw refusedBody([
        {
          path: `/metadata/${name}`,
          message: 'must be a text, number or boolean: metadata of a key are texts',
        },
      ]);
  if (typeof body.user_id === 'string' && body.user_id !== '') metadata['user_id'] = body.user_id;
  if (typeof body.budget_id === 'string') metadata[budgetMetadata] = body.budget_id;
  const allowed = allowedModels(body.models);
  const defaults = {
    ...(Object.keys(metadata).length > 0 && { metadata }),
    ...(allowed !== undefined && { allowed_models: allowed }),
  };
  return {
    ...(typeof budget === 'number' && {
      usage_limits: { type: 'cost', credit_limit: budget, ...periodOf(period) },
    }),
    ...(budget === null && { usage_limits: null }),
    ...((rpm !== undefined || tpm !== undefined) && { rate_limits: rates }),
    ...(Object.keys(defaults).length > 0 && { defaults }),
    ...(expires !== undefined && { expires_at: expires }),
  };
}

/** Names in `models` of LiteLLM that stand for models of others. */
const everyModel: ReadonlySet<string> = new Set(['all-proxy-models', 'all-team-models', '*']);

/** The allowed models here; null for all. */
function allowedModels(given: readonly string[] | null | undefined): string[] | null | undefined {
  if (given === undefined) return undefined;
  if (given?.includes('no-default-models') === true)
    throw refusedBody([
      {
        path: '/models',
        message: 'no-default-models has no counterpart: leave completions.write out of the scopes',
      },
    ]);
  return given === null || given.length === 0 || given.some((one) => everyModel.has(one)) ? null : [...given];
}

/**
 * Defaults of a record with the given ones in place of its own: metadata of a key name its user and budget still, unless
 * they are given. `kept` are the other members to send again.
 */
function changedDefaults(before: JsonObject, given: JsonObject, kept: readonly string[]): JsonObject {
  const own = isJsonObject(before['defaults']) ? before['defaults'] : {};
  const metadata = isJsonObject(own['metadata']) ? own['metadata'] : {};
  const bound = ['user_id', budgetMetadata].filter((name) => metadata[name] !== undefined);
  return {
    ...pick(own, ['metadata', 'allowed_models', ...kept]),
    ...given,
    ...(isJsonObject(given['metadata']) && { metadata: { ...pick(metadata, bound), ...given['metadata'] } }),
  };
}

function pick(record: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(record).filter(([name]) => names.includes(name)));
}

function periodOf(duration: string | null | undefined): LiteLLMReset {
  if (typeof duration !== 'string') return {};
  const reset = liteLLMReset(duration);
  if (reset !== undefined) return reset;
  throw refusedBody([{ path: '/budget_duration', message: 'must be whole days, from 1d to 365d, or 1mo' }]);
}

function endOf(duration: string | null | undefined, now: number): string | undefined {
  if (typeof duration !== 'string') return undefined;
  const end = liteLLMEnd(duration, now);
  if (end !== undefined) return new Date(end).toISOString();
  throw refusedBody([{ path: '/duration', message: 'must end before the year 10000' }]);
}

/** A key as LiteLLM shows one. */
function infoOf(key: JsonObject): JsonObject {
  const usage = isJsonObject(key['usage_limits']) ? key['usage_limits'] : {};
  const defaults = isJsonObject(key['defaults']) ? key['defaults'] : {};
  return {
    token: key['id'] ?? null,
    key_name: key['key'] ?? null,
    key_alias: key['name'] ?? null,
    team_id: key['workspace_id'] ?? null,
    user_id: key['user_id'] ?? null,
    ...limitsOf(usage, key['rate_limits']),
    budget_reset_at: key['next_usage_reset_at'] ?? null,
    expires: key['expires_at'] ?? null,
    metadata: defaults['metadata'] ?? {},
    models: defaults['allowed_models'] ?? [],
    budget_id: isJsonObject(defaults['metadata']) ? (defaults['metadata'][budgetMetadata] ?? null) : null,
    blocked: key['status'] !== 'active',
    created_at: key['created_at'] ?? null,
  };
}

/** A workspace as LiteLLM shows a team. */
function teamOf(workspace: JsonObject): JsonObject {
  const [usage = {}] = Array.isArray(workspace['usage_limits'])
    ? workspace['usage_limits'].filter(isJsonObject)
    : [];
  const defaults = isJsonObject(workspace['defaults']) ? workspace['defaults'] : {};
  return {
    team_id: workspace['id'] ?? null,
    team_alias: workspace['name'] ?? null,
    ...limitsOf(usage, workspace['rate_limits']),
    metadata: defaults['metadata'] ?? {},
    models: defaults['allowed_models'] ?? [],
    blocked: false,
    created_at: workspace['created_at'] ?? null,
  };
}

function limitsOf(usage: JsonObject, rateLimits: JsonValue | undefined): JsonObject {
  const rates = Array.isArray(rateLimits) ? rateLimits.filter(isJsonObject) : [];
  const rate = (type: string) =>
    rates.find((one) => one['type'] === type && one['unit'] === 'rpm')?.['value'] ?? null;
  return {
    spend: usage['current_usage'] ?? 0,
    max_budget: usage['credit_limit'] ?? null,
    budget_duration: liteLLMPeriod(usage),
    rpm_limit: rate('requests'),
    tpm_limit: rate('tokens'),
  };
}

/** The request's fields, as answers repeat them. */
function sent(body: Content): JsonObject {
  return {
    duration: body.duration ?? null,
    max_budget: body.max_budget ?? null,
    budget_duration: body.budget_duration ?? null,
    rpm_limit: body.rpm_limit ?? null,
    tpm_limit: body.tpm_limit ?? null,
    user_id: body.user_id ?? null,
    budget_id: body.budget_id ?? null,
    metadata: (body.metadata ?? {}) as JsonObject,
  };
}
