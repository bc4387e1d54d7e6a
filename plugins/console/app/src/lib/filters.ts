import type { operations } from '@/api/schema.gen';
import { textOf, type Search } from '@/lib/address';

type Query = NonNullable<operations['logs.list']['parameters']['query']>;
type Own =
  | 'order'
  | 'page_size'
  | 'cursor'
  | 'current_page'
  | 'include'
  | 'include_total'
  | 'time_of_generation_min'
  | 'time_of_generation_max';
/** Filters of requests, as the API of logs, traces and analytics takes them. */
export type Filters = Omit<Query, Own>;
export type FilterName = keyof Filters;

/** A property to filter by. */
export interface FilterKind {
  readonly name: FilterName;
  /**
   * `list`: any of some values; `one`: one value; `least`, `most`: a bound; `pairs`: names with values; `flag`: yes
   * or no.
   */
  readonly type: 'list' | 'one' | 'least' | 'most' | 'pairs' | 'flag';
  /** Values that requests have, of `pairs` names: the group of analytics to ask for them. */
  readonly group?: string;
  /** Values that are known beforehand. */
  readonly values?: readonly string[];
  /** The address and the API count cents where people say dollars. */
  readonly factor?: number;
}

/** In the order in which they are offered. */
export const filterKinds: readonly FilterKind[] = [
  { name: 'status_code', type: 'list', group: 'status_code' },
  { name: 'success', type: 'flag', values: ['true', 'false'] },
  { name: 'ai_model', type: 'list', group: 'model' },
  { name: 'provider', type: 'list', group: 'provider' },
  { name: 'ai_service', type: 'list', group: 'ai_service' },
  { name: 'user', type: 'list', group: 'users' },
  { name: 'api_key_ids', type: 'list', group: 'api_key' },
  { name: 'workspace_id', type: 'one', group: 'workspace' },
  {
    ...{ name: 'cache_status', type: 'list' },
    values: ['HIT', 'SEMANTIC HIT', 'MISS', 'SEMANTIC MISS', 'REFRESH', 'DISABLED'],
  },
  { name: 'response_time_min', type: 'least' },
  { name: 'response_time_max', type: 'most' },
  { name: 'cost_min', type: 'least', factor: 100 },
  { name: 'cost_max', type: 'most', factor: 100 },
  { name: 'total_units_min', type: 'least' },
  { name: 'total_units_max', type: 'most' },
  { name: 'metadata', type: 'pairs', group: 'metadata_key' },
  { name: 'configs', type: 'list', group: 'config' },
  { name: 'prompt_slug', type: 'list', group: 'prompt' },
  {
    ...{ name: 'endpoint', type: 'list' },
    values: [
      'chat.completions',
      'responses',
      'messages',
      'completions',
      'embeddings',
      'mcp.tools.call',
      'proxy',
    ],
  },
  { name: 'virtual_keys', type: 'list', group: 'virtual_key' },
  { name: 'mcp_server', type: 'list', group: 'mcp_server' },
  { name: 'mcp_tool', type: 'list', group: 'mcp_tool' },
  { name: 'trace_id', type: 'list' },
  { name: 'weighted_feedback_min', type: 'least' },
  { name: 'weighted_feedback_max', type: 'most' },
];

const byName = new Map(filterKinds.map((kind) => [kind.name, kind]));

/** The filters of an address, as the texts that the API takes. Others are left out. */
export function filterTexts(search: Search): ReadonlyMap<FilterName, string> {
  const found = new Map<FilterName, string>();
  for (const { name } of filterKinds) {
    const text = textOf(search[name]);
    if (text !== undefined) found.set(name, text);
  }
  return found;
}

/** The same as parameters of a call, with the words that are searched. */
export function filtersOf(search: Search): Filters {
  const found: Record<string, string | number | boolean> = {};
  for (const [name, text] of filterTexts(search)) {
    const type = byName.get(name)?.type;
    if (type === 'least' || type === 'most') {
      if (!Number.isNaN(Number(text))) found[name] = Number(text);
    } else if (type === 'flag') found[name] = text === 'true';
    else found[name] = text;
  }
  const words = textOf(search['search']);
  if (words !== undefined) found['search'] = words.slice(0, 256);
  return found;
}

/** The values of a list that the address holds: with commas, or as JSON. */
export function valuesOf(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  if (text.startsWith('['))
    try {
      const list: unknown = JSON.parse(text);
      if (Array.isArray(list)) return list.map(String);
    } catch {
      // A text that begins like a list.
    }
  return text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '');
}

/** The inverse: with commas where that is enough. Undefined for no values. */
export function listText(values: readonly string[]): string | undefined {
  if (values.length === 0) return undefined;
  const simple = values.every((one) => one !== '' && one === one.trim() && !/^\[|,/.test(one));
  return simple ? values.join(',') : JSON.stringify(values);
}

/** Names with values of the filter `metadata`. */
export function pairsOf(text: string | undefined): readonly (readonly [string, string])[] {
  if (text === undefined) return [];
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null)
      return Object.entries(value).map(([name, one]) => [name, String(one)]);
  } catch {
    // The gateway says what is wrong with it.
  }
  return [];
}
