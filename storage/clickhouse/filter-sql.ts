import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Between, RequestFilter } from '../../core/ports/analytics.ts';
import { feedbackOfTraces } from './latest-feedback-sql.ts';
import { textForms, textSql } from './text-sql.ts';

/** The column of `requests` behind each filter that is a list of texts. */
const listed = {
  aiServices: 'ai_service',
  models: 'model',
  providers: 'provider',
  virtualKeys: 'virtual_key',
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
const mostValues = 1000;
const mostPairs = 20;
const mostText = 256;

/** Conditions over `requests`, all of which must hold, and the values of their placeholders. */
export interface FilterSql {
  readonly conditions: readonly string[];
  readonly parameters: Readonly<Record<string, unknown>>;
}

/**
 * What a filter says, for a query that also carries the conditions and parameters of `visible`. Placeholders begin with
 * `filter_`. Throws `invalid_request` for a list of more than 1,000 values, more than 20 metadata pairs or a text of
 * more than 256 characters.
 */
export function filterSql(filter: RequestFilter | undefined): FilterSql {
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
  /** `condition` makes one of the values; nothing is one of no values. */
  const oneOf = <T>(name: string, values: readonly T[] | undefined, condition: (values: T[]) => string) => {
    if (values === undefined) return;
    bounded(name, values.length, mostValues, 'values');
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
  bounded('metadata', pairs.length, mostPairs, 'pairs');
  for (const [index, [key, value]] of pairs.entries()) {
    const name = bind(`metadata_key_${index}`, 'String', key);
    const text = bind(`metadata_value_${index}`, 'String', value);
    // Of 64 bits: of a million million different pairs, one in eighteen million is taken for this one.
    conditions.push(`has(metadata_pairs, sipHash64(${name}, ${text}))`);
  }

  for (const [name, measure] of entriesOf(measured)) conditions.push(...within(name, measure, filter[name]));
  if (filter.weightedFeedback !== undefined) {
    const bounds = within('feedback', 'average', filter.weightedFeedback);
    const having = bounds.length === 0 ? 'true' : bounds.join(' AND ');
    conditions.push(`trace_number IN (SELECT trace FROM (${feedbackOfTraces}) WHERE ${having})`);
  }
  if (filter.text !== undefined) {
    bounded('text', [...filter.text].length, mostText, 'characters');
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
