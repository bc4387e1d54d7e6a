import type { TInteger, TNumber, TOptional } from 'typebox';
import { GatewayError, Type } from '../../../core/pipeline/plugin.ts';
import type { RequestFilter, TimeWindow } from '../../../core/ports/analytics.ts';
import { Instant, Name, type TimeQuery, timeWindow } from './fields.ts';
import { withFullStop } from '../../../core/errors/gateway-error.ts';

const maxValues = 100;
const longestValue = 512;
const maxPairs = 20;

/** A list from a client: comma-separated text, JSON text, or a list. */
type ListValue = string | number | readonly (string | number)[];

/** Collects mistakes in the parameters of a filter. */
class FilterMistakes {
  readonly #found: { readonly param: string; readonly message: string }[] = [];

  /** `message` continues a sentence that starts with the parameter, and states the remedy. */
  add(param: string, message: string): void {
    this.#found.push({ param, message });
  }

  /** Throws `invalid_request` with all of them. */
  throwIfAny(): void {
    const [first] = this.#found;
    if (first === undefined) return;
    const said = this.#found.map(({ param, message }) => `"${param}" ${message}`).join('; ');
    const errors = this.#found.map(({ param, message }) => ({ path: `/${param}`, message }));
    throw new GatewayError('invalid_request', withFullStop(said), {
      param: first.param,
      extra: { errors },
    });
  }
}

/** The texts of a list: at most 100, each of at most 512 characters. Undefined when absent or invalid. */
function listOf(
  param: string,
  value: ListValue | undefined,
  mistakes: FilterMistakes,
): readonly string[] | undefined {
  if (value === undefined) return undefined;
  const texts = typeof value === 'string' ? textsOf(value) : [value].flat().map(String);
  const wrong = texts === undefined ? 'is no JSON list of texts; write ["one","two"]' : mistakeOf(texts);
  if (wrong === undefined) return [...new Set(texts)];
  mistakes.add(param, wrong);
  return undefined;
}

function mistakeOf(texts: readonly string[]): string | undefined {
  if (texts.length === 0) return 'names nothing; leave it out, or give at least one value';
  if (texts.length > maxValues) return `holds ${texts.length} values; give at most ${maxValues}`;
  const long = texts.findIndex((text) => text.length > longestValue);
  if (long === -1) return undefined;
  return `holds at place ${long + 1} a value of more than ${longestValue} characters; give a shorter one`;
}

/** Undefined for text that starts like a JSON list and is not a list of texts. */
function textsOf(text: string): readonly string[] | undefined {
  if (!text.trimStart().startsWith('[')) {
    const values = text.split(',').map((value) => value.trim());
    return values.filter((value) => value !== '');
  }
  const list = jsonOf(text);
  return Array.isArray(list) && list.every((value) => typeof value === 'string') ? list : undefined;
}

/** Models of a kind of provider: `openai__gpt-5-mini`. */
function serviceModelsOf(
  param: string,
  value: ListValue | undefined,
  mistakes: FilterMistakes,
): RequestFilter['serviceModels'] {
  return listOf(param, value, mistakes)?.flatMap((text) => {
    const at = text.indexOf('__');
    if (at > 0 && at + 2 < text.length) return [{ service: text.slice(0, at), model: text.slice(at + 2) }];
    mistakes.add(
      param,
      `"${shortened(text)}" lacks a part; write the kind of provider, two underscores, the model`,
    );
    return [];
  });
}

/** Whole numbers from 0 to 599. */
function statusCodesOf(
  param: string,
  value: ListValue | undefined,
  mistakes: FilterMistakes,
): readonly number[] | undefined {
  return listOf(param, value, mistakes)?.flatMap((text) => {
    if (/^[1-5]?\d{1,2}$/.test(text)) return [Number(text)];
    mistakes.add(param, `"${shortened(text)}" is no status code; write numbers like 200,429`);
    return [];
  });
}

/** Texts by name, at most 20, from an object or its JSON. */
function metadataOf(
  param: string,
  value: string | Readonly<Record<string, string>> | undefined,
  mistakes: FilterMistakes,
): Readonly<Record<string, string>> | undefined {
  if (value === undefined) return undefined;
  const object = typeof value === 'string' ? jsonOf(value) : value;
  const wrong = metadataMistake(object);
  if (wrong === undefined) return object as Readonly<Record<string, string>>;
  mistakes.add(param, wrong);
  return undefined;
}

function metadataMistake(object: unknown): string | undefined {
  if (typeof object !== 'object' || object === null || Array.isArray(object))
    return 'is no JSON object; write {"name":"value"}';
  const pairs = Object.entries(object);
  if (pairs.length === 0) return 'names nothing; leave it out, or give at least one text';
  if (pairs.length > maxPairs) return `holds ${pairs.length} names; give at most ${maxPairs}`;
  for (const [name, text] of pairs) {
    if (typeof text !== 'string') return `holds under "${shortened(name)}" no text; write it in quotes`;
    if (name.length > longestValue || text.length > longestValue)
      return `holds more than ${longestValue} characters at "${shortened(name)}"; give less`;
  }
  return undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function shortened(text: string): string {
  return text.slice(0, 64);
}

/** Parameters with lists of texts, each with its filter and description. */
const lists = {
  ai_service: ['aiServices', 'Kinds of providers'],
  ai_model: ['models', 'Models as answered'],
  model: ['models', 'The same as `ai_model`'],
  provider: ['providers', 'Providers by slug'],
  virtual_keys: ['virtualKeys', 'Virtual keys by slug'],
  mcp_server: ['mcpServers', 'MCP servers by slug'],
  mcp_tool: ['mcpTools', 'Tools of MCP servers'],
  configs: ['configs', 'Saved configs by id'],
  prompt_slug: ['prompts', 'Prompts'],
  api_key_ids: ['apiKeys', 'Keys by id'],
  user: ['users', 'User of the request: the metadata `_user`, else the user of the key'],
  endpoint: ['endpoints', 'Endpoints'],
  cache_status: ['cacheStatuses', 'Result of the cache'],
  trace_id: ['traceIds', 'Traces'],
  span_id: ['spanIds', 'Spans'],
} as const satisfies Record<string, readonly [keyof RequestFilter, string]>;

/** Parameters with bounds `…_min` and `…_max`, each with its filter, description and schema. */
const ranges = {
  total_units: ['totalTokens', 'Tokens in all', Type.Integer({ minimum: 0 })],
  prompt_token: ['promptTokens', 'Tokens of the prompt', Type.Integer({ minimum: 0 })],
  completion_token: ['completionTokens', 'Tokens of the answer', Type.Integer({ minimum: 0 })],
  cost: [
    'cost',
    'US cents, as existing clients send them, while answers say US dollars',
    Type.Number({ minimum: 0 }),
  ],
  response_time: ['latencyMs', 'Milliseconds until the last byte', Type.Number({ minimum: 0 })],
  weighted_feedback: [
    'weightedFeedback',
    'Weighted average of the feedback of its trace',
    Type.Number({ minimum: -10, maximum: 10 }),
  ],
} as const satisfies Record<string, readonly [keyof RequestFilter, string, unknown]>;

type ListName = keyof typeof lists;
type RangeName = keyof typeof ranges;
type BoundName = `${RangeName}_min` | `${RangeName}_max`;

const listNames = Object.keys(lists) as ListName[];
const rangeNames = Object.keys(ranges) as RangeName[];
/** 100 values of 512 characters, with commas between them. */
const listText = 51_299;
const csv = 'with commas between them, or as a JSON list.';

const List = (description: string, ...examples: string[]) =>
  Type.String({
    minLength: 1,
    maxLength: listText,
    description: `${description}, ${csv}`,
    ...(examples.length > 0 && { examples }),
  });
const ListOrText = (description: string, ...examples: string[]) => {
  const values = Type.Array(Type.String({ maxLength: 512 }), { maxItems: 100 });
  return Type.Union([List(description, ...examples), values], { description });
};
const serviceModel = 'openai__gpt-5-mini';
const serviceModels = 'Kinds of providers, two underscores, and models';
const StatusCode = Type.Integer({ minimum: 0, maximum: 599 });
const Flag = Type.Boolean({ description: 'Whether the request succeeded.' });
const Search = Type.String({
  minLength: 1,
  maxLength: 256,
  description: 'Part of a logged body of the request or the answer, case-insensitive.',
});
const metadataNote = 'each of its texts must be in the metadata of the request; at most 20.';
const PlaceName = Name('Id or slug of a workspace: its requests alone.');

/** An instant, or a day by its name. */
const Moment = (description: string) =>
  Type.Union([Instant('A moment.'), Type.Literal('today'), Type.Literal('yesterday')], { description });

/** Parameters that queries and bodies share. */
const plain = {
  workspace_slug: Type.Optional(PlaceName),
  workspace_id: Type.Optional(PlaceName),
  time_of_generation_min: Type.Optional(
    Moment('Start: ISO 8601, or the day `today` or `yesterday` in UTC. Default: 24 hours before the end.'),
  ),
  time_of_generation_max: Type.Optional(
    Moment(
      'End: ISO 8601, exclusive, or the end of `today` or `yesterday`. Default: now. At most 366 days in all.',
    ),
  ),
  success: Type.Optional(Flag),
  search: Type.Optional(Search),
  ...bounds(),
};

/** The filters of analytics and logs, as parameters of a query. */
export const filterQuery = {
  ...plain,
  ...fields(listNames, (name) => Type.Optional(List(lists[name][1]))),
  ai_org_model: Type.Optional(List(serviceModels, serviceModel)),
  status_code: Type.Optional(List('Status codes', '200,429')),
  metadata: Type.Optional(
    Type.String({
      maxLength: 16_384,
      examples: ['{"team":"search"}'],
      description: `A JSON object: ${metadataNote}`,
    }),
  ),
};

/** The same as fields of a JSON body, where a list may be a list. */
export const filterBody = {
  ...plain,
  ...fields(listNames, (name) => Type.Optional(ListOrText(lists[name][1]))),
  ai_org_model: Type.Optional(ListOrText(serviceModels, serviceModel)),
  status_code: Type.Optional(
    Type.Union([List('Status codes', '200,429'), StatusCode, Type.Array(StatusCode, { maxItems: 100 })]),
  ),
  metadata: Type.Optional(
    Type.Union([
      Type.String({ maxLength: 16_384, description: 'The object as JSON.' }),
      Type.Record(Type.String(), Type.String({ maxLength: 512 }), {
        maxProperties: 20,
        description: `An object: ${metadataNote}`,
      }),
    ]),
  ),
};

/** Validated values of `filterQuery` or `filterBody`. */
export interface FilterValues
  extends
    TimeQuery,
    Readonly<Partial<Record<ListName | 'ai_org_model' | 'status_code', ListValue>>>,
    Readonly<Partial<Record<BoundName, number>>> {
  readonly workspace_slug?: string;
  readonly workspace_id?: string;
  readonly success?: boolean;
  readonly search?: string;
  readonly metadata?: string | Readonly<Record<string, string>>;
}

/**
 * Window and filter of the requested rows. Throws `invalid_request` with every mistake, each with its parameter and
 * remedy. The workspace is not part of it: see `visibilityIn`.
 */
export function readFilter(
  values: FilterValues,
  now: number,
): { readonly window: TimeWindow; readonly filter: RequestFilter } {
  const mistakes = new FilterMistakes();
  const found: Record<string, unknown> = {};
  const keep = (name: keyof RequestFilter, value: unknown): void => {
    if (value !== undefined) found[name] = value;
  };
  if (values.model !== undefined && values.ai_model !== undefined)
    mistakes.add('model', 'is there as "ai_model" too; keep one of them');
  for (const name of listNames) keep(lists[name][0], listOf(name, values[name], mistakes));
  keep('serviceModels', serviceModelsOf('ai_org_model', values.ai_org_model, mistakes));
  keep('statusCodes', statusCodesOf('status_code', values.status_code, mistakes));
  keep('metadata', metadataOf('metadata', values.metadata, mistakes));
  for (const name of rangeNames) {
    const [min, max] = [values[`${name}_min`], values[`${name}_max`]];
    if (min !== undefined && max !== undefined && min > max)
      mistakes.add(`${name}_min`, `must not be above "${name}_max"; give the smaller number first`);
    const unit = name === 'cost' ? dollars : (bound: number) => bound;
    if (min === undefined && max === undefined) continue;
    keep(ranges[name][0], {
      ...(min !== undefined && { min: unit(min) }),
      ...(max !== undefined && { max: unit(max) }),
    });
  }
  keep('isSuccess', values.success);
  keep('text', values.search);
  mistakes.throwIfAny();
  return { window: timeWindow(values, now), filter: found };
}

/** Cents as dollars, without the floating-point noise of the division. */
function dollars(cents: number): number {
  return Number((cents / 100).toPrecision(15));
}

type Bound = TOptional<TInteger | TNumber>;

function bounds(): Record<BoundName, Bound> {
  const said = rangeNames.flatMap((name): readonly [string, Bound][] => {
    const [, what, schema] = ranges[name];
    const bound = (end: string): Bound =>
      Type.Optional<TInteger | TNumber>(Object.assign({}, schema, { description: `${what}: ${end}.` }));
    return [
      [`${name}_min`, bound('at least so much')],
      [`${name}_max`, bound('at most so much')],
    ];
  });
  return Object.fromEntries(said) as Record<BoundName, Bound>;
}

function fields<K extends string, S>(names: readonly K[], schemaOf: (name: K) => S): Record<K, S> {
  return Object.fromEntries(names.map((name) => [name, schemaOf(name)])) as Record<K, S>;
}
