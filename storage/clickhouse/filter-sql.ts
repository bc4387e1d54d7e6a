import { asciiOnly } from '../../core/base/json.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Between, RequestFilter, TimeWindow, Visibility } from '../../core/ports/analytics.ts';

/** Last moment of the store's time type, in the year 2299. */
const endOfTime = 10_413_791_999_999;

/** `moments` fills the placeholders. */
const inWindow = between('from', 'to');

/** For sub-selects on other tables with these columns: the organisation, and the workspace when there is one. */
const inPlace =
  'organisation_id = {organisation:String} AND ({everywhere:UInt8} OR workspace_id = {workspace:String})';
/** Same for feedback, which also has a user and a key. */
const whoseEver = `${inPlace} AND ({everybody:UInt8} OR user_id = {user:String}) AND ({every_key:UInt8} OR api_key_id = {key:String})`;

/** The conditions of every query, with their values separate. */
function visible(
  window: TimeWindow,
  { organisationId, workspaceId, userId, apiKeyId }: Visibility,
): {
  /** For requests. */
  where: string;
  /** For requests and feedback, with times of their own. */
  whose: string;
  /** For roll-ups, which have their own time condition: the organisation, and the workspace when there is one. */
  owned: string;
  /** For bodies, which have no column for user or key. */
  place: string;
  parameters: Record<string, unknown>;
} {
  const conditions = ['organisation_id = {organisation:String}'];
  if (workspaceId !== undefined) conditions.push('workspace_id = {workspace:String}');
  const owned = conditions.join(' AND ');
  if (userId !== undefined) conditions.push('user_id = {user:String}');
  if (apiKeyId !== undefined) conditions.push('api_key_id = {key:String}');
  const whose = conditions.join(' AND ');
  return {
    where: `${whose} AND ${inWindow}`,
    whose,
    owned,
    place: `${owned} AND ${inWindow}`,
    parameters: {
      organisation: organisationId,
      workspace: workspaceId ?? '',
      everywhere: workspaceId === undefined ? 1 : 0,
      everybody: userId === undefined ? 1 : 0,
      every_key: apiKeyId === undefined ? 1 : 0,
      user: userId ?? '',
      key: apiKeyId ?? '',
      ...moments(window),
    },
  };
}

function moments({ from, to }: TimeWindow): { from: number; to: number } {
  return { from: moment(from), to: moment(to) };
}

function moment(time: number): number {
  return Math.min(Math.max(Math.ceil(time), 0), endOfTime);
}

/** Condition for rows between the times of two placeholders, in milliseconds since the epoch. */
function between(from: string, to: string): string {
  return `created_at >= fromUnixTimestamp64Milli({${from}:Int64}, 'UTC') AND created_at < fromUnixTimestamp64Milli({${to}:Int64}, 'UTC')`;
}

/** Decimal places in comparisons of averages: beyond them, sums of fractions depend on their order. */
const digits = 9;

/** Latest revision first. */
const latestFirst = 'revision DESC, created_at DESC, id DESC';

/**
 * Latest content and first time of each feedback: `latest_trace` (a number), `latest_value`, `latest_weight` and
 * `given_at`. `from` starts with FROM; feedback of which it holds only later revisions is left out. Uses sorting, which
 * can spill to disk; keeping the latest revisions in memory takes ten times as much.
 */
function latestFeedback(from: string): string {
  const all = 'ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING';
  return [
    'SELECT trace_number AS latest_trace, value AS latest_value, weight AS latest_weight, given_at',
    'FROM (SELECT trace_number, value, weight, row_number() OVER revisions AS place,',
    'last_value(revision) OVER revisions AS oldest, last_value(created_at) OVER revisions AS given_at',
    `${from} WINDOW revisions AS (PARTITION BY feedback_id ORDER BY ${latestFirst} ${all}))`,
    'WHERE place = 1 AND oldest = 1',
  ].join(' ');
}

/** The weighted average of the latest revisions, null when all weights are 0. */
const weightedAverage =
  'if(sum(latest_weight) = 0, NULL, sum(latest_value * latest_weight) / sum(latest_weight))';

/**
 * Traces with feedback, from the feedback visible at any time: `trace` is its number, `weighted` (value × weight),
 * `weights`, and `average`, null when all weights are 0. Sorts like `latestFeedback`.
 */
const feedbackOfTraces = [
  'SELECT trace, sum(latest_value * latest_weight) AS weighted, sum(latest_weight) AS weights,',
  `round(${weightedAverage}, ${digits}) AS average`,
  'FROM (SELECT trace_number AS trace, trace_id AS latest_trace_id, value AS latest_value, weight AS latest_weight',
  `FROM feedback WHERE ${whoseEver} ORDER BY feedback_id, ${latestFirst} LIMIT 1 BY feedback_id)`,
  "WHERE latest_trace_id != '' GROUP BY trace",
].join(' ');

/** Pieces of the statements that read logs. */
export const logSql = {
  visible,
  moments,
  moment,
  between,
  inWindow,
  latestFeedback,
  weightedAverage,
  feedbackOfTraces,
  filter: filterSql,
  textForms,
  checkRange,
};

/** The column of `requests` for each filter that is a list of texts. */
const listed = {
  aiServices: 'ai_service',
  models: 'model',
  providers: 'provider',
  virtualKeys: 'virtual_key',
  mcpServers: 'mcp_server',
  mcpTools: 'mcp_tool',
  configs: 'config',
  prompts: 'prompt',
  apiKeys: 'api_key_id',
  workspaces: 'workspace_id',
  users: 'end_user',
  traceIds: 'trace_id',
  spanIds: 'span_id',
  endpoints: 'endpoint',
  cacheStatuses: 'cache_status',
} as const satisfies Partial<Record<keyof RequestFilter, string>>;

const measured = {
  promptTokens: 'prompt_tokens',
  completionTokens: 'completion_tokens',
  totalTokens: 'total_tokens',
  // As a Float64, so that bounds beyond the decimal's range are bounds too; exact to the last digit below 9,000 dollars.
  cost: 'toFloat64(cost)',
  latencyMs: 'latency_ms',
} as const satisfies Partial<Record<keyof RequestFilter, string>>;

const never = 'false';
const maxValues = 1000;
const maxPairs = 20;
const maxTextLength = 256;

/** Conditions on `requests`, joined by AND, with their placeholder values. */
interface FilterSql {
  readonly conditions: readonly string[];
  readonly parameters: Readonly<Record<string, unknown>>;
}

/**
 * Conditions of a filter, for a query with the conditions and parameters of `visible`. Placeholders start with
 * `filter_`. Throws `invalid_request` for a list of more than 1,000 values, more than 20 metadata pairs or a text of
 * more than 256 characters.
 */
function filterSql(filter: RequestFilter | undefined): FilterSql {
  if (filter === undefined) return { conditions: [], parameters: {} };
  const conditions: string[] = [];
  const parameters: Record<string, unknown> = {};
  const bind = (name: string, type: string, value: unknown): string => {
    parameters[`filter_${name}`] = value;
    return `{filter_${name}:${type}}`;
  };
  const within = (name: string, measure: string, between: Between | undefined): string[] => [
    ...(between?.min === undefined ? [] : [`${measure} >= ${bind(`${name}_min`, 'Float64', between.min)}`]),
    ...(between?.max === undefined ? [] : [`${measure} <= ${bind(`${name}_max`, 'Float64', between.max)}`]),
  ];
  /** `condition` builds the condition on the values; an empty list matches nothing. */
  const oneOf = <T>(name: string, values: readonly T[] | undefined, condition: (values: T[]) => string) => {
    if (values === undefined) return;
    bounded(name, values.length, maxValues, 'values');
    conditions.push(values.length === 0 ? never : condition([...values]));
  };

  for (const [name, column] of entriesOf(listed))
    oneOf(name, filter[name], (values) => `${column} IN ${bind(column, 'Array(String)', values)}`);
  const statuses = filter.statusCodes?.filter(
    (code) => Number.isInteger(code) && code >= 0 && code <= 65_535,
  );
  oneOf('statusCodes', statuses, (values) => `status IN ${bind('status', 'Array(UInt16)', values)}`);
  oneOf('serviceModels', filter.serviceModels, (pairs) => {
    const services = bind(
      'services',
      'Array(String)',
      pairs.map(({ service }) => service),
    );
    const models = bind(
      'service_models',
      'Array(String)',
      pairs.map(({ model }) => model),
    );
    return `has(arrayZip(${services}, ${models}), (toString(ai_service), toString(model)))`;
  });
  if (filter.isSuccess !== undefined) conditions.push(filter.isSuccess ? 'is_success' : 'NOT is_success');

  const pairs = Object.entries(filter.metadata ?? {});
  bounded('metadata', pairs.length, maxPairs, 'pairs');
  for (const [index, [key, value]] of pairs.entries()) {
    const name = bind(`metadata_key_${index}`, 'String', key);
    const text = bind(`metadata_value_${index}`, 'String', value);
    // A 64-bit hash: of a million million different pairs, one in eighteen million collides with this one.
    conditions.push(`has(metadata_pairs, sipHash64(${name}, ${text}))`);
  }

  for (const [name, measure] of entriesOf(measured)) conditions.push(...within(name, measure, filter[name]));
  if (filter.weightedFeedback !== undefined) {
    const bounds = within('feedback', 'average', filter.weightedFeedback);
    const having = bounds.length === 0 ? 'true' : bounds.join(' AND ');
    conditions.push(`trace_number IN (SELECT trace FROM (${feedbackOfTraces}) WHERE ${having})`);
  }
  if (filter.text !== undefined) {
    bounded('text', [...filter.text].length, maxTextLength, 'characters');
    conditions.push(
      `(created_at, id) IN (${textSql(bind('text', 'Array(String)', textForms(filter.text)))})`,
    );
  }
  return { conditions, parameters };
}

function bounded(name: string, count: number, most: number, what: string): void {
  if (count <= most) return;
  const message = `The filter \`${name}\` has ${count} ${what}; ${most} are the most. Ask in several steps.`;
  throw new GatewayError('invalid_request', message, { param: name });
}

function entriesOf<K extends string, V>(record: Readonly<Record<K, V>>): [K, V][] {
  return Object.entries(record) as [K, V][];
}

/**
 * Requests whose logged bodies contain a text, ignoring case: `(created_at, id)` of `bodies`, within the window and
 * place bound by `visible`. `placeholder` stands for the result of `textForms`. The expressions match the index
 * `text_filter`, which finds granules for texts of at least four characters.
 */
function textSql(placeholder: string): string {
  const forms = `arrayMap(form -> lowerUTF8(form), ${placeholder})`;
  const holds = ['request', 'response'].map((column) => `multiSearchAny(lowerUTF8(${column}), ${forms})`);
  return `SELECT created_at, id FROM bodies WHERE ${inPlace} AND ${inWindow} AND (${holds.join(' OR ')})`;
}

/**
 * The forms of a text in a body: unchanged, and as JSON, with escapes where required or for every character outside
 * ASCII. A case-insensitive comparison does not see escaped characters, hence some case variants of those.
 */
function textForms(text: string): string[] {
  const lower = text.toLowerCase();
  const [first = ''] = lower;
  const cased = [text, lower, text.toUpperCase(), first.toUpperCase() + lower.slice(first.length)];
  const forms = [text, escaped(text), ...cased.map((one) => asciiOnly(escaped(one)))];
  // The case of a final sigma depends on the following character, which a partial text does not show.
  if (/[Σσς]$/.test(text)) forms.push(`${text.slice(0, -1)}σ`, `${text.slice(0, -1)}ς`);
  return [...new Set(forms)];
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Throws `invalid_request` unless the value is an integer from 0 to `max`. */
function checkRange(name: string, value: number, max: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= max) return;
  const message = `\`${name}\` must be a whole number from 0 to ${max}.`;
  throw new GatewayError('invalid_request', message, { param: name });
}
